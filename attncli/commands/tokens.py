"""attncli tokens: Split a text into a model's tokens and show what each one stands for.

Does not load torch, unless a model's tokenizer is one that transformers has in Python only (ESM, ByT5, XLM, …).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from attncli import __version__
from attncli.cli.command import spread
from attncli.cli.each_line import Answer, LineOptions, run_lines
from attncli.cli.options import ARGV, ModelName, Offline, OutputOptions, PairText, TextInput
from attncli.errors import ModelError, UsageError
from attncli.inputs.corpus import Pair
from attncli.labels import quoted_for_shell, safe_label
from attncli.record import Provenance, Token, Tokens
from attncli.view import Column, Header, Table

EXAMPLES = (
    'attncli tokens "To be, or not to be"',
    'echo "unbelievable!" | attncli tokens - --json',
    "attncli tokens --each-line --file corpus.txt -m ./smollm2-135m",
)

COLUMNS = (
    Column("position"),
    Column("id"),
    Column("label", "token"),
    Column("text"),
    Column("piece"),
    Column("start"),
    Column("end"),
    Column("special"),
)


Reader = Callable[[str, str | None], Tokens]


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """With which tokenizer."""

    pair: PairText = None
    model: ModelName = None
    offline: Offline = False


@spread
def tokens(text: TextInput, choice: TokenOptions, lines: LineOptions, output: OutputOptions) -> None:
    """Split a text into tokens."""
    from attncli.cli.common import plan_output, tell_next
    from attncli.cli.output import deliver
    from attncli.inputs.media import refuse_medium

    if lines.each_line:
        run_lines(lines, text.file, output, "Table").through(partial(_of_lines, choice))
        return
    plan = plan_output(output, "Table", default="table")
    read = text.read("tokens")
    refuse_medium(read)
    if not read:
        raise UsageError("the text is empty: it has no tokens")
    deliver(tokens_view(read, choice.model, pair=choice.pair, offline=choice.offline, argv=ARGV.get()), plan)
    of_model = f" -m {quoted_for_shell(choice.model)}" if choice.model else ""
    tell_next(f"attncli show TEXT{of_model}", read, plan)


def _of_lines(choice: TokenOptions, pairs: Iterator[Pair]) -> Iterator[Answer]:
    """Yield each line's tokens."""
    from attncli.inputs.media import refuse_medium

    for line, pair in pairs:
        try:
            refuse_medium(line.text)
            found = tokens_view(line.text, choice.model, pair=pair, offline=choice.offline, argv=ARGV.get())
            yield Answer((line, pair), found)
        except UsageError as error:
            yield Answer((line, pair), error)


def tokens_view(
    text: str,
    model: str | None = None,
    *,
    pair: str | None = None,
    offline: bool = False,
    argv: tuple[str, ...] = (),
) -> Table:
    """Tokenise and list the tokens.

    Args:
        text: The text.
        model: A model's folder or name on the hub; None is the default one; ``scratch`` splits into words.
        pair: A second text for the same encoding.
        offline: Whether a tokenizer that is not on this machine may not be fetched.
        argv: For the provenance.

    Raises:
        ModelError: There is no such model, or it has no tokenizer that can be read.
    """
    found, notes = _tokens(text, model, pair, offline)
    columns = (*COLUMNS, *_more_columns(found))
    return Table(
        header=Header(
            command="tokens",
            title=f"{len(found)} {'token' if len(found) == 1 else 'tokens'}",
            provenance=Provenance(attncli=__version__, argv=argv),
            notes=(*notes, *_notes(found)),
        ),
        columns=columns,
        rows=tuple(_row(token, columns) for token in found),
        rows_name="tokens",
        extra={"model": model, "text": text, "pair": pair},
    )


def _folder_of(model: str, *, offline: bool) -> Path | None:
    """Find the folder with a model's ``tokenizer.json``, or fetch that one file from the hub; None if there is none.

    Raises:
        ModelError: The model is not available.
    """
    from attncli.models.folders import fetch_file, missing_model, resolve_model_folder

    folder = resolve_model_folder(model)
    if folder is not None and (folder / "tokenizer.json").exists():
        return folder
    if Path(model).expanduser().exists():
        return None
    if folder is None and offline:
        raise missing_model(model)
    try:
        return fetch_file(model, "tokenizer.json").parent
    except ModelError:
        if folder is None:
            raise
        return None


@lru_cache(maxsize=1)
def _reader(name: str, *, offline: bool) -> tuple[Reader, str | None]:
    """Load what tokenises a text, with a second one; the note is there where `show` may not read it alike.

    A tokenizer without ``tokenizer.json`` is transformers' to make, which takes seconds.
    """
    folder = _folder_of(name, offline=offline)
    if folder is None:
        from attncli.models.loading import LoadOptions, tokenizer_of
        from attncli.models.python_tokenizers import read_text

        return partial(read_text, tokenizer_of(name, LoadOptions(offline=offline))), None

    from attncli.models.rebuilt import complete, note_on_class
    from attncli.models.tokens import load_tokenizer, tokens_from_encoding

    tokenizer = load_tokenizer(folder)
    complete(tokenizer, folder)

    def read(text: str, pair: str | None) -> Tokens:
        return tokens_from_encoding(tokenizer, tokenizer.encode(text, pair), text=text, pair=pair)

    return read, note_on_class(tokenizer, folder)


def _tokens(text: str, model: str | None, pair: str | None, offline: bool) -> tuple[Tokens, tuple[str, ...]]:
    from attncli.models.refusals import refused_as
    from attncli.models.shipped import DEFAULT
    from attncli.models.tokens import words_of_text
    from attncli.models.vocabulary_check import notes_on_pair

    if model in (None, "scratch"):
        if pair is not None:
            raise UsageError("--pair needs --model", "only a model's tokenizer joins two texts")
        if model == "scratch":
            return words_of_text(text), ("the scratch model's tokens are words and punctuation",)
    name = DEFAULT if model is None else model
    shown = safe_label(name)
    with refused_as(lambda reason: ModelError(f"{shown}: its tokenizer cannot read this text: {reason}")):
        read, note = _reader(name, offline=offline)
        tokens, alone = read(text, pair), None if pair is None else read(text, None)
    notes = () if note is None else (note,)
    if alone is not None:
        notes = (*notes, *notes_on_pair(alone, tokens))
    if model is None:
        notes = (
            *notes,
            f"as {DEFAULT} cuts the text, which reads it where no model is named; --model names one",
        )
    return tokens, notes


def _more_columns(tokens: Tokens) -> tuple[Column, ...]:
    """Return the columns that only some texts need."""
    more = []
    if any(token.bytes for token in tokens):
        more.append(Column("bytes"))
    if any(token.sequence == 1 for token in tokens):
        more.append(Column("sequence"))
    return tuple(more)


def _row(token: Token, columns: tuple[Column, ...]) -> tuple[object, ...]:
    return tuple(getattr(token, column.name) for column in columns)


def _notes(tokens: Tokens) -> tuple[str, ...]:
    loose = sum(token.bytes is not None for token in tokens)
    return (f"{loose} tokens are bytes of characters that were cut apart",) if loose else ()
