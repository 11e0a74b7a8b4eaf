"""The JSON of ``bench``: time and memory of attention variants over the sequence's length."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from attncli.documents.forms.common import (
    MADE_BY,
    PAIR,
    AboveZero,
    Amount,
    Count,
    Document,
    Form,
    Positive,
    Real,
    Size,
    about,
)

Interval = Annotated[list[Size], PAIR]
OpenInterval = Annotated[list[Size | None], PAIR]


class Environment(TypedDict):
    """Where it ran."""

    processor: Annotated[str, about("Name of the processor.")]
    system: NotRequired[Annotated[str, about("Name and version of the system.")]]
    python: NotRequired[Annotated[str, about("Version of Python.")]]
    torch: Annotated[str, about("Version of torch.")]
    device: Annotated[str, about("Where the work was done.")]
    device_name: NotRequired[Annotated[str, about("Name of the device.")]]
    cores: Annotated[Positive, about("Cores that the process may use.")]
    threads: Annotated[Positive, about("Threads of torch.")]
    affinity: NotRequired[
        Annotated[list[Count] | None, about("The cores' numbers; null where the system does not say.")]
    ]
    load: Annotated[
        Real | None, about("Programs that wanted a processor in the last minute, before the start.")
    ]
    peak_flops: Annotated[
        AboveZero, about("Operations in a second of the fastest matrix product that was tried.")
    ]


class BenchSettings(TypedDict):
    """What was asked for."""

    batch: Annotated[Positive, about("Sequences at once.")]
    heads: Annotated[Positive, about("Number of heads.")]
    head_dim: Annotated[Positive, about("Vector size of a head.")]
    dtype: Annotated[str, about("Number format of the inputs.")]
    device: Annotated[str, about("Where the work was done.")]
    causal: Annotated[bool, about("Whether the future was hidden.")]
    backward: Annotated[bool, about("Whether gradients were timed as well.")]
    threads: Annotated[Positive, about("Threads of torch.")]
    clock: Annotated[Literal["cpu", "wall", "cuda"], about("What times go by.")]
    seed: Annotated[Count, about("Seed of inputs and order.")]
    reference: Annotated[str, about("Whom the others are compared with.")]
    seq_lens: Annotated[list[Positive], about("Lengths asked for, rising.")]
    precision: NotRequired[Annotated[AboveZero, about("Share to which medians were to be certain.")]]
    max_time: NotRequired[Annotated[AboveZero, about("Seconds of rounds at one length.")]]
    budget: NotRequired[Annotated[AboveZero, about("Seconds for everything.")]]
    variants: Annotated[dict[str, dict[str, Any]], about("Who took part, with all parameters.")]


class Control(TypedDict):
    """At one length."""

    seq_len: Annotated[Positive, about("The length.")]
    ratio_interval: Annotated[Interval | None, about("95 % interval of the ratio of two equal things.")]
    noise_floor: Annotated[
        Real | None, about("Differences below this share are noise; null where it is unknown.")
    ]


class Cell(TypedDict):
    """One variant or peer at one length."""

    variant: Annotated[str, about("Name of the variant or peer.")]
    seq_len: Annotated[Positive, about("Number of queries, and of keys.")]
    status: Annotated[
        Literal["ok", "too large", "too slow", "wrong", "unsupported", "failed"],
        about(
            "ok: timed; too large: predicted not to fit into memory, or ran out of it; too slow: would "
            "outlast the budget; wrong: failed its check against float64, and was not timed; unsupported: "
            "cannot do this; failed: raised an error."
        ),
    ]
    clock: Annotated[
        Literal["cpu", "wall", "cuda"],
        about(
            "What seconds, median, iqr and ratio go by: the process's CPU time, the wall's clock, or the "
            "GPU's events."
        ),
    ]
    rounds: Annotated[Count, about("How many readings there are.")]
    median: Annotated[Size | None, about("Typical seconds of a call; null where it was not timed.")]
    iqr: Annotated[Size | None, about("Interquartile range of the seconds.")]
    ratio: Annotated[Size | None, about("Median of the ratios to the reference, taken within each round.")]
    ratio_interval: Annotated[Interval | None, about("95 % interval of the ratio, by resampling rounds.")]
    noise: Annotated[bool, about("Whether the ratio cannot be told from 1: shown as ≈.")]
    peak_bytes: Annotated[
        Amount | None,
        about(
            "Largest memory that a call allocated, its output included, its inputs not; null where it was not"
            " measured."
        ),
    ]
    predicted_bytes: Annotated[Amount | None, about("What was predicted, inputs included.")]
    flops: Annotated[
        Amount | None,
        about("Operations of a call's matrix products: a multiplication and an addition are two."),
    ]
    flops_per_second: Annotated[Size | None, about("What was achieved.")]
    peak_share: Annotated[Size | None, about("The same, as a share of the environment's peak_flops.")]
    max_abs_error: Annotated[
        Size | None,
        about(
            "Largest difference from float64, at a small length: of an exact variant from full attention, of "
            "an approximation from its own plain form; null for what is no attention."
        ),
    ]
    reason: Annotated[str, about("Why it was not timed; empty where it was.")]
    seconds: Annotated[
        list[Size], about("Every reading by the clock named above, in the order of the rounds.")
    ]
    wall_seconds: NotRequired[Annotated[list[Size], about("The same readings by the wall's clock.")]]
    cpu_seconds: NotRequired[Annotated[list[Size], about("The same readings in CPU time of the process.")]]


class Fit(TypedDict):
    """One variant."""

    variant: Annotated[str, about("Its name.")]
    exponent: Annotated[Real, about("The exponent.")]
    stderr: Annotated[Size, about("Its standard error.")]
    scale: NotRequired[Annotated[Real, about("Seconds at n = 1, if the law held there.")]]
    from_seq_len: Annotated[Positive, about("The shortest length that took part.")]
    lengths: Annotated[int, Meta(ge=3, lt=2**53), about("How many took part.")]


class Crossover(TypedDict):
    """One pair."""

    variant: Annotated[str, about("Who becomes faster.")]
    faster_than: Annotated[str, about("Than whom.")]
    seq_len: Annotated[float, Meta(ge=1, le=1e300), about("From which length, by interpolation.")]
    interval: Annotated[
        OpenInterval,
        about("Where it may as well be; an end is null where that lies outside of what was measured."),
    ]


class TimeChange(TypedDict):
    """One cell, then and now."""

    variant: Annotated[str, about("Its name.")]
    seq_len: Annotated[Positive, about("Its length.")]
    before: Annotated[Real, about("Median then, in seconds.")]
    now: Annotated[Real, about("Median now, in seconds.")]
    ratio: Annotated[Real, about("Now divided by then.")]


class Benchmark(Document):
    """The JSON of attncli bench."""

    command: Annotated[Literal["bench"], MADE_BY]
    complete: Annotated[bool, about("Whether everything was done; false after an interruption.")]
    environment: Environment
    settings: BenchSettings
    elapsed_seconds: NotRequired[Annotated[Size, about("How long it took after start-up.")]]
    timed_share: NotRequired[Annotated[Size, about("Share of that spent inside of readings.")]]
    controls: NotRequired[Annotated[list[Control], about("The reference measured against itself.")]]
    cells: Annotated[list[Cell], about("What was measured, and what was not.")]
    fits: Annotated[
        list[Fit],
        about(
            "Time = scale · n^exponent, for times well above overhead, where there are three lengths at "
            "least."
        ),
    ]
    crossovers: Annotated[list[Crossover], about("From which length one is faster than another.")]
    warnings: NotRequired[Annotated[list[str], about("What makes the times doubtful, with the remedy.")]]
    left_out: NotRequired[
        Annotated[list[str], about("Variants that do not fit the question, with the reason.")]
    ]
    changes: NotRequired[Annotated[list[TimeChange], about("Against --baseline.")]]


FORMS = {
    "bench": Form(
        "Benchmark of attention variants",
        "The JSON of attncli bench: time and memory of attention variants over the sequence's length. Times are in "
        "seconds, memory in bytes.",
        (Benchmark,),
    )
}
