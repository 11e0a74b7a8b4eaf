"""Which token of a model's vocabulary a text names: what ``explain --to`` asks after."""

from __future__ import annotations

from collections.abc import Sequence

from attncli.errors import UsageError
from attncli.models.opening import Opened
from attncli.models.pretrained import PretrainedSource
from attncli.models.tokens import tokens_from_ids
from attncli.models.trained import TrainedSource
from attncli.record import Token


def next_token(source: Opened, text: str) -> tuple[Token, list[str]]:
    """Return the one token that a text is, and notes on what else may have been meant.

    Raises:
        UsageError: The model predicts no tokens, or the text is several of them.
    """
    if isinstance(source, TrainedSource):
        tokenizer = source.tokenizer
    elif isinstance(source, PretrainedSource) and "decoder" in source.kinds:
        tokenizer = source.loaded.tokenizer.backend_tokenizer
    else:
        raise UsageError(
            "--to: this model predicts no next token", "name a decoder with a language-model head"
        )

    def pieces(of: str) -> Sequence[Token]:
        ids = tokenizer.encode(of, add_special_tokens=False).ids
        return tokens_from_ids(tokenizer, ids)

    known = tokenizer.token_to_id(text)
    found = tokens_from_ids(tokenizer, [known]) if known is not None else pieces(text)
    if len(found) != 1:
        named = ", ".join(f"“{token.label}”" for token in found) or "none"
        raise UsageError(
            f"--to “{text}”: {len(found)} tokens ({named}), and a logit is of one", "name the first"
        )
    notes = []
    if not text.startswith(" ") and len(other := pieces(f" {text}")) == 1 and other[0].id != found[0].id:
        notes.append(f'“{found[0].label}” has no blank before it: --to " {text}" is another token')
    return found[0], notes
