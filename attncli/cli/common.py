"""What commands that run a model have in common: where the answer goes, and what was checked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from attncli import __version__
from attncli.cli.options import ARGV, COLORMAPS, OutputOptions
from attncli.cli.output import Plan, plan, say
from attncli.errors import UsageError, did_you_mean
from attncli.labels import cells, quoted_for_shell, safe_label
from attncli.record import KINDS, Kind, Provenance, Run
from attncli.render import formats_with


def choose_kind(kinds: Sequence[Kind], asked: str | None) -> Kind:
    """Return the kind of attention to show: the one asked for, else cross-attention where there is any.

    Raises:
        UsageError: The model, or this pass of it, has no such attention.
    """
    if asked is None:
        return "cross" if "cross" in kinds else kinds[0]
    for kind in kinds:
        if kind == asked:
            return kind
    if asked not in KINDS:
        raise UsageError(f"--kind {asked}: unknown kind", did_you_mean(asked, KINDS))
    hint = "of an encoder–decoder, --pair TEXT gives the target side" if kinds == ("encoder",) else None
    raise UsageError(f"--kind {asked}: there is only {' and '.join(kinds)} attention here", hint)


def plan_output(
    output: OutputOptions, view: str, *, top: int | None = None, default: str = "heatmap"
) -> Plan:
    """Check where the answer should go, before anything is computed.

    Args:
        top: How many keys of a row to list, where a list is wanted.

    Raises:
        UsageError: The wishes contradict each other.
        WriteError: A file cannot be written.
    """
    colormap = output.colormap or output.picture.look().colormap or COLORMAPS[0]
    if colormap not in COLORMAPS:
        raise UsageError(f"--colormap {colormap}: unknown colormap", did_you_mean(colormap, COLORMAPS))
    found = plan(output, view, default=default)
    if output.fields and found.formats.isdisjoint(("csv", "tsv", "ndjson", "table")):
        raise UsageError("--fields is for CSV, TSV and NDJSON", "add --format csv, or -o FILE.csv")
    if top is not None and formats_with("draws") >= found.formats:
        raise UsageError("--top is for lists; a picture shows all keys", "leave it out, or add -o FILE.csv")
    return found


def tell_next(command: str, text: str, to: Plan) -> None:
    """Tell a person at a terminal what to try next, in one line on stderr.

    Args:
        command: With ``TEXT`` where `text` belongs; that is left out where the line would be too long.
    """
    if not to.screen.tty or to.output.quiet:
        return
    line = "next: " + command.replace("TEXT", quoted_for_shell(text))
    say(line if cells(line) <= to.screen.width else "next: " + command.replace("TEXT", '"…"'))


def provenance(run: Run | None = None) -> Provenance:
    """Return what an answer is made with."""
    pretrained = run is not None and run.source.kind == "pretrained"
    return Provenance(
        attncli=__version__,
        torch=_version("torch"),
        transformers=_version("transformers") if pretrained else None,
        peft=_version("peft") if run is not None and run.source.adapter is not None else None,
        argv=ARGV.get(),
        seed=None if run is None else run.seed,
        date=_now() if run is not None else None,
    )


def _now() -> str:
    """Return the time in UTC, or what ``SOURCE_DATE_EPOCH`` says it is."""
    import os
    from datetime import UTC, datetime

    set_to = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(set_to), UTC) if set_to.isdigit() else datetime.now(UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def tell_checks(run: Run, output: OutputOptions) -> None:
    """With ``-v``, say on stderr what was captured and how far the self-checks were from failing."""
    if not output.verbose:
        return
    name, adapter = safe_label(run.source.name), run.source.adapter
    applied = "" if adapter is None else f", with the adapter {safe_label(adapter)}"
    say(f"source: {name} ({run.source.family}, {run.source.dtype}, {run.source.device}{applied})")
    seen = ", ".join(f"{sum(layer.kind == kind for layer in run.attention_layers)} {kind}" for kind in KINDS)
    stopped = "; then the model was stopped" if run.stopped else ""
    say(
        f"attention operations: {seen}; looked into {len(run.reports)}, through {run.source.capture}{stopped}"
    )
    if run.reports:
        say(
            f"largest distance of a row's sum from 1: {max(report.row_sum_error for report in run.reports):.2g}"
        )
        say(f"largest weight on a forbidden key: {max(report.forbidden for report in run.reports):.2g}")
    outputs = [report.output_error for report in run.reports if report.output_error is not None]
    if outputs:
        say(f"largest difference from the model's own output, of its largest value: {max(outputs):.2g}")


@cache
def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
