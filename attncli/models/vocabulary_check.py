"""Whether a tokenizer is the one that its files describe, and whether it knows the text that it is given.

transformers chooses a tokenizer's class by names. Where the class looks for other files than those that lie there, it
makes a tokenizer of a few special tokens and says nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from attncli.errors import ModelError
from attncli.labels import safe_label
from attncli.record import Tokens
from attncli.written import written

_COUNTED = re.compile(r"(\S+) \d+")
"""A line of fairseq's dictionaries: a token, and how often it was seen."""

_TOLERATED = 0.01
"""Share of a vocabulary whose ids may differ: special tokens are often put elsewhere."""

_MANY = 0.1
"""Share of unknown tokens that is told."""

_SHOWN = 5


def check_vocabulary(tokenizer: Any, folder: Path, name: str) -> None:
    """Refuse a tokenizer whose ids are not those of the vocabulary file in its folder.

    Raises:
        ModelError: They are not, for more than a few tokens.
    """
    found = _vocabulary_file(tokenizer, folder)
    if found is None:
        return
    file, wanted = found
    ids: Mapping[str, int] = tokenizer.get_vocab()
    shifts = Counter(ids[token] - number for token, number in wanted.items() if token in ids)
    shift = shifts.most_common(1)[0][0] if shifts else 0  # fairseq's families put special tokens in front
    wrong = [token for token, number in wanted.items() if ids.get(token) != number + shift]
    if len(wrong) <= _TOLERATED * len(wanted):
        return
    example = wrong[0]
    got = ids.get(example)
    raise ModelError(
        f"{name}: transformers makes a {type(tokenizer).__name__} that does not fit {file}: {len(wrong):,} of "
        f"{len(wanted):,} tokens have another id or none ({safe_label(example)}: {wanted[example]} there, "
        f"{'none' if got is None else got} in the tokenizer)",
        "tokenizer_class in its tokenizer_config.json does not read this file; save the tokenizer again",
    )


def _vocabulary_file(tokenizer: Any, folder: Path) -> tuple[str, Mapping[str, int]] | None:
    """Read the vocabulary that a folder describes; None where nothing can be compared.

    A plain TokenizersBackend is read from tokenizer.json as a whole.
    """
    if (folder / "tokenizer.json").is_file():
        if type(tokenizer).__name__ in ("TokenizersBackend", "PreTrainedTokenizerFast"):
            return None
        model = orjson.loads((folder / "tokenizer.json").read_bytes()).get("model") or {}
        return _checked("tokenizer.json", _numbered(model.get("vocab")))
    if (folder / "vocab.txt").is_file():
        lines = (folder / "vocab.txt").read_text(encoding="utf-8", errors="replace").split("\n")
        counted = [match[1] for line in lines if (match := _COUNTED.fullmatch(line)) is not None]
        tokens = counted if len(counted) >= len(lines) - 1 else lines
        return _checked(
            "vocab.txt", {token.strip("\r"): i for i, token in enumerate(tokens) if token.strip()}
        )
    if (folder / "vocab.json").is_file():
        return _checked("vocab.json", _numbered(orjson.loads((folder / "vocab.json").read_bytes())))
    return None


def _checked(file: str, vocabulary: Mapping[str, int]) -> tuple[str, Mapping[str, int]] | None:
    return (file, vocabulary) if vocabulary else None


def _numbered(vocabulary: object) -> Mapping[str, int]:
    """Return a vocabulary by token: BPE and WordPiece map tokens to ids, Unigram lists them with their scores."""
    if isinstance(vocabulary, list):
        return {str(entry[0]): number for number, entry in enumerate(vocabulary) if isinstance(entry, list)}
    if isinstance(vocabulary, dict) and all(isinstance(number, int) for number in vocabulary.values()):
        return vocabulary
    return {}  # one vocabulary a language, or something else that is not known


def notes_on_text(tokens: Tokens, text: str, pair: str | None, unknown: int | None) -> Iterator[str]:
    """Yield what a tokenizer does not know of a text: many unknown tokens, characters that are in no token.

    Args:
        unknown: The id of the unknown token, if the vocabulary has one.
    """
    own = [token for token in tokens if not token.special]
    lost = [token for token in own if token.id == unknown]
    if unknown is not None and lost and len(lost) >= _MANY * len(own):
        name = safe_label(lost[0].piece or lost[0].text)
        yield (
            f"{len(lost):,} of the text's {len(own):,} tokens are {name}: the model's vocabulary does not have "
            f"{'them' if len(lost) > 1 else 'it'}"
        )
    if any(token.start is None or token.end is None for token in own):
        return
    left = "".join(
        _uncovered(part, [(token.start or 0, token.end or 0) for token in own if token.sequence == number])
        for number, part in enumerate((text, pair or ""))
    )
    left += _dropped_marks(tuple(token for token in own if token.id != unknown))
    if left:
        shown = ", ".join(safe_label(character) for character in list(dict.fromkeys(left))[:_SHOWN])
        are = "character of the text is" if len(left) == 1 else "characters of the text are"
        yield f"{len(left):,} {are} in no token, so the model does not see them: {shown}"


def notes_on_pair(alone: Tokens, both: Tokens) -> Iterator[str]:
    """Yield what a tokenizer's template for two texts leaves out.

    Args:
        alone: The first text's tokens without the second.
    """
    there = {token.id for token in both if token.special}
    missing = [safe_label(token.text) for token in alone if token.special and token.id not in there]
    if missing:
        names = ", ".join(dict.fromkeys(missing))
        yield f"the tokenizer adds {names} to one text, but not to two: it has no template for a pair"
    if {token.sequence for token in both if not token.special} == {0, 1} and not _is_parted(both):
        yield "nothing stands between the two texts: the model reads them as one"


def _is_parted(tokens: Tokens) -> bool:
    """Whether a special token stands between two texts."""
    second = next(place for place, token in enumerate(tokens) if token.sequence == 1)
    return tokens[second - 1].special


def _dropped_marks(tokens: Tokens) -> str:
    """Return the accents and points of the text that no token has, since the tokenizer drops them."""
    raw = (
        bytes.fromhex(token.bytes) if token.bytes else token.text.encode("utf-8", "replace")
        for token in tokens
    )
    seen = unicodedata.normalize("NFD", b"".join(raw).decode("utf-8", "replace"))
    dropped = Counter(filter(_is_mark, written(tokens).text)) - Counter(filter(_is_mark, seen))
    return "".join(dropped.elements())


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) == "Mn"


def _uncovered(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the characters, blanks apart, that lie before or between some spans; what follows may have been cut."""
    left, last = [], 0
    for start, end in sorted(spans):
        left.append(text[last:start])
        last = max(last, end)
    return "".join("".join(left).split())
