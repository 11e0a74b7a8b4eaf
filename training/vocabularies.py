"""The small models' tokenizers: byte-level pieces learnt from text, or the words of dates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def pieces(texts: Iterable[str], size: int, *, ends: bool) -> Tokenizer:
    """Learn a byte-level vocabulary by merging the most frequent pairs, like GPT-2's.

    Args:
        ends: Whether a text ends with ``</s>`` as it begins with ``<s>``, and there is a ``<mask>``: for an encoder.

    Reference:
        Sennrich et al. 2016, arXiv 1508.07909; Radford et al. 2019, §2.2 (over bytes).
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    specials = ["<s>", "</s>", "<mask>"] if ends else ["<s>"]
    # A gap takes in the space before it, as the pieces do.
    added = [AddedToken(name, lstrip=name == "<mask>", special=True) for name in specials]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=added,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>" if ends else "<s> $A",
        special_tokens=[(name, index) for index, name in enumerate(specials)],
    )
    return tokenizer


def words(known: Iterable[str]) -> Tokenizer:
    """Make a vocabulary of whole words and pairs of digits, for both sides of a translation.

    Spaces and the hyphens inside words are dropped, so that "twenty-third" is two words. The target side alone begins
    and ends with ``<s>`` and ``</s>``.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    specials = ["<pad>", "<s>", "</s>", "<unk>"]
    numbered = {word: index for index, word in enumerate(dict.fromkeys([*specials, *known]))}
    tokenizer = Tokenizer(models.WordLevel(numbered, unk_token="<unk>"))
    tokenizer.add_special_tokens(specials)
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\s+|(?<=\p{L})-(?=\p{L})"), "removed"),
            pre_tokenizers.Split(Regex(r"[0-9]{2}|[^\p{L}]"), "isolated"),
        ]
    )
    return tokenizer
