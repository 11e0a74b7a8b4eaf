"""One row of attention told step by step, with its numbers: what ``explain`` shows to people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attncli.explain.numerals import aligned, first_numbers, largest_terms, number
from attncli.explain.projection_text import about_made, added_formula, formulas_of
from attncli.explain.row import Explained, Made, Softened
from attncli.record import Token
from attncli.view import Column, Header, Step, Table

_MOST_NAMED = 6


@dataclass(frozen=True)
class Walk:
    """Tells an explained row.

    Args:
        shown: The keys to list, as places among the row's keys, rising.
        dims: How many of a vector's first numbers to show.
        header: For the tables, which have titles of their own.
    """

    row: Explained
    shown: tuple[int, ...]
    dims: int
    header: Header

    def steps(self) -> tuple[Step, ...]:
        """Return all steps in order."""
        first = (self._input(), self._projections(), self._compare(), self._scale())
        return *first, *self._modified(), self._mask(), self._softmax(), *self._sum(), self._add()

    # The steps

    def _input(self) -> Step:
        row, name = self.row, _quoted(self.row.query_token)
        if row.input is None:
            return Step("Input", "x", about=("what is projected was not found",))
        about, rows = self._about_input(len(row.input)), [(name, row.input)]
        if row.key_input is not None:
            about = (
                f"queries come from one text (x), keys and values from the other (y): {len(row.input):,} numbers "
                "for each token"
            )
            rows.append((f"{_quoted(self._strongest)}, a key", row.key_input[self._strongest_place]))
        shape = _shape(row.shapes["input"])
        if row.key_input is not None:
            return Step(
                "Input",
                "x, y",
                f"x {shape}, y {_shape(row.shapes['key_input'])}",
                (about,),
                (self._vectors(rows),),
            )
        return Step("Input", "x", shape, (about,), (self._vectors(rows),))

    def _about_input(self, size: int) -> str:
        """Return what is projected: the residual stream, or what a norm made of it."""
        told = {
            None: "what is projected",
            "stream": "the residual stream",
            "norm": "the residual stream after the layer's norm",
        }
        return f"{told[self.row.input_from]}: {size:,} numbers for each token"

    def _projections(self) -> Step:
        row, heads = self.row, self.row.layer.heads
        query, key = _quoted(row.query_token), _quoted(self._strongest)
        place = self._strongest_place
        rows = [
            (f"query {query}", row.query),
            *_earlier(row.made["Q"], row.place),
            (f"key {key}", row.key[place]),
            *_earlier(row.made["K"], place),
        ]
        if row.value is not None:
            rows += [(f"value {key}", row.value[place]), *_earlier(row.made["V"], place)]
        about = f"head {row.head} of {heads}, of {len(row.query)} dimensions"
        if row.layer.kv_heads < heads:
            about += f"; keys and values are those of kv head {row.kv_head} of {row.layer.kv_heads}"
        return Step(
            "Query, key, value",
            formulas_of(row.made),
            f"Q {_shape(row.shapes['query'])}",
            (about, *about_made(row)),
            (self._vectors(rows),),
        )

    def _compare(self) -> Step:
        row = self.row
        products = row.products
        dots = aligned(row.dots[list(self.shown)])
        rows = [
            (self._key(place), dot, largest_terms(products[place]))
            for place, dot in zip(self.shown, dots, strict=True)
        ]
        columns = Column("key"), Column("Q·K", right=True), Column("largest of its terms, by dimension")
        about = f"one number for each key: the sum of {products.shape[1]} products, one for each dimension"
        left = len(row.weights) - len(self.shown)
        told = (about, *([self._listed()] if left else []))
        return Step("Compare", "Q·Kᵀ", _shape(row.shapes["scores"]), told, (self._table(columns, rows),))

    def _listed(self) -> str:
        """Return which keys are listed, where some are left out."""
        all_keys, allowed = len(self.row.weights), self._allowed_count
        if len(self.shown) == allowed:
            return f"listed {_keys(allowed)} of {all_keys:,} that this row may attend to"
        of = f"{all_keys:,}" if allowed == all_keys else f"the {allowed:,} that this row may attend to"
        return f"listed {_keys(len(self.shown))} of {of} with the most weight (--top)"

    def _scale(self) -> Step:
        row, own, other = self.row, self.row.own, self.row.other
        head_dim = len(row.query)
        usual = abs(row.scale - head_dim**-0.5) < 1e-6
        formula = f"Q·Kᵀ / √{head_dim}" if usual else f"Q·Kᵀ × {number(row.scale)}"
        told = [(own, "the model's"), (other, "not scaled" if other.scale >= 1 else "by 1/√d_k")]
        rows = [_softened(*pair) for pair in told]
        columns = (
            Column("scores"),
            Column("variance", right=True),
            Column("entropy", unit="bits", right=True),
            Column("gradient", right=True),
            Column("largest", "largest weight", right=True),
        )
        added = "" if row.bias is None else "; here with the bias of the next step"
        about = (
            _about_scale(row),
            "large scores leave softmax no choice but one key, and hardly a gradient (the norm of ∂weights/∂scores)"
            f"{added}:",
        )
        return Step("Scale", formula, "", about, (self._table(columns, rows),))

    def _modified(self) -> Iterator[Step]:
        """Yield of the soft-cap and the bias, where there is either."""
        row = self.row
        if row.softcap is not None:
            cap = number(row.softcap)
            columns = Column("key"), Column("scaled", right=True), Column("capped", right=True)
            texts = aligned(row.scaled[list(self.shown)]), aligned(row.capped[list(self.shown)])
            rows = [(self._key(i), *pair) for i, *pair in zip(self.shown, *texts, strict=True)]
            about = f"no score gets beyond ±{cap}"
            yield Step("Cap", f"{cap}·tanh(scores / {cap})", "", (about,), (self._table(columns, rows),))
        if row.bias is not None:
            columns4 = Column("key"), *(Column(name, right=True) for name in ("before", "bias", "score"))
            texts4 = [aligned(values[list(self.shown)]) for values in (row.capped, row.bias, row.scores)]
            rows4 = [(self._key(i), *three) for i, *three in zip(self.shown, *texts4, strict=True)]
            about = "added to the scores; most often it tells how far away a key is"
            yield Step("Bias", "scores + bias", "", (about,), (self._table(columns4, rows4),))

    def _mask(self) -> Step:
        allowed = self.row.allowed
        count = len(self.row.weights)
        hidden = [] if allowed is None else np.flatnonzero(~allowed).tolist()
        if not hidden:
            return Step("Mask", "nothing hidden", "", (f"this row may attend to all {count:,} keys",))
        keys = [self.row.key_tokens[place] for place in hidden[:_MOST_NAMED]]
        names = [f"{key.position} “{key.label}”" for key in keys]
        more = f" and {len(hidden) - _MOST_NAMED:,} more" if len(hidden) > _MOST_NAMED else ""
        why = "keys after the row, its future" if min(hidden) > self.row.query_token.position else "keys"
        one = "key is" if count == 1 else "keys is" if len(hidden) == 1 else "keys are"
        about = f"{len(hidden):,} of {count:,} {one} hidden ({why}): {', '.join(names)}{more}"
        return Step("Mask", "score = −∞ where hidden", "", (about,))

    def _softmax(self) -> Step:
        row = self.row
        highest = _highest(row)
        scores = aligned(row.scores[list(self.shown)])
        rows: list[tuple[object, ...]] = [
            (
                self._key(i),
                score,
                f"{np.exp(row.scores[i] - highest):.3f}",
                f"{row.weights[i]:.3f}",
                float(row.weights[i]),
            )
            for i, score in zip(self.shown, scores, strict=True)
        ]
        rest = float(row.weights.sum() - row.weights[list(self.shown)].sum())
        left, hidden = self._allowed_count - len(self.shown), len(row.weights) - self._allowed_count
        if left:
            rows.append(
                (f"{left:,} other key{'s' * (left > 1)}", "", "", f"{max(rest, 0.0):.3f}", max(rest, 0.0))
            )
        if hidden:
            rows.append((f"{hidden:,} hidden key{'s' * (hidden > 1)}", "−∞", f"{0:.3f}", f"{0:.3f}", 0.0))
        if row.sink is not None:
            taken = 1.0 - float(row.weights.sum())
            rows.append(
                ("sink, no key", number(row.sink), f"{np.exp(row.sink - highest):.3f}", f"{taken:.3f}", taken)
            )
        columns = (
            Column("key"),
            Column("score", right=True),
            Column("exp", "exp(score − max)", right=True),
            Column("weight", right=True),
            Column("bar", "", bar=True),
        )
        about = f"the weights sum to {row.weights.sum():.6f}; their entropy is {number(row.own.entropy)} bits"
        return Step("Softmax", "exp(score) / Σ exp(score)", "", (about,), (self._table(columns, rows),))

    def _sum(self) -> Iterator[Step]:
        """Yield of the weighted sum, where the values were seen."""
        row = self.row
        if row.value is None or row.output is None:
            return
        rows: list[tuple[object, ...]] = [
            self._portion(self._key(i), f"{row.weights[i]:.3f}", row.value[i], row.weights[i])
            for i in self.shown
        ]
        if len(self.shown) < self._allowed_count:
            rest = row.output - row.weights[list(self.shown)] @ row.value[list(self.shown)]
            rows.append(("the others", "", "", number(_norm(rest)), first_numbers(rest, self._few)))
        rows.append(("output", "", "", number(_norm(row.output)), first_numbers(row.output, self._few)))
        columns = (
            Column("key"),
            Column("weight", right=True),
            Column("length of v", right=True),
            Column("of weight·v", right=True),
            Column("weight·v, first dimensions"),
        )
        about = "each key's value by its weight, summed up: what this head has to say at this token"
        yield Step(
            "Weighted sum", "weights·V", _shape(row.shapes["output"]), (about,), (self._table(columns, rows),)
        )

    def _add(self) -> Step:
        row, added = self.row, self.row.added
        if added is None or row.output is None:
            about = "output projection not found: no linear map that ran next was given the heads' outputs"
            return Step("Output projection", "output·W_O", about=(about,))
        adds = "adds" if added.stream is not None else "gives"
        rows = [
            (f"head {row.head} {adds}", added.vector),
            (f"the layer {adds}" if added.stream is not None else "all heads give", added.all_heads),
        ]
        share = _percent(added.vector, added.all_heads)
        told = f"what head {row.head} {adds} is {share} of the length of all that the layer {adds}"
        told += _about_bias(added.bias)
        if added.stream is None:
            told += "; what this is added to was not found"
        else:
            rows.append(("residual stream", added.stream))
            told += (
                f", and {_percent(added.vector, added.stream)} of that of the residual stream it is added to"
            )
        formula, between = added_formula(row, added)
        shape = _shape(row.shapes["output_projection"])
        return Step("Output projection", formula, f"W_O {shape}", (*between, told), (self._vectors(rows),))

    # What they have in common

    @property
    def _strongest_place(self) -> int:
        return int(self.row.weights.argmax())

    @property
    def _strongest(self) -> Token:
        return self.row.key_tokens[self._strongest_place]

    @property
    def _few(self) -> int:
        return min(self.dims, 3)

    @property
    def _allowed_count(self) -> int:
        return len(self.row.weights) if self.row.allowed is None else int(self.row.allowed.sum())

    def _key(self, place: int) -> str:
        token = self.row.key_tokens[place]
        return f"{token.position} {token.label}"

    def _portion(self, name: str, weight: str, value: NDArray[np.float32], by: float) -> tuple[object, ...]:
        return (
            name,
            weight,
            number(_norm(value)),
            number(_norm(by * value)),
            first_numbers(by * value, self._few),
        )

    def _vectors(self, rows: Sequence[tuple[str, NDArray[np.float32]]]) -> Table:
        columns = Column("vector", ""), Column("length", right=True), Column("first", "first dimensions")
        return self._table(
            columns, [(name, number(_norm(v)), first_numbers(v, self.dims)) for name, v in rows]
        )

    def _table(self, columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> Table:
        return Table(replace(self.header, title="", notes=()), tuple(columns), tuple(rows))


def _about_scale(row: Explained) -> str:
    d, scale = len(row.query), row.scale
    usual = d**-0.5
    if abs(scale - usual) < 1e-6:
        return f"a sum of {d} products varies {d} times as much as one: dividing by √{d} takes that back"
    if row.factor is not None and abs(row.factor * scale - usual) < 1e-4 * usual:
        return f"this model has scaled its queries before, by 1/√{d} = {number(usual)}"
    if abs(scale - 1) < 1e-6:
        before = "" if row.factor is not None else "; whether queries were scaled before was not found"
        return f"this model does not scale these products{before}"
    return f"this model scales by {number(scale)}, not by 1/√{d} = {number(usual)}"


def _earlier(made: Made, place: int) -> list[tuple[str, NDArray[np.float32]]]:
    return [(f"before its {one.step}", one.rows[place]) for one in made.earlier]


def _keys(count: int) -> str:
    return "is the 1 key" if count == 1 else f"are the {count:,} keys"


def _about_bias(norm: float | None) -> str:
    return "" if norm is None else f", with a bias of length {number(norm)} that belongs to no head"


def _softened(found: Softened, what: str) -> tuple[str, ...]:
    values = (found.variance, found.entropy, found.gradient)
    return (f"× {number(found.scale)}, {what}", *map(number, values), f"{found.largest:.3f}")


def _highest(row: Explained) -> float:
    scores = row.scores if row.allowed is None else row.scores[row.allowed]
    highest = float(scores.max(initial=-np.inf))
    return highest if row.sink is None else max(highest, row.sink)


def _percent(part: NDArray[np.float32], whole: NDArray[np.float32]) -> str:
    length = _norm(whole)
    return f"{100 * _norm(part) / length:.3g}%" if length else "infinitely"


def _norm(vector: NDArray[np.float32]) -> float:
    return float(np.linalg.norm(vector))


def _shape(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"


def _quoted(token: Token) -> str:
    return f"“{token.label}”"
