"""One text a line: a command's answer for each line of a file, written as soon as it is known.

The command gives the answers, in the order of the lines; here lines are read, records and pictures written, mistakes
told with the number of their line, and an interrupted run is gone on with.
"""

from __future__ import annotations

import re
import sys
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from attncli.cli.options import BatchSize, FieldName, OutputOptions, PairFieldName, SkipErrors
from attncli.cli.rules import Rule
from attncli.errors import AttnCliError, CaptureError, ReadError, UsageError
from attncli.inputs.corpus import BadLine, CorpusFile, Line, Pair
from attncli.inputs.media import refuse_medium
from attncli.labels import safe_label

if TYPE_CHECKING:
    from attncli.cli.output import Plan
    from attncli.cli.progress import Update
    from attncli.cli.record_file import RecordFile
    from attncli.view import View

PATIENCE = 64
"""Texts on which the model may fail before any has worked: then it is the model that does not run."""

_LONGEST_NAME = 120
"""Bytes that an id has in the name of a file, at most."""

_PLACES = ("{id}", "{line}")


@dataclass(frozen=True, slots=True)
class LineOptions:
    """A text a line."""

    panel: ClassVar[str] = "Corpus"
    rules: ClassVar = (
        Rule(
            "--each-line",
            excludes="TEXT NAME --pair --stride --generate --chat",
            hint="it reads a text from each line of --file or a pipe",
        ),
        Rule(
            "--field --pair-field --batch-size --skip-errors --resume",
            needs="--each-line",
            hint="add --each-line",
        ),
    )

    each_line: Annotated[
        bool,
        typer.Option(
            "--each-line", help="Each line is a text: one record each, or a file with {id} in its name."
        ),
    ] = False
    field: FieldName = None
    pair_field: PairFieldName = None
    skip_errors: SkipErrors = False
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on after the last whole record of the .ndjson file of -o.")
    ] = False


@dataclass(frozen=True, slots=True)
class BatchedLineOptions(LineOptions):
    """A text a line, several at once."""

    batch_size: BatchSize = 32


@dataclass(frozen=True)
class Answer:
    """What came of one line.

    Args:
        found: The view, or why there is none.
        pictures: What formats that draw show instead, where the view is a list.
    """

    pair: Pair
    found: View | AttnCliError
    pictures: View | None = None


@dataclass
class LineRun:
    """A command over the lines of a file.

    Args:
        plan: Where answers go: the names of files have places for the line's number or the text's id.
        records: A file that all answers go into.
    """

    corpus: CorpusFile
    plan: Plan
    options: LineOptions
    records: RecordFile | None
    done: int = 0
    failed: int = 0
    _names: deque[str] = field(default_factory=deque)
    _taken: dict[str, int] = field(default_factory=dict)
    _waiting: list[tuple[Line, AttnCliError]] = field(default_factory=list)

    @property
    def documents(self) -> Plan:
        """The plan of each text's own answer: a record holds what a JSON document does."""
        files = tuple((path, _as_document(name)) for path, name in self.plan.files)
        stdout = self.plan.stdout and _as_document(self.plan.stdout)
        return replace(self.plan, files=files, stdout=stdout)

    def through(self, answers: Callable[[Iterator[Pair]], Iterator[Answer]]) -> None:
        """Go through the lines, and write what comes of each.

        Raises:
            AttnCliError: Lines could not be used, or something is not as it was when the run was interrupted.
        """
        from attncli.cli.output import say
        from attncli.cli.progress import progress

        shown = self.plan.stdout is None or not self.plan.screen.tty
        try:
            with progress("texts", self.plan.output, total=self.corpus.size, shown=shown) as update:
                tell = self._teller(update)
                for answer in answers(self._pairs()):
                    self._take(answer)
                    tell(answer)
        except KeyboardInterrupt:
            if self.records is not None and self.done and not self.plan.output.quiet:
                say("interrupted; the same command with --resume goes on")
            raise
        finally:
            if self.records is not None:
                self.records.close()
        self._finish()

    def _pairs(self) -> Iterator[Pair]:
        """Yield the texts that are still to be done; tell of lines that cannot be read."""
        last = None if self.records is None else self.records.last
        before = 0 if last is None else int(last["line"])
        number = 0
        for found in self.corpus.read():
            line = found if isinstance(found, BadLine) else found[0]
            number = line.number
            name = "" if isinstance(line, BadLine) else self._name_for(line)
            if last is not None and number == before and getattr(line, "text", None) != last["text"]:
                raise ReadError(f"--resume: line {number} has changed since that run", "leave --resume out")
            if number <= before:
                continue
            if isinstance(found, BadLine):
                self._tell(found)
                continue
            self._names.append(name)
            yield found
        if number < before:
            raise ReadError(
                f"--resume: that run read {before:,} lines, here are {number:,}", "leave --resume out"
            )

    def _name_for(self, line: Line) -> str:
        """Return a name for a text's files: its id, made safe and numbered where another has had it already."""
        name = str(line.number) if line.id is None else file_name(str(line.id))
        if self.corpus.field is None:
            return name
        base, key = name, name.casefold()
        while key in self._taken:
            self._taken[key] += 1
            name = f"{base}-{self._taken[key]}"
            key = name.casefold()
        self._taken[key] = 1
        return name

    def _take(self, answer: Answer) -> None:
        name = self._names.popleft()
        if isinstance(answer.found, AttnCliError):
            self._waiting.append((answer.pair[0], answer.found))
            first = len(self._waiting) == PATIENCE and not self.done
            if first and all(isinstance(error, CaptureError) for _, error in self._waiting):
                raise answer.found
        else:
            self._write(answer, answer.found, name)
            self.done += 1
        if self.done or len(self._waiting) >= PATIENCE:
            self._tell_waiting()

    def _write(self, answer: Answer, view: View, name: str) -> None:
        """Write the files of one text, and its record after them: what has a record is done."""
        from attncli.cli.output import deliver, write_stdout
        from attncli.render.json_format import record

        line, pair = answer.pair
        files = tuple((_filled(path, line, name), form) for path, form in self.plan.files if _has_place(path))
        quiet = replace(self.plan, output=replace(self.plan.output, quiet=1))
        deliver(view, replace(quiet, files=files, stdout=None), answer.pictures)
        if self.plan.stdout not in (None, "ndjson"):
            named = replace(view.header, title=f"line {line.number} · {view.header.title}")
            deliver(replace(view, header=named), replace(quiet, files=()), answer.pictures)
        if self.plan.stdout != "ndjson" and self.records is None:
            return
        about = {"line": line.number, "id": line.id, "text": line.text, "pair": pair}
        written = record(view, {key: value for key, value in about.items() if value is not None})
        if self.records is not None:
            self.records.write(written)
        if self.plan.stdout == "ndjson":
            write_stdout(written, self.plan.screen)

    def _tell_waiting(self) -> None:
        for line, error in self._waiting:
            self._tell(BadLine(line.number, error.message))
        self._waiting.clear()

    def _tell(self, bad: BadLine) -> None:
        from attncli.cli.output import say

        self.failed += 1
        if not self.plan.output.quiet:
            say(self.corpus.name_of(bad))

    def _teller(self, update: Update) -> Callable[[Answer], None]:
        started = time.monotonic()

        def tell(answer: Answer) -> None:
            rate = self.done / max(time.monotonic() - started, 1e-9)
            update(f"{self.done:,} texts, {rate:,.0f} texts/s", len(answer.pair[0].text.encode()) + 1)

        return tell

    def _finish(self) -> None:
        from attncli.cli.output import say

        self._tell_waiting()
        if self.done and not self.plan.output.quiet:
            for path, _ in self.plan.files:
                say(f"wrote {safe_label(str(path))} ({self.done:,} texts)")
        if self.failed and not self.done:
            raise ReadError(
                f"none of the {self.failed:,} lines could be used",
                "each is named with what is wrong, unless -q was given",
            )
        if self.failed and not self.options.skip_errors:
            lines = "line" if self.failed == 1 else "lines"
            raise ReadError(
                f"{self.failed:,} {lines} could not be used; the others are done",
                "--skip-errors accepts that",
            )
        if not self.done and (self.records is None or self.records.last is None):
            raise ReadError("the corpus is empty: there is no text in it", "one text a line, or JSON lines")


def run_lines(
    options: LineOptions,
    file: str | None,
    output: OutputOptions,
    view: str,
    *,
    top: int | None = None,
) -> LineRun:
    """Settle what is read and where answers go, before a model is loaded.

    Args:
        file: The corpus; stdin where None.
        view: Name of the kind of view that will come.
        top: How many keys of a row are listed.

    Raises:
        AttnCliError: The corpus cannot be read, or the answers cannot be written.
    """
    from attncli.cli.common import plan_output
    from attncli.cli.record_file import RecordFile

    plan = plan_output(output, view, top=top, default="ndjson")
    if plan.stdout in ("json", "csv", "tsv", "npz"):
        raise UsageError(
            f"--each-line has no {plan.stdout} form on stdout", "-f ndjson: one JSON document a line"
        )
    common = [path for path, _ in plan.files if not _has_place(path)]
    for path, form in plan.files:
        if any(place in str(path.parent) for place in _PLACES):
            raise UsageError(f"-o {path}: {{id}} and {{line}} stand in a file's name, not in its folder's")
        if path in common and form != "ndjson":
            raise UsageError(
                f"-o {safe_label(str(path))}: one file for all texts, which only .ndjson can be",
                f"a file for each: -o '{safe_label(path.stem)}-{{id}}{safe_label(path.suffix)}'",
            )
    if len(common) > 1 or (options.resume and not common):
        raise UsageError(
            "--resume needs -o FILE.ndjson" if not common else "-o names several files for all texts",
            "one file of records: -o FILE.ndjson",
        )
    if file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise UsageError("no text was given", "try: --file texts.txt --each-line  or  … | attncli …")
    refuse_medium(file)
    corpus = CorpusFile.named(file or "-", options.field, options.pair_field)
    records = None
    if common:
        records = RecordFile(common[0], no_clobber=output.no_clobber, resume=options.resume)
    return LineRun(corpus, plan, options, records)


def file_name(text: str) -> str:
    """Make an id fit to be a part of a file's name anywhere.

    >>> file_name("a/b: 1"), file_name("../x"), file_name("")
    ('a_b_1', 'x', '_')
    """
    kept = re.sub(r"[^\w.-]+", "_", unicodedata.normalize("NFC", text)).strip("._")
    return kept.encode()[:_LONGEST_NAME].decode(errors="ignore") or "_"


def _as_document(form: str) -> str:
    return "json" if form == "ndjson" else form


def _has_place(path: Path) -> bool:
    return any(place in path.name for place in _PLACES)


def _filled(path: Path, line: Line, name: str) -> Path:
    return path.with_name(path.name.replace("{id}", name).replace("{line}", str(line.number)))
