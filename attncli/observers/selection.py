"""Which layers and heads are asked for: ``3``, ``0,2,5-7``, ``4-``, ``-1``, ``all``, ``mean``, ``L2H0,L3H5``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from attncli.errors import UsageError
from attncli.record import AttentionLayer, Kind, Run

NO_MEAN = "each head is measured by itself"
"""Why rankings have no mean of heads or layers."""

_RANGE = re.compile(r"(-?\d+)(?:(-)(-?\d+)?)?")
_NAMED = re.compile(r"L(\d+)H(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Selection:
    """Some layers or heads.

    Args:
        what: ``layer`` or ``head``, for messages.
        ranges: First and last of each range, both included, as given; negative ones count from the end. None = all.
        mean: Whether to average over those chosen, instead of giving each.
        largest: Whether to take the largest weight of those chosen, instead of giving each.
        named: Heads that are named with their layer, instead of ranges that hold in every layer.
    """

    what: str
    ranges: tuple[tuple[int, int], ...] | None = None
    mean: bool = False
    largest: bool = False
    named: tuple[tuple[int, int], ...] = ()

    @property
    def merged(self) -> Literal["", "mean", "max"]:
        """How those chosen become one; empty where each is given."""
        return "mean" if self.mean else "max" if self.largest else ""

    @property
    def label(self) -> str | None:
        """What to call those that are named and become one."""
        return f"{self.merged} of {', '.join(self._names)}" if self.named and self.merged else None

    @property
    def _names(self) -> list[str]:
        return [f"L{layer}H{head}" for layer, head in self.named]

    def of(self, layer: AttentionLayer) -> tuple[int, ...]:
        """Return which of a layer's heads are chosen.

        Raises:
            UsageError: One is out of range.
        """
        if not self.named:
            return self.resolve(layer.heads)
        heads = [head for index, head in self.named if index == layer.index]
        return tuple(dict.fromkeys(self._index(head, layer.heads) for head in heads))

    def resolve(self, count: int) -> tuple[int, ...]:
        """Return the indices, each once, in the order asked for.

        Args:
            count: How many there are.

        Raises:
            UsageError: One is out of range.
        """
        if self.ranges is None:
            return tuple(range(count))
        chosen: dict[int, None] = {}
        for first, last in self.ranges:
            start, stop = self._index(first, count), self._index(last, count)
            step = 1 if start <= stop else -1
            chosen.update(dict.fromkeys(range(start, stop + step, step)))
        return tuple(chosen)

    @property
    def written(self) -> str:
        """The selection as a person writes it."""
        if self.ranges is None and not self.named:
            return self.merged or "all"
        parts = self._names or [
            str(first) if first == last else f"{first}-{'' if last == -1 else last}"
            for first, last in self.ranges or ()
        ]
        return ",".join(parts) + (f":{self.merged}" if self.merged else "")

    def refuse_missing(self, run: Run, kind: Kind, depth: int) -> None:
        """Refuse layers without attention: one that is named by itself, or all of those named.

        Of a range that crosses such layers, those that have attention are taken.

        Raises:
            UsageError: A layer that was named has none.
        """
        wanted, have = self.resolve(depth), run.layers(kind)
        missing = [layer for layer in wanted if layer not in have]
        if missing and len(missing) < len(wanted):
            alone = {self._index(first, depth) for first, last in self.ranges or () if first == last}
            missing = [layer for layer in missing if layer in alone]
        if missing:
            raise run.no_attention(kind, missing[0], self.written)

    def _index(self, index: int, count: int) -> int:
        if not -count <= index < count:
            have = f"0 to {count - 1}" if count > 1 else "only 0"
            raise UsageError(
                f"--{self.what} {index}: out of range", f"this model has {self.what}s {have} (-1 is the last)"
            )
        return index % count


def parse_heads(layer: str | None, head: str | None, *, no_mean: str = "") -> tuple[Selection, Selection]:
    """Read which layers, and which of their heads; heads that are named with their layers say both.

    Args:
        layer: See `parse_selection`; all where None.
        head: Likewise, or names (``L2H0,L3H5``), maybe with ``:mean`` or ``:max`` after them.
        no_mean: See `parse_selection`.

    Raises:
        UsageError: They do not parse, or say two things.

    >>> [one.written for one in parse_heads(None, "L2H0,L3H5:mean")]
    ['2,3', 'L2H0,L3H5:mean']
    """
    layer, head = "all" if layer is None else layer, "all" if head is None else head
    words, _, suffix = head.strip().partition(":")
    names = [_NAMED.fullmatch(part.strip()) for part in words.split(",")]
    if not any(names):
        return parse_selection(layer, "layer", no_mean=no_mean), parse_selection(
            head, "head", no_mean=no_mean
        )
    if not all(names) or suffix not in ("", "mean", "max"):
        raise UsageError(
            f"--head {head}: not a list of heads", "write names only: L2H0,L3H5 or L2H0,L3H5:mean"
        )
    if suffix and no_mean:
        raise UsageError(f"--head {head}: {no_mean}", "leave out what follows the colon")
    if layer != "all":
        raise UsageError(f"--layer {layer}: --head {head} names its layers too", "leave out --layer")
    named = tuple(dict.fromkeys((int(name[1]), int(name[2])) for name in names if name is not None))
    ranges = tuple((number, number) for number in dict.fromkeys(layer for layer, _ in named))
    return Selection("layer", ranges), Selection("head", None, suffix == "mean", suffix == "max", named)


def parse_selection(text: str, what: str, *, no_mean: str = "") -> Selection:
    """Read a selection.

    Args:
        text: ``3``, ``0,2,5-7``, ``4-`` (to the last), ``-1``, ``all``, ``mean``, or a list with ``:mean`` after it
            (``0-3:mean``); of heads also ``max``.
        what: ``layer`` or ``head``, for messages.
        no_mean: Why there is no mean of them here, where that is so.

    Raises:
        UsageError: It does not parse, or asks for a mean where there is none.

    >>> parse_selection("0,2,5-7", "layer").resolve(12)
    (0, 2, 5, 6, 7)
    >>> parse_selection("-1", "layer").resolve(12)
    (11,)
    >>> parse_selection("mean", "head")
    Selection(what='head', ranges=None, mean=True, largest=False, named=())
    """
    words, colon, suffix = text.strip().partition(":")
    ways = ("mean", "max") if what == "head" else ("mean",)
    if colon and (suffix not in ways or words in ways):
        raise _wrong(text, what, bool(no_mean))
    merged = words if words in ways else suffix
    if merged and no_mean:
        raise UsageError(f"--{what} {merged}: {no_mean}", "write all, or a list")
    mean, largest = merged == "mean", merged == "max"
    if words in ("all", *ways):
        return Selection(what, None, mean, largest)
    ranges = []
    for part in words.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise _wrong(text, what, bool(no_mean))
        first = int(match[1])
        ranges.append((first, int(match[3] or -1) if match[2] else first))
    return Selection(what, tuple(ranges), mean, largest)


def _wrong(text: str, what: str, single: bool) -> UsageError:
    words = "-1 or all" if single else "-1, all, mean or max" if what == "head" else "-1, all or mean"
    return UsageError(
        f"--{what} {text!r}: not a {what} selection", f"write a number, a list or a range (0,2,5-7), {words}"
    )
