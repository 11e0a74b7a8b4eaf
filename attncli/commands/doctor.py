"""attncli doctor: Show what attncli runs on and what is missing. Exits with 3 if a check fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from importlib import metadata
from typing import Annotated, Literal, TextIO

import typer

from attncli import __version__
from attncli.cli.command import spread
from attncli.cli.options import ARGV, OutputOptions
from attncli.errors import CheckFailed
from attncli.memory import available_bytes, human_bytes
from attncli.record import Provenance
from attncli.terminal import abilities
from attncli.view import Column, Header, Table

EXAMPLES = ("attncli doctor --quick", "attncli doctor --json")

LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "matplotlib", "rich", "typer", "safetensors")
SCRIPTS = {"CJK": ":lang=ja", "Arabic": ":lang=ar", "Devanagari": ":lang=hi", "emoji": ":charset=1f600"}
TWO_GIB = 2 * 2**30

PATIENCE = 120.0
"""Seconds that torch may take to start."""

# A library that is broken may take its process with it, so torch is asked in one of its own.
ASK_TORCH = """
import json, torch
cuda = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
mps = getattr(torch.backends, "mps", None)
print(json.dumps({
    "threads": torch.get_num_threads(),
    "cuda": [[device.name, device.total_memory] for device in cuda],
    "mps": bool(mps and mps.is_available()),
}))
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Args:
        topic: Groups the rows of the table.
        value: What was found.
        status: ``warn`` works, with less; ``fail`` means that some command cannot work.
        hint: What to do about it.
    """

    topic: str
    item: str
    value: str
    status: Literal["ok", "warn", "fail"] = "ok"
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Depth:
    """How closely to look."""

    quick: Annotated[bool, typer.Option("--quick", help="Do not start torch (about 3 seconds).")] = False


@spread
def doctor(depth: Depth, output: OutputOptions) -> None:
    """Report what attncli runs on."""
    from attncli.cli.common import plan_output
    from attncli.cli.output import deliver

    plan = plan_output(output, "Table", default="table")
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    seen = {name: abilities(stream, color=output.color) for name, stream in streams.items()}
    colors: dict[str, tuple[str, str]] = {name: (found.color, found.reason) for name, found in seen.items()}
    view = doctor_view(quick=depth.quick, colors=colors, argv=ARGV.get())
    deliver(view, plan)
    fail_if_ill(view)


def doctor_view(
    *, quick: bool = False, colors: Mapping[str, tuple[str, str]] | None = None, argv: tuple[str, ...] = ()
) -> Table:
    """Look at everything.

    Args:
        quick: Leave out what only torch itself can tell.
        colors: For each stream the colour mode that was chosen, and why.
        argv: For the provenance.
    """
    checks = (
        *version_checks(),
        *([] if quick else torch_checks()),
        *machine_checks(),
        *font_checks(),
        *terminal_checks(colors or {}),
        *model_checks(),
    )
    bad = ", ".join(check.item for check in checks if check.status != "ok")
    return Table(
        header=Header(
            command="doctor",
            title=f"{len(checks)} checks: {f'look at {bad}' if bad else 'all well'}",
            provenance=Provenance(__version__, argv=argv),
        ),
        columns=(Column("topic"), Column("item"), Column("value"), Column("status"), Column("hint")),
        rows=tuple(astuple(check) for check in checks),
        rows_name="checks",
        extra={"ok": all(check.status != "fail" for check in checks), "memory_bytes": available_bytes()},
    )


def fail_if_ill(view: Table) -> None:
    """Raise where a check failed.

    Raises:
        CheckFailed: With the names of what failed, and the first remedy.
    """
    failed = [row for row in view.rows if row[3] == "fail"]
    if failed:
        names = ", ".join(str(row[1]) for row in failed)
        raise CheckFailed(
            f"{len(failed)} of {len(view.rows)} checks failed: {names}", str(failed[0][4]) or None
        )


def version_checks() -> Iterator[Check]:
    """Look at the versions of Python, attncli and the libraries, without importing any."""
    yield Check("versions", "attncli", __version__)
    yield Check("versions", "python", ".".join(map(str, sys.version_info[:3])))
    needed = _needed()
    for name in LIBRARIES:
        yield _version_check(name, needed.get(name))


def _version_check(name: str, minimum: str | None) -> Check:
    remedy = f"pip install --upgrade {name}"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check("versions", name, "missing", "fail", remedy)
    if minimum and _numbers(version) < _numbers(minimum):
        return Check("versions", name, f"{version}, older than {minimum}", "fail", remedy)
    return Check("versions", name, version)


def _needed() -> dict[str, str]:
    """Read the oldest version of each library that attncli's own metadata allows."""
    try:
        lines = metadata.requires("attncli") or []
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return {}
    found = (re.match(r"([\w.-]+)\s*>=\s*([\d.]+)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def torch_checks() -> Iterator[Check]:
    """Start torch in a process of its own, and ask it for its devices and threads."""
    remedy = "reinstall it: pip install --force-reinstall torch"
    command = [sys.executable, "-c", ASK_TORCH]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        yield Check("device", "torch", f"does not answer within {PATIENCE:g} seconds", "fail", remedy)
        return
    if told.returncode:
        reason = (told.stderr.strip().splitlines() or [f"exit code {told.returncode}"])[-1]
        yield Check("device", "torch", f"does not start: {reason}", "fail", remedy)
        return
    answer = json.loads(told.stdout)
    for name, size in answer["cuda"]:
        yield Check("device", "cuda", f"{name}, {human_bytes(size)}")
    if answer["mps"]:
        yield Check("device", "mps", "available")
    if not answer["cuda"] and not answer["mps"]:
        yield Check("device", "accelerator", "none that torch can use; the CPU works everywhere")
    yield Check("device", "torch threads", str(answer["threads"]))


def machine_checks() -> Iterator[Check]:
    """Look at cores, load and memory."""
    cores = _cores()
    yield Check("device", "cpu", f"{cores} {'core' if cores == 1 else 'cores'} for this process")
    yield Check("device", "OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "not set"))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    busy = load > cores / 2
    hint = "timings are not to be trusted now; OMP_NUM_THREADS=1 helps small models" if busy else ""
    yield Check("device", "load", f"{load:.1f}", "warn" if busy else "ok", hint)
    free = available_bytes()
    if free is None:
        yield Check("memory", "available", "the system does not say")
    else:
        short = free < TWO_GIB
        hint = "choose a small model" if short else ""
        yield Check("memory", "available", human_bytes(free), "warn" if short else "ok", hint)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def font_checks() -> Iterator[Check]:
    """Look for fonts that pictures need for scripts which Matplotlib's own font lacks."""
    lister = shutil.which("fc-list")
    if lister is None:
        yield Check("fonts", "installed", "unknown: no fc-list here")
        return
    for script, pattern in SCRIPTS.items():
        told = subprocess.run([lister, pattern, "family"], capture_output=True, text=True, check=False)
        families = sorted({line.split(",")[0].strip() for line in told.stdout.splitlines() if line.strip()})
        if families:
            yield Check("fonts", script, ", ".join(families[:3]))
        else:
            yield Check("fonts", script, "none", "warn", "pictures show such characters as U+ numbers")


def terminal_checks(colors: Mapping[str, tuple[str, str]]) -> Iterator[Check]:
    """Look at the two streams: what they are, and what may be written to them."""
    streams: tuple[tuple[str, TextIO], ...] = (("stdout", sys.stdout), ("stderr", sys.stderr))
    for name, stream in streams:
        kind = "terminal" if stream.isatty() else "pipe or file"
        yield Check("terminal", name, kind)
        if name in colors:
            mode, why = colors[name]
            yield Check("terminal", f"{name} colour", f"{mode}: {why}")
    size = shutil.get_terminal_size()
    yield Check("terminal", "size", f"{size.columns} columns, {size.lines} lines")
    yield Check("terminal", "TERM", os.environ.get("TERM", "not set"))
    encoding = sys.stdout.encoding or "unknown"
    good = encoding.lower().replace("-", "") == "utf8"
    hint = "" if good else "PYTHONIOENCODING=utf-8 gives blocks and arrows"
    yield Check("terminal", "encoding", encoding, "ok" if good else "warn", hint)


def model_checks() -> Iterator[Check]:
    """Look at the hub's cache."""
    from attncli.models.folders import cached_models, hub_cache

    yield Check("models", "cache", str(hub_cache()))
    yield Check("models", "cached", str(len(cached_models())))
