"""A text as a message of a conversation: a model's chat template, and which tokens are whose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from attncli.errors import CaptureError, ModelError, UsageError
from attncli.models.loading import Loaded
from attncli.models.prepared_text import Prepared, prepare, tokenize
from attncli.models.python_tokenizers import is_fast
from attncli.record import Tokens

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation as the model reads it, up to where the assistant answers.

    Args:
        text: With the template's marks.
        user: Where the user's part begins, in characters; before it is the system's.
        assistant: Where the assistant's part begins.
    """

    text: str
    user: int
    assistant: int

    def segment(self, start: int) -> str:
        """Name the part that a character belongs to."""
        return "system" if start < self.user else ("user" if start < self.assistant else "assistant")


def prepare_chat(loaded: Loaded, text: str, system: str | None = None, *, truncate: bool = False) -> Prepared:
    """Make a text ready as a user's message, with each token's part of the conversation marked.

    Args:
        system: What the system says before it; the template's own default, if it has any, where None.

    Raises:
        UsageError: The model has no chat template, or its template takes no such conversation, or the text is empty.
    """
    if not text:
        raise UsageError("the text is empty: there is nothing to attend to")
    conversation = converse(loaded, text, system)
    prepared = prepare(loaded, conversation.text, truncate=truncate, specials=False)
    if not is_fast(loaded.tokenizer):
        raise ModelError(
            f"--chat: {loaded.name}'s tokenizer does not say which tokens are whose",
            "leave --chat out and write the conversation into the text",
        )
    made = tokenize(loaded, text=conversation.text, add_special_tokens=False, return_offsets_mapping=True)
    starts = [start for start, _ in made["offset_mapping"]]
    marked = {kind: _marked(tokens, conversation, starts) for kind, tokens in prepared.queries.items()}
    notes = (*prepared.notes, *(_parts_note(tokens) for tokens in marked.values()))
    return replace(prepared, queries=marked, keys=marked, notes=notes)


def converse(loaded: Loaded, text: str, system: str | None) -> Conversation:
    """Write a conversation by a model's template and find its parts.

    Raises:
        UsageError: The model has no chat template, or its template takes no such conversation.
    """
    if not getattr(loaded.tokenizer, "chat_template", None):
        raise UsageError(
            f"--chat: {loaded.name} has no chat template",
            "leave --chat out, or name a model that was tuned to chat",
        )
    before = [] if system is None else [{"role": "system", "content": system}]
    messages = [*before, {"role": "user", "content": text}]
    whole = _write(loaded, messages, answer=True)
    assistant = _common_start(whole, _write(loaded, messages))
    return Conversation(whole, _start_of_user(loaded, messages, whole[:assistant]), assistant)


def _start_of_user(loaded: Loaded, messages: Sequence[Message], written: str) -> int:
    """Find where the last message begins, its opening marks included; failing that, where its content does.

    What one message more adds to a conversation is that message alone, without the template's default system part.
    """
    last = messages[-1]
    answered = [*messages, {"role": "assistant", "content": "x"}]
    try:
        before = _write(loaded, answered)
        after = _write(loaded, [*answered, last])
    except UsageError:
        before = after = ""
    block = after[len(before) :] if before and after.startswith(before) else ""
    if block and written.endswith(block):
        return len(written) - len(block)
    return max(written.rfind(last["content"].strip()), 0)


def _common_start(first: str, second: str) -> int:
    same = (index for index, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(same, min(len(first), len(second)))


def _write(loaded: Loaded, messages: Sequence[Message], *, answer: bool = False) -> str:
    from jinja2 import TemplateError

    try:
        written: Any = loaded.tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=answer
        )
    except (TemplateError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:160]
        raise UsageError(f"--chat: {loaded.name}'s template takes no such conversation: {reason}") from error
    return str(written)


def _parts_note(tokens: Tokens) -> str:
    parts = [(name, list(same)) for name, same in groupby(tokens, key=lambda token: token.segment)]
    told = ", ".join(f"{name} {same[0].position}–{same[-1].position}" for name, same in parts)
    return f"parts of the conversation (▸ where one begins): {told}"


def _marked(tokens: Tokens, conversation: Conversation, starts: Sequence[int]) -> Tokens:
    if len(starts) < len(tokens):
        raise CaptureError("the conversation was tokenised in two ways")
    return tuple(
        replace(token, segment=conversation.segment(start))
        for token, start in zip(tokens, starts, strict=False)
    )
