"""Takes a view to where the user wants it: stdout in one format, files in others, nothing half-written."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import BinaryIO, cast

from attncli import registry
from attncli.cli.options import COLORMAPS, OutputOptions
from attncli.errors import ClosedPipe, TooLargeError, UsageError, WriteError, did_you_mean
from attncli.labels import safe_label, visible_controls
from attncli.render import Format, Options, formats_with, listing_formats
from attncli.terminal import Abilities, abilities, silence
from attncli.view import MatrixGrid, View

LARGEST_TEXT = 10_000_000
"""More numbers than this are not written as text unless asked for with --yes-large."""


CAUGHT: ContextVar[list[View] | None] = ContextVar("CAUGHT", default=None)
"""Where set, `deliver` puts the view there and writes nothing: for callers from Python."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a view will go, checked before anything is computed.

    Args:
        files: Path and format of each file.
        stdout: The format for stdout; None where nothing goes there.
    """

    output: OutputOptions
    files: tuple[tuple[Path, str], ...]
    stdout: str | None
    screen: Abilities

    @property
    def formats(self) -> frozenset[str]:
        """The formats that the view will be written in."""
        return frozenset(name for _, name in self.files) | ({self.stdout} if self.stdout else frozenset())

    @property
    def lists(self) -> bool:
        """Whether all of them show no more than each row's strongest keys where just these are wanted."""
        return listing_formats() >= self.formats


def plan(output: OutputOptions, view: str, *, default: str = "heatmap") -> Plan:
    """Check the output options against the formats there are, and that each file can be written.

    Args:
        view: Name of the kind of view that will come: ``MatrixGrid``, ``Table``.
        default: Format of stdout where the user wants ``auto``.

    Raises:
        UsageError: An unknown format or ending, or two that contradict each other.
        WriteError: A file cannot be written.
    """
    formats = _formats_for(view)
    screen = abilities(sys.stdout, color=output.color, width=output.width)
    asked = "json" if output.json else output.format
    if asked != "auto" and asked not in formats:
        known = asked in registry.entries("formats")
        why = "not available for this command" if known else "unknown format"
        raise UsageError(f"--format {asked}: {why}", did_you_mean(asked, ["auto", *formats]))
    outputs = output.output or []
    files = [(Path(name), _format_of_file(name, asked, formats)) for name in outputs if name != "-"]
    if output.open and not files:
        files = [(Path(mkdtemp(prefix="attncli-")) / "attncli.html", "html")]
    # A format that was asked for goes to stdout too, unless one of the files has it already.
    only_here = asked != "auto" and asked not in [name for _, name in files]
    to_stdout = only_here or not files or "-" in outputs
    chosen = default if asked == "auto" else asked
    if to_stdout:
        _check_open("-o FILE writes a file")
    if to_stdout and formats[chosen].attributes["binary"] and screen.tty:
        raise UsageError(
            f"--format {chosen} is not for a terminal", f"-o FILE{_suffix(formats[chosen])} writes a file"
        )
    for path, _ in files:
        _check_writable(path, output.no_clobber)
    return Plan(output, tuple(files), chosen if to_stdout else None, screen)


def deliver(view: View, to: Plan, pictures: View | None = None) -> None:
    """Render a view and write it everywhere it should go.

    Args:
        pictures: What formats that draw show instead, where the view is a list.

    Raises:
        TooLargeError: So many numbers as text would help nobody.
        WriteError: A file could not be written; none is left half-written.
    """
    if (caught := CAUGHT.get()) is not None:
        caught.append(view)
        return
    if isinstance(view, MatrixGrid):
        refuse_too_many(to, len(view.matrices), len(view.query_tokens), len(view.key_tokens), view.top)
    drawn = view if pictures is None else pictures
    for path, name in to.files:
        _write_file(
            path, _render(name, drawn if name in formats_with("draws") else view, _options_for_file(to)), to
        )
    if to.output.open:
        _open(to.files[0][0])
    options = _options_for_screen(to)
    if to.stdout is not None:
        shown = drawn if to.stdout in formats_with("draws") else view
        write_stdout(_render(to.stdout, shown, options), to.screen)
    is_bare = to.stdout == "table" and not options.terminal  # a table in a pipe
    if (is_bare or to.stdout not in formats_with("notes")) and not to.output.quiet:
        for note in view.header.notes:
            say(f"note: {note}")


def _open(path: Path) -> None:
    """Open a file in the program that the user's desktop has for it."""
    import typer

    if typer.launch(str(path)) != 0:
        say(f"note: there is no program to open {safe_label(str(path))} with")


def deliver_text(text: str, to: Plan | None = None) -> None:
    """Write a text as it is, a schema or a script: to stdout, or where a plan says.

    Raises:
        WriteError: The disk after stdout is full, or the like.
    """
    if to is not None:
        for path, _ in to.files:
            _write_file(path, text.encode(), to)
    if to is None or to.stdout is not None:
        write_stdout(text.encode(), abilities(sys.stdout))


def _write_file(path: Path, content: bytes, to: Plan) -> None:
    size = write_whole(path, content, no_clobber=to.output.no_clobber)
    if not to.output.quiet:
        say(f"wrote {safe_label(str(path))} ({size:,} bytes)")


def say(line: str) -> None:
    """Write one line to stderr, whatever it can encode; controls in it are made visible.

    Where nobody reads stderr any more, the line is dropped.
    """
    stream = sys.stderr
    if stream is None:
        return  # closed by the shell: 2>&-
    encoding = getattr(stream, "encoding", None) or "utf-8"
    line = "\n".join(map(visible_controls, line.split("\n")))
    try:
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except BrokenPipeError:
        silence(stream)


def write_stdout(content: bytes, screen: Abilities) -> None:
    """Write bytes to stdout, in its encoding where they are text.

    Raises:
        ClosedPipe: Nobody reads any more.
        WriteError: The disk after stdout is full, or the like.
    """
    if not screen.unicode:
        try:
            content = content.decode("utf-8").encode(screen.encoding, "backslashreplace")
        except UnicodeDecodeError:
            pass  # a picture or an archive
    _check_open()
    try:
        sys.stdout.flush()
        _write_all(sys.stdout.buffer, content)
        sys.stdout.buffer.flush()
    except BrokenPipeError as error:
        raise ClosedPipe("stdout is closed") from error
    except OSError as error:
        raise WriteError(f"stdout: {_reason(error)}") from error


def _check_open(hint: str | None = None) -> None:
    if sys.stdout is None:  # what a program gets that is started with stdout closed
        raise WriteError("stdout is closed", hint)


def _write_all(stream: BinaryIO, content: bytes) -> None:
    """Write everything: with PYTHONUNBUFFERED the stream is raw, and a write may take just the first part."""
    rest = memoryview(content)
    while rest:
        rest = rest[stream.write(rest) or 0 :]


def write_whole(path: Path, content: bytes, *, no_clobber: bool = False) -> int:
    """Write a file whole or not at all: a temporary file beside it takes its place when it is complete.

    Links are followed; pipes and devices are written to as they are.

    Returns:
        Number of bytes.

    Raises:
        WriteError: It could not be written.
    """
    with writing_to(path):
        if _is_special(path):
            with path.open("wb") as stream:
                stream.write(content)
        else:
            _replace(Path(os.path.realpath(path)), content, no_clobber)
    return len(content)


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is written into our errors.

    Raises:
        WriteError: It could not be written.
    """
    try:
        yield
    except BrokenPipeError as error:
        raise ClosedPipe(f"{safe_label(str(path))} is closed") from error
    except OSError as error:
        raise WriteError(f"{safe_label(str(path))}: {_reason(error)}") from error


def _replace(path: Path, content: bytes, no_clobber: bool) -> None:
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
        if no_clobber:
            os.link(temporary, path)  # unlike replace, this fails where the file has come up meanwhile
        else:
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _check_writable(path: Path, no_clobber: bool) -> None:
    shown = safe_label(str(path))
    if _is_special(path):
        return
    if path.is_dir():
        raise WriteError(f"{shown}: is a directory", f"name a file in it: {shown.rstrip('/')}/heads.png")
    if no_clobber and path.exists():
        raise WriteError(f"{shown}: exists already (--no-clobber)")
    target = Path(os.path.realpath(path))
    if target.exists() and not os.access(target, os.W_OK):
        raise WriteError(f"{shown}: {os.strerror(errno.EACCES)}")
    probe = target.with_name(f".{target.name}.{os.urandom(4).hex()}.part")
    try:
        probe.open("xb").close()
        probe.unlink()
    except OSError as error:
        raise WriteError(f"{shown}: {_reason(error)}") from error


def _is_special(path: Path) -> bool:
    """Return a pipe or a device, which is written to as it is, from a file."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _formats_for(view: str) -> Mapping[str, registry.Entry]:
    return {name: entry for name, entry in registry.entries("formats").items() if view in _views(entry)}


def _views(entry: registry.Entry) -> Sequence[str]:
    return cast(Sequence[str], entry.attributes["views"])


def _suffixes(entry: registry.Entry) -> Sequence[str]:
    return cast(Sequence[str], entry.attributes["suffixes"])


def _suffix(entry: registry.Entry) -> str:
    return next(iter(_suffixes(entry)), "")


def _format_of_file(output: str, asked: str, formats: Mapping[str, registry.Entry]) -> str:
    suffix = Path(output).suffix.lower()
    by_suffix = {ending: name for name, entry in formats.items() for ending in _suffixes(entry)}
    name = by_suffix.get(suffix)
    shown = safe_label(output)
    if name is None:
        others = {ending for entry in registry.entries("formats").values() for ending in _suffixes(entry)}
        if suffix in others:
            raise UsageError(
                f"{shown}: this command cannot write {suffix} files",
                f"choose from: {', '.join(sorted(by_suffix))}",
            )
        if asked == "auto":
            raise UsageError(f"{shown}: unknown file ending", f"use {', '.join(sorted(by_suffix))}")
        return asked
    data = {n for n, one in formats.items() if not (one.attributes.get("notes") or one.attributes["binary"])}
    if asked != name and {asked, name} <= data:
        raise UsageError(
            f"--format {asked} and -o {shown} contradict each other",
            f"give the file the ending {_suffix(formats[asked])}, or leave --format out",
        )
    return name


def refuse_too_many(
    to: Plan, maps: int, rows: int, columns: int, top: int | None, *, at_least: bool = False
) -> None:
    """Refuse to write so many numbers as text, unless the user wants just that.

    Args:
        top: How many of a row are listed; None for all.
        at_least: Whether there are so many maps or more.

    Raises:
        TooLargeError: They are too many.
    """
    if to.output.yes_large:
        return
    columns = columns if top is None else min(top, columns)
    count = maps * rows * columns
    names = [name for _, name in to.files] + ([to.stdout] if to.stdout else [])
    texts = [name for name in names if name in listing_formats() - formats_with("notes")]
    if count > LARGEST_TEXT and texts:
        shape = f"{'at least ' * at_least}{maps} map{'s' if maps > 1 else ''} of {rows:,}×{columns:,}"
        less = "-o run.npz, --top K" if top is None else "-o run.npz"
        raise TooLargeError(
            f"{shape}: {count:,} numbers, about {count * 12 / 2**20:,.0f} MiB as {texts[0]}",
            f"use {less}, fewer layers and heads, or --yes-large",
        )


def _render(name: str, view: View, options: Options) -> bytes:
    return cast(Format, registry.load("formats", name)).render(view, options)


def _options_for_screen(to: Plan) -> Options:
    # A table in a pipe is for programs: never cut. A heatmap has a width wherever it goes.
    free = to.stdout == "table" and not to.screen.tty and to.output.width is None
    return replace(
        _options_for_file(to),
        width=None if free else to.screen.width,
        height=to.screen.height,
        color=to.screen.color,
        unicode=to.screen.unicode,
        terminal=to.screen.tty or to.output.width is not None or to.output.format == "table",
    )


def _options_for_file(to: Plan) -> Options:
    given = to.output
    look = given.picture.look()
    look = replace(look, colormap=given.colormap or look.colormap)
    kept = {name: getattr(given, name) for name in ("raw_tokens", "csv_safe", "width")}
    fields = tuple(filter(None, (name.strip() for name in (given.fields or "").split(","))))
    colormap, dpi = look.colormap or COLORMAPS[0], look.dpi or 150
    return Options(colormap=colormap, dpi=dpi, look=look, fields=fields, **kept)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
