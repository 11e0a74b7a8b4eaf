"""``mask --expect``: hold the masks that a model used against named patterns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attncli import registry
from attncli.errors import CheckFailed, UsageError, did_you_mean
from attncli.labels import in_ranges, safe_label
from attncli.observers.selection import Selection, parse_selection
from attncli.record import Kind, Tokens
from attncli.registry import Entry, Value

if TYPE_CHECKING:
    from attncli.inputs.corpus import BadLine, Line
    from attncli.models.batches import Encoded
    from attncli.models.loading import Loaded

Mask = NDArray[np.bool_]
_FORM = (
    "write NAME, NAME:VALUE or NAME:SETTING=VALUE,…; with @LAYERS for some layers: sliding-window:256@0-10"
)


@dataclass(frozen=True)
class Expectation:
    """A pattern that the masks of some layers should have.

    Args:
        text: As it was written, without the layers.
        kind: ``masks`` or ``variants``.
        causal: Whether it is causal, where that was set.
        layers: Which layers; None for all that no other expectation names.
    """

    text: str
    kind: str
    entry: Entry
    settings: dict[str, Value]
    causal: bool | None
    layers: Selection | None

    def mask(self, rows: int, keys: int, *, causal: bool) -> Mask:
        """Return the pattern over so many rows and keys.

        Args:
            causal: Whether it is causal, where it can be either and nothing was set.
        """
        settings, form = dict(self.settings), self.entry.attributes.get("causal", False)
        if form is True or self.kind == "variants":
            settings["causal"] = form == "only" or (causal if self.causal is None else self.causal)
        made: Mask = registry.load(self.kind, self.entry.name).mask(rows, keys, **settings).numpy()
        return made


def parse_expectation(text: str) -> Expectation:
    """Read ``NAME[:SETTINGS][@LAYERS]``, a setting as NAME=VALUE or, for the first one, as VALUE.

    Raises:
        UsageError: Nothing has this name, or a setting or the layers are wrong.
    """
    pattern, _, layers = text.partition("@")
    name, _, written = pattern.partition(":")
    kind, entry = _found(name.strip())
    given = [part.strip() for part in written.split(",") if part.strip()]
    if given and "=" not in given[0]:
        if not entry.parameters:
            raise UsageError(f"--expect {text}: {entry.name} has no settings")
        given[0] = f"{entry.parameters[0].name}={given[0]}"
    told = [one.removeprefix("causal=").lower() for one in given if one.startswith("causal=")]
    if told and (told[-1] not in ("true", "false") or entry.attributes.get("causal", False) is not True):
        raise UsageError(
            f"--expect {text}: causal=true or causal=false is for patterns that can be either", _FORM
        )
    settings = entry.settings([one for one in given if not one.startswith("causal=")])
    settings.pop("causal", None)
    chosen = parse_selection(layers, "layer", no_mean="masks have no mean") if layers else None
    return Expectation(pattern, kind, entry, settings, told[-1] == "true" if told else None, chosen)


def _found(name: str) -> tuple[str, Entry]:
    """Find a mask or variant by its name, or by a part of it that no other has."""
    known = {entry: kind for kind in ("variants", "masks") for entry in registry.entries(kind)}
    parts = [one for one in known if name and name in one.split("-")]
    found = name if name in known else parts[0] if len(parts) == 1 else None
    if found is None:
        raise UsageError(
            f'--expect: no mask or variant named "{safe_label(name)}"', did_you_mean(name, known)
        )
    return known[found], registry.entries(known[found])[found]


@dataclass(frozen=True)
class _Wrong:
    layer: int
    pattern: str
    cells: int
    first: tuple[int, int]
    allowed: bool


def check_masks(
    groups: Iterable[tuple[Sequence[int], Mask]],
    expected: Sequence[Expectation],
    kind: Kind,
    depth: int,
    queries: Tokens,
    keys: Tokens,
    where: str = "",
) -> int:
    """Hold masks against what was expected of them.

    Args:
        groups: Each distinct mask with the layers that use it.
        kind: Which attention the masks are of.
        depth: How many layers the model has.
        where: What the message begins with: which text this is.

    Returns:
        How many layers were checked.

    Raises:
        CheckFailed: A layer has another mask; the first wrong pair is named.
        UsageError: An expectation names no layer that was seen.
    """
    masks = {layer: mask for layers, mask in groups for layer in layers}
    patterns = _by_layer(expected, depth, sorted(masks))
    made: dict[int, Mask] = {}
    wrong = []
    for layer, pattern in sorted(patterns.items()):
        if id(pattern) not in made:
            made[id(pattern)] = pattern.mask(len(queries), len(keys), causal=kind == "decoder")
        want = made[id(pattern)]
        different = want != masks[layer]
        if different.any():
            row, key = (int(place) for place in np.argwhere(different)[0])
            wrong.append(
                _Wrong(layer, pattern.text, int(different.sum()), (row, key), bool(masks[layer][row, key]))
            )
    if wrong:
        raise _failure(wrong, queries, keys, where)
    return len(patterns)


def _by_layer(expected: Sequence[Expectation], depth: int, seen: Sequence[int]) -> dict[int, Expectation]:
    """Return each layer's expectation: the last that names it, or else the last that names no layers."""
    rest = [one for one in expected if one.layers is None][-1:]
    found = {layer: one for one in rest for layer in seen}
    for one in expected:
        if one.layers is None:
            continue
        named = [layer for layer in seen if layer in one.layers.resolve(depth)]
        if not named:
            raise UsageError(
                f"--expect {one.text}: it names no layer whose mask was seen", f"seen: {in_ranges(seen)}"
            )
        found.update(dict.fromkeys(named, one))
    return found


def _failure(wrong: Sequence[_Wrong], queries: Tokens, keys: Tokens, where: str) -> CheckFailed:
    first, pairs = wrong[0], len(queries) * len(keys)
    row, key = first.first
    query, other = (safe_label(tokens[place].text) for tokens, place in ((queries, row), (keys, key)))
    verb = "may" if first.allowed else "may not"
    hint = f"{first.cells:,} of {pairs:,} pairs differ in layer {first.layer}"
    if len(wrong) > 1:
        hint += f"; wrong layers: {in_ranges([one.layer for one in wrong])}"
    return CheckFailed(
        f'{where}layer {first.layer} is not {first.pattern}: row {row} "{query}" {verb} attend to key {key} "{other}"',
        hint,
    )


def check_padded_batch(
    loaded: Loaded,
    texts: Sequence[Line],
    expected: Sequence[Expectation],
    layers: Selection,
    *,
    verify: bool = True,
) -> int:
    """Run texts as one batch, padded on the right and then on the left, and hold each text's masks against patterns.

    A text's rows may attend to no padding, and among its own tokens as if it stood alone.

    Returns:
        How many layers were checked.

    Raises:
        CheckFailed: A text has another mask in a batch.
        UsageError: A text cannot be read by the model.
    """
    from attncli.models.batches import BatchedModel
    from attncli.observers.masks import MaskOnly

    checked = 0
    for side in ("right", "left"):
        model = BatchedModel(loaded, padding=side, verify=verify)
        encoded = [_readable(one) for one in model.encode([(line, None) for line in texts], 0)]
        feed = model.feed(encoded)
        kind = model.kinds[0]
        depth, length = model.depth(kind), max(len(text.source.ids) for text in encoded)
        kept = [MaskOnly(kind, layers, depth, length, length, text) for text in range(len(encoded))]
        run = model.run(feed, kept)
        layers.refuse_missing(run, kind, depth)
        for text, one in enumerate(kept):
            place = feed.batches[kind].queries.present[text].nonzero().flatten().numpy(force=True)
            tokens = _named(feed.batches[kind].queries.ids[text, place[0] : place[-1] + 1].tolist(), loaded)
            where = f"line {encoded[text].line} of a batch padded on the {side}: "
            groups = one.groups()
            _refuse_padding(groups, place, tokens, where)
            own = [(layers, mask[np.ix_(place, place)]) for layers, mask in groups]
            checked = check_masks(own, expected, kind, depth, tokens, tokens, where)
    return checked


def _readable(text: Encoded | BadLine) -> Encoded:
    from attncli.inputs.corpus import BadLine

    if isinstance(text, BadLine):
        raise UsageError(f"line {text.number} cannot be checked: {text.reason}")
    return text


def _named(ids: Sequence[int], loaded: Loaded) -> Tokens:
    from attncli.models.python_tokenizers import read_ids

    return read_ids(loaded.tokenizer, ids)


def _refuse_padding(
    groups: Iterable[tuple[Sequence[int], Mask]], place: NDArray[np.int64], tokens: Tokens, where: str
) -> None:
    """Raise `CheckFailed` where a row of the text may attend to padding."""
    for layers, mask in groups:
        padding = np.delete(mask, place, axis=1)[place]
        if padding.any():
            row = int(np.argwhere(padding)[0, 0])
            query = safe_label(tokens[row].text)
            raise CheckFailed(
                f'{where}in layer {layers[0]}, row {row} "{query}" may attend to padding',
                f"layers with this mask: {in_ranges(layers)}",
            )
