"""The topics of ``explain``: what scaling does, and what order is to attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from attncli.explain.numerals import number
from attncli.explain.peakedness import ScalingPoint
from attncli.explain.row import Reordered
from attncli.record import Provenance, SourceInfo
from attncli.view import Column, Curve, Curves, Header, Plot, Table

_NAMES = {False: "Q·K", True: "Q·K / √d_k"}


def scaling_view(points: Sequence[ScalingPoint], made: Provenance, seed: int, keys: int = 64) -> Curves:
    """Make the view of ``explain scaling``."""
    header = Header(
        command="explain",
        title="what 1/√d_k does to attention",
        provenance=replace(made, seed=seed),
        notes=(
            "queries and keys are random, each number from N(0, 1): a dot product is the sum of d_k products, and "
            "so its variance is d_k",
            f"{keys} keys alike have an entropy of log₂ {keys} = {math.log2(keys):g} bits, one key alone has 0",
            "the gradient is the norm of ∂weights/∂scores: where it vanishes, nothing is learnt through softmax",
            "Vaswani et al. 2017, §3.2.1, footnote 4, arXiv 1706.03762",
        ),
    )
    quantities: tuple[tuple[str, str, Callable[[ScalingPoint], float], str], ...] = (
        ("variance of scores", "", lambda point: point.variance, "log"),
        ("entropy of weights", "bits", lambda point: point.entropy, "linear"),
        ("gradient of softmax", "", lambda point: point.gradient, "linear"),
    )
    plots = tuple(
        Plot(title, unit, "d_k", _curves(points, value), linear=scale == "linear")  # type: ignore[arg-type]
        for title, unit, value, scale in quantities
    )
    data_names = ("d_k", "scaled", "variance", "entropy", "gradient", "largest_weight")
    rows = tuple((p.head_dim, p.scaled, p.variance, p.entropy, p.gradient, p.largest) for p in points)
    data = Table(header, tuple(map(Column, data_names)), rows, "points")
    document = {
        "topic": "scaling",
        "key_count": keys,
        "points": [dict(zip(data_names, row, strict=True)) for row in rows],
    }
    return Curves(header, plots, (_scaling_table(points, header),), data, document)


def _curves(points: Sequence[ScalingPoint], value: Callable[[ScalingPoint], float]) -> tuple[Curve, ...]:
    return tuple(
        Curve(
            name,
            tuple(float(point.head_dim) for point in points if point.scaled is scaled),
            tuple(value(point) for point in points if point.scaled is scaled),
            quiet=not scaled,
        )
        for scaled, name in _NAMES.items()
    )


def _scaling_table(points: Sequence[ScalingPoint], header: Header) -> Table:
    pairs = zip(points[::2], points[1::2], strict=True)
    columns = [Column("d_k", "d_k")]
    for what in ("variance", "entropy", "gradient", "largest"):
        columns += [Column(what, what, right=True), Column(f"{what}_scaled", "/√d_k", right=True)]
    rows = []
    for plain, scaled in pairs:
        values = (
            (getattr(plain, name), getattr(scaled, name))
            for name in ("variance", "entropy", "gradient", "largest")
        )
        rows.append((plain.head_dim, *(number(value) for pair in values for value in pair)))
    title = "each quantity of Q·K as it is, and beside it divided by √d_k"
    return Table(replace(header, title=title, notes=()), tuple(columns), tuple(rows))


def order_view(found: Reordered, made: Provenance, seed: int) -> Table:
    """Make the view of ``explain order``."""
    second = [found.words[place] for place in found.order]
    ways = tuple(found.differences)
    columns = (
        Column("word"),
        Column("place"),
        Column("moved_to"),
        *(Column(way.replace(", ", "_").replace(" ", "_"), way, significant=True) for way in ways),
    )
    rows = [
        (word, place, found.order.index(place), *(found.differences[way][place] for way in ways))
        for place, word in enumerate(found.words)
    ]
    largest = {way: max(values) for way, values in found.differences.items()}
    header = Header(
        command="explain",
        title=f"“{' '.join(found.words)}” against “{' '.join(second)}”",
        provenance=replace(made, seed=seed),
        source=SourceInfo("scratch", "scratch", family="full"),
        notes=(
            f"both go through the same {found.depth} layer{'s' * (found.depth != 1)} with {found.heads} "
            f"head{'s' * (found.heads != 1)} and random weights; then the second's rows are put back in order",
            "a number is the largest difference between a word's two outputs, whose largest number is "
            f"{number(found.largest)}",
            "without positions the two orders are the same to attention "
            f"({number(largest['no positions'])} is rounding): who bit whom is lost",
            f"positions tell them apart ({number(largest['positions'])}); so does a causal mask "
            f"({number(largest['no positions, causal mask'])}), which is order too",
            "Vaswani et al. 2017, §3.5, arXiv 1706.03762",
        ),
    )
    extra = {"topic": "order", **asdict(found)}
    return Table(header, columns, tuple(rows), "rows", extra)
