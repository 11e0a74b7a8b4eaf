"""How a head's queries, keys or values were made: which steps lead from a layer's input to them.

Each step is known by what it computes, never by its name. A linear map gives its input times its weight. A norm gives
the same for its input made longer. A rotation keeps the length of each pair of dimensions. What is not found this
way ends the chain, and its source is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attncli.capture.projections import Leaf, by_position, is_linear, is_norm, same, tolerance


@dataclass(frozen=True)
class Linear:
    """``input · W``, and a bias where there is one.

    Args:
        columns: Of the module's output, those that were used.
    """

    module: str
    columns: range
    bias: bool
    rows: Tensor


@dataclass(frozen=True)
class Norm:
    """Each vector brought to a length that does not depend on its own.

    Args:
        width: How many numbers are normed together.
        rows: ``(positions, dim)``, after it.
    """

    module: str
    width: int
    rows: Tensor


@dataclass(frozen=True)
class Rotation:
    """Pairs of dimensions turned, as rotary positions do.

    Args:
        rows: ``(positions, dim)``, after it.
        before: Likewise, before it.
    """

    rows: Tensor
    before: Tensor


@dataclass(frozen=True)
class Joined:
    """Vectors put together from two parts that were made in different ways."""

    parts: tuple[Way, Way]
    rows: Tensor


Stage = Linear | Norm | Rotation | Joined


@dataclass(frozen=True)
class Way:
    """The steps from a layer's input to some vectors, in the order of the computation.

    Args:
        source: What the first step was given, ``(positions, dim)``; None where that was not found.
        factor: How many times as long the vectors are as these steps alone would make them.
    """

    stages: tuple[Stage, ...]
    source: Tensor | None
    factor: float

    @property
    def last_rotation(self) -> Rotation | None:
        """The last rotation on the way."""
        return next((stage for stage in reversed(self.stages) if isinstance(stage, Rotation)), None)


def find_way(ran: Sequence[Leaf], rows: Tensor, inside: str) -> Way | None:
    """Find how a head's vectors were made; None where no module's output holds them.

    Args:
        ran: What ran before the operation.
        rows: ``(positions, dim)``, as the operation used them.
        inside: Name of the attention module, whose own modules may follow one another (a low-rank query).
    """
    return _Search(ran, inside).find(rows) or _Search(ran, inside).joined(rows)


@dataclass(frozen=True)
class _Match:
    """Where a module's output holds some vectors: as they are or turned, up to one factor."""

    rows: Tensor
    first: int
    factor: float
    turned: bool
    layout: int


@dataclass(frozen=True)
class _Search:
    ran: Sequence[Leaf]
    inside: str

    def find(self, rows: Tensor, end: int | None = None, *, own: bool = False) -> Way | None:
        """Find the last module before `end` that gave these vectors, and follow what it was given.

        Args:
            own: Look only at the attention module's own modules, and for the vectors exactly as they are.
        """
        for place in range((len(self.ran) if end is None else end) - 1, -1, -1):
            leaf = self.ran[place]
            if own and not leaf.name.startswith(f"{self.inside}."):
                continue
            match = _match(leaf.output, rows)
            if match is None or (own and (match.turned or abs(match.factor - 1) > tolerance(leaf.output))):
                continue
            passed_on = not is_linear(leaf) and not is_norm(leaf) and _match(leaf.input, rows) is not None
            if not passed_on:
                return self._follow(place, match, rows)
        return None

    def _follow(self, place: int, match: _Match, rows: Tensor) -> Way:
        leaf = self.ran[place]
        after: tuple[Stage, ...] = (Rotation(rows, match.rows),) if match.turned else ()
        columns = range(match.first, match.first + rows.shape[1])
        if is_linear(leaf):
            width = leaf.input.shape[-1]
            readings = (given for given in by_position(leaf.input, len(rows)) if given.shape[1] == width)
            source = next(readings, None)  # None: it projects each head by itself
            found = None if source is None else self.find(source, place, own=True)
            before = found or Way((), source, 1.0)
            bias = isinstance(getattr(leaf.module, "bias", None), Tensor)
            step: Stage = Linear(leaf.name, columns, bias, match.rows)
        elif is_norm(leaf):
            given = by_position(leaf.input, len(rows))[match.layout][:, columns.start : columns.stop]
            before = self.find(given, place) or Way((), None, 1.0)
            step = Norm(leaf.name, leaf.input.shape[-1], match.rows)
        else:
            return Way(after, None, match.factor)
        return Way((*before.stages, step, *after), before.source, before.factor * match.factor)

    def joined(self, rows: Tensor) -> Way | None:
        """Find vectors whose first, or last, dimensions are a module's as they are, and whose others another's."""
        dim = rows.shape[1]
        for place in range(len(self.ran) - 1, -1, -1):
            for from_end in (False, True):
                width = _held(self.ran[place].output, rows, from_end=from_end)
                if not 2 <= width <= dim - 2:
                    continue
                cut = dim - width if from_end else width
                parts = tuple(self.find(part) for part in (rows[:, :cut], rows[:, cut:]))
                if parts[0] is not None and parts[1] is not None:
                    source = _common([part.source for part in parts if part is not None])
                    return Way((Joined((parts[0], parts[1]), rows),), source, 1.0)
        return None


def _common(sources: Sequence[Tensor | None]) -> Tensor | None:
    """Return the one thing that both parts come from, if they do."""
    one, other = sources
    if one is None or other is None or one.shape != other.shape or not same(one, other):
        return None
    return one


def _match(output: Tensor, rows: Tensor) -> _Match | None:
    for layout, matrix in enumerate(by_position(output, len(rows))):
        if matrix.shape[1] >= rows.shape[1]:
            found = _match_columns(matrix, rows, tolerance(output), layout)
            if found is not None:
                return found
    return None


def _match_columns(matrix: Tensor, rows: Tensor, near: float, layout: int) -> _Match | None:
    """Find the columns that hold these vectors as they are, or turned, up to one factor for all positions."""
    dim, rows = rows.shape[1], rows.float()
    squares = matrix.double().square().cumsum(-1)
    squares = torch.cat([torch.zeros_like(squares[:, :1]), squares], -1)
    lengths = (squares[:, dim:] - squares[:, :-dim]).clamp(min=0).sqrt().float()
    wanted = rows.norm(dim=-1, keepdim=True)
    factor = (wanted * lengths).sum(0) / lengths.square().sum(0).clamp(min=1e-30)
    as_long = (lengths * factor - wanted).abs().amax(0) <= near * wanted.max()
    places = torch.nonzero(as_long & (factor > 0)).flatten().tolist()
    places.sort(key=lambda place: place % dim)  # where heads begin, most often
    for turned in (False, True):
        for place in places:
            part, times = matrix[:, place : place + dim].float(), float(factor[place])
            holds = _rotated(part * times, rows, near) if turned else same(part * times, rows, near)
            if holds:
                return _Match(matrix[:, place : place + dim], place, times, turned, layout)
    return None


def _rotated(part: Tensor, rows: Tensor, near: float) -> bool:
    """Return whether the vectors are those of a part with pairs of dimensions turned, the others left as they are."""
    dim, limit = rows.shape[1], near * rows.abs().amax(-1, keepdim=True).clamp(min=1e-6)
    if rows.numel() <= 4:
        return False  # too few numbers to tell
    for taken, given, first, width in _pairings(dim):
        others = [*range(first), *range(first + width, dim)]
        if others and not bool(((part - rows)[:, others].abs() <= limit).all()):
            continue
        before, after = (torch.stack([t[:, a], t[:, b]]).norm(dim=0) for t, (a, b) in
                         ((part, taken), (rows, given)))  # fmt: skip
        if bool(((before - after).abs() <= limit).all()):
            return True
    return False


Pairs = tuple[Tensor, Tensor]


def _pairings(dim: int) -> Iterator[tuple[Pairs, Pairs, int, int]]:
    """Yield how the dimensions may be paired before and after a rotation, and which of them turn.

    Neighbours, or those half a width apart; one family brings neighbours half a width apart as it turns them.
    """
    for width in range(dim - dim % 2, 1, -2):
        for first in (0, dim - width) if width < dim else (0,):
            apart = [gap for gap in range(1, width // 2 + 1) if width % (2 * gap) == 0]
            for gap in apart if width == dim else {1, width // 2}:
                pairs = _pairs(first, width, gap)
                yield pairs, pairs, first, width
            if width > 2:
                yield _pairs(first, width, 1), _pairs(first, width, width // 2), first, width


def _pairs(first: int, width: int, gap: int) -> Pairs:
    places = torch.arange(first, first + width).reshape(-1, 2, gap)
    return places[:, 0].flatten(), places[:, 1].flatten()


def _held(output: Tensor, rows: Tensor, *, from_end: bool) -> int:
    """Count how many of the first, or last, dimensions an output holds next to each other as they are."""
    rows, most = rows.flip(-1) if from_end else rows, 0
    for matrix in by_position(output, len(rows)):
        matrix = matrix.flip(-1) if from_end else matrix
        limit = tolerance(output) * float(rows.abs().amax().clamp(min=1e-6))
        begins = ((matrix - rows[:, :1]).abs() <= limit).all(0)
        for first in torch.nonzero(begins).flatten().tolist():
            width = min(rows.shape[1], matrix.shape[1] - first)
            equal = ((matrix[:, first : first + width] - rows[:, :width]).abs() <= limit).all(0)
            most = max(most, int(equal.long().cumprod(0).sum()))
    return most
