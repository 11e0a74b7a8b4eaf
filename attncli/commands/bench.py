"""attncli bench: Measure time and memory of attention variants over the sequence's length.

Every variant is checked against float64 before it is timed; all run once a round in shuffled order; ratios are taken
within a round; what cannot be told from noise is marked ≈; what would not fit into memory or into --budget is not
tried. With one thread on a CPU, times are CPU time; with several, and on other devices, they are the wall's or the
GPU's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from attncli.cli.choices import Choices, entries_of, settings_of_variants
from attncli.cli.command import spread
from attncli.cli.options import Device, OutputOptions
from attncli.cli.rules import Rule
from attncli.errors import CheckFailed, UsageError, did_you_mean

if TYPE_CHECKING:
    from attncli.bench.baseline import Change
    from attncli.bench.results import BenchRequest

EXAMPLES = (
    "attncli bench --seq-len 512,1024,2048,4096 -o bench.png",
    "attncli bench --seq-len 512:8192:*2 --variants full,flash,linear --json",
    "attncli bench --variants sliding-window --set sliding-window.window=128 --no-causal",
    "attncli bench --variants flash --backward -o new.json --baseline old.json --fail-over 1.2",
)

_DTYPES = ("float32", "float64", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class What:
    """What is measured."""

    panel: ClassVar[str] = "What is measured"

    seq_len: Annotated[
        str,
        typer.Option(
            "--seq-len", "-n", metavar="LENGTHS", help="512,1024,2048, or 512:8192:*2, or 512:4096:+512."
        ),
    ] = "512,1024,2048"
    variants: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Variants and peers (attncli list peers), with commas; by default all that fit.",
        ),
        Choices(entries_of("variants", "peers"), many=True),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="VARIANT.NAME=VALUE",
            help="Set a parameter of one variant, or with NAME=VALUE of all that have it. Repeatable.",
        ),
        Choices(given=settings_of_variants),
    ] = None
    reference: Annotated[
        str,
        typer.Option(metavar="NAME", help="The variant that the others are compared with."),
        Choices(entries_of("variants", "peers")),
    ] = "sdpa"
    heads: Annotated[int, typer.Option(metavar="N", min=1, help="Number of heads.")] = 8
    head_dim: Annotated[int, typer.Option(metavar="N", min=1, help="Vector size of a head.")] = 64
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Sequences at once.")] = 1
    dtype: Annotated[
        str, typer.Option(metavar="NAME", help="float32, float64, bfloat16 or float16."), Choices(_DTYPES)
    ] = "float32"
    device: Device = "cpu"
    causal: Annotated[bool, typer.Option("--causal/--no-causal", help="Whether later keys are hidden.")] = (
        True
    )
    backward: Annotated[bool, typer.Option("--backward", help="Time the gradients as well.")] = False


@dataclass(frozen=True, slots=True)
class Care:
    """How carefully, and for how long."""

    panel: ClassVar[str] = "How"
    rules: ClassVar = (Rule("--fail-over", needs="--baseline", hint="add --baseline old.json"),)

    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Number of PyTorch threads.")] = 1
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, max=2**63 - 1, help="Seed of inputs and order.")
    ] = 0
    precision: Annotated[
        float, typer.Option(metavar="SHARE", help="Measure until medians are certain to this fraction.")
    ] = 0.03
    max_time: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time limit for the rounds at one length.")
    ] = 15.0
    budget: Annotated[float, typer.Option(metavar="SECONDS", help="Time limit for the whole run.")] = 120.0
    baseline: Annotated[
        str | None, typer.Option(metavar="FILE", help="JSON of an older run to compare with.")
    ] = None
    fail_over: Annotated[
        float | None,
        typer.Option(metavar="RATIO", help="Exit with 3 if a median is this many times the baseline's."),
    ] = None


@spread
def bench(what: What, care: Care, output: OutputOptions) -> None:
    """Measure attention variants."""
    from attncli.bench.lengths import parse_lengths
    from attncli.cli.common import plan_output, provenance
    from attncli.cli.output import deliver
    from attncli.cli.progress import progress

    plan = plan_output(output, "Curves", default="table")
    _check(what, care)
    lengths = parse_lengths(what.seq_len)
    question, left_out = _question(what, care, lengths)

    from attncli.bench.baseline import compare, read_baseline
    from attncli.bench.environment import look_around
    from attncli.bench.report import bench_view
    from attncli.bench.results import BenchResults
    from attncli.bench.run import run_bench

    old = None if care.baseline is None else read_baseline(care.baseline, question, care.threads)
    ledger = BenchResults(question, look_around(what.device, what.dtype), left_out=left_out)
    try:
        with progress("", output) as update:
            run_bench(ledger, lambda text: update(text, 0))
    except KeyboardInterrupt:
        deliver(bench_view(ledger, provenance()), plan)  # what is done is not lost
        raise
    changes = [] if old is None else compare(ledger, old)
    deliver(bench_view(ledger, provenance(), changes), plan)
    _fail_if_slower(changes, care)


def _check(what: What, care: Care) -> None:
    """Check what needs neither torch nor the lengths."""
    if what.dtype not in _DTYPES:
        raise UsageError(f"--dtype {what.dtype}: unknown type", did_you_mean(what.dtype, _DTYPES))
    for name, value, least in (
        ("precision", care.precision, 0.0),
        ("max-time", care.max_time, 0.0),
        ("budget", care.budget, 0.0),
        ("fail-over", 1.0 if care.fail_over is None else care.fail_over, 0.0),
    ):
        if not value > least:
            raise UsageError(f"--{name} {value:g}: must be more than {least:g}")


def _question(what: What, care: Care, lengths: tuple[int, ...]) -> tuple[BenchRequest, list[str]]:
    """Settle who takes part, and check that everybody can."""
    from attncli import registry

    known = {*registry.entries("variants"), *registry.entries("peers")}
    if what.reference not in known:
        raise UsageError(
            f"--reference {what.reference}: unknown variant", did_you_mean(what.reference, sorted(known))
        )

    import torch

    from attncli.bench.clock import choose_clock
    from attncli.bench.entrants import choose_contenders
    from attncli.bench.inputs import Workload
    from attncli.bench.results import BenchRequest

    _check_device(what.device)
    torch.set_num_threads(care.threads)
    workload = Workload(
        what.batch, what.heads, what.head_dim, what.dtype, what.device, what.causal, what.backward, care.seed
    )
    contenders, left_out = choose_contenders(
        what.variants, what.settings or (), workload, lengths, what.reference
    )
    clock = choose_clock(what.device, care.threads)
    return BenchRequest(
        workload, lengths, tuple(contenders), clock, care.precision, care.max_time, care.budget
    ), left_out


def _check_device(name: str) -> None:
    import torch

    try:
        torch.empty(1, device=torch.device(name))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(
            f"--device {name}: not available here", "attncli doctor lists the devices"
        ) from error


def _fail_if_slower(changes: list[Change], care: Care) -> None:
    """Raise where a variant takes too many times as long as in the baseline.

    Raises:
        CheckFailed: With those that got slower, the worst first.
    """
    limit = care.fail_over
    slower = [] if limit is None else [change for change in changes if change.ratio > limit]
    if slower:
        slower.sort(key=lambda change: -change.ratio)
        told = ", ".join(f"{one.variant} at {one.seq_len} {one.ratio:.2f}×" for one in slower[:6])
        more = f" and {len(slower) - 6} more" if len(slower) > 6 else ""
        raise CheckFailed(
            f"slower than {limit:g}× the baseline: {told}{more}",
            "if all variants are slower, the machine may be busy: compare on an idle one",
        )
