"""Writes how a head's queries, keys and values were made as formulas, from the steps that were found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from attncli.capture.projections import same
from attncli.explain.projection_stages import Joined, Linear, Norm, Rotation, Stage, Way
from attncli.explain.row import Earlier, Made, Normed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SYMBOLS = "xyz"
_UNKNOWN = "?"


def formulas(ways: Mapping[str, Way | None], shared: Mapping[str, int], x: Tensor | None) -> dict[str, Made]:
    """Write down how each of Q, K and V was made.

    Args:
        ways: By letter, in this order; None where nothing was found.
        shared: The earlier layers whose keys or values are used once more, by letter.
        x: What queries are projected from.
    """
    writer = _Writer(x)
    return {letter: writer.made(letter, way, shared.get(letter)) for letter, way in ways.items()}


class _Writer:
    """Keeps the names of matrices and inputs, so that the same one has the same name throughout."""

    def __init__(self, x: Tensor | None) -> None:
        self._sources: list[Tensor | None] = [x]
        self._matrices: dict[tuple[str, int, int], str] = {}

    def made(self, letter: str, way: Way | None, layer: int | None) -> Made:
        """Write one formula."""
        if way is None:
            return Made(None if layer is None else f"{letter} of layer {layer}", layer=layer)
        self._name(letter, way)
        stages = tuple(_flat(way))
        return Made(
            self._expression(way),
            rotated=any(isinstance(stage, Rotation) for stage in stages),
            norms=tuple(_norms(stages)),
            modules=tuple(dict.fromkeys(stage.module for stage in stages if isinstance(stage, Linear))),
            earlier=tuple(_earlier(way)),
        )

    def _name(self, letter: str, way: Way) -> None:
        keys = [_key(stage) for stage in _flat(way) if isinstance(stage, Linear)]
        new = [key for key in dict.fromkeys(keys) if key not in self._matrices]
        for number, key in enumerate(new, 1):
            self._matrices[key] = f"{letter}{number if len(new) > 1 else ''}"

    def _expression(self, way: Way) -> str:
        text = _UNKNOWN if way.source is None else self._symbol(way.source)
        if way.stages and isinstance(way.stages[0], Joined):
            text = ""
        for stage in way.stages:
            text = self._after(text, stage)
        if abs(way.factor - 1) > 1e-3:
            text = f"{way.factor:.3g}·{f'({text})' if ' + ' in text and not text.endswith(')') else text}"
        return text

    def _after(self, text: str, stage: Stage) -> str:
        if isinstance(stage, Rotation):
            return f"rotate({text})"
        if isinstance(stage, Norm):
            return f"norm({text})"
        if isinstance(stage, Joined):
            return f"[{', '.join(self._expression(part) for part in stage.parts)}]"
        name = self._matrices[_key(stage)]
        inner = f"({text})" if " + " in text and not text.startswith("norm(") else text
        return f"{inner}·W_{name}" + (f" + b_{name}" if stage.bias else "")

    def _symbol(self, source: Tensor) -> str:
        for symbol, known in zip(_SYMBOLS, self._sources, strict=False):
            if known is not None and known.shape == source.shape and same(known, source):
                return symbol
        self._sources.append(source)
        return _SYMBOLS[len(self._sources) - 1] if len(self._sources) <= len(_SYMBOLS) else _UNKNOWN


def _flat(way: Way) -> Iterator[Stage]:
    for stage in way.stages:
        if isinstance(stage, Joined):
            for part in stage.parts:
                yield from _flat(part)
        else:
            yield stage


def _norms(stages: Sequence[Stage]) -> Iterator[Normed]:
    """Yield what each norm works on."""
    for place, stage in enumerate(stages):
        if not isinstance(stage, Norm):
            continue
        if any(isinstance(later, Linear) for later in stages[place:]):
            yield "between projections" if place else "input"
        else:
            yield "head" if stage.width == stage.rows.shape[1] else "all heads"


def _key(stage: Linear) -> tuple[str, int, int]:
    return stage.module, stage.columns.start, stage.columns.stop


def _earlier(way: Way) -> Iterator[Earlier]:
    """Yield the vectors as they were before each rotation and norm, the last step first."""
    stages: Sequence[Stage] = way.stages
    for place in range(len(stages) - 1, -1, -1):
        stage = stages[place]
        if isinstance(stage, Rotation):
            yield Earlier("rotation", _numbers(stage.before))
        elif isinstance(stage, Norm) and place and isinstance(stages[place - 1], Linear | Rotation | Norm):
            if stages[place - 1].rows.shape == stage.rows.shape:
                yield Earlier("norm", _numbers(stages[place - 1].rows))
        else:
            return


def _numbers(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.float().numpy(force=True)
