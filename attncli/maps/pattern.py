"""The view of a named pattern: found by its name, checked, measured, and drawn whole or as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attncli import registry
from attncli.axis_cells import SIDE, even_cuts
from attncli.cli.options import TextInput
from attncli.cli.output import LARGEST_TEXT, Plan
from attncli.errors import TooLargeError, UsageError, did_you_mean
from attncli.memory import human_bytes, require_memory
from attncli.record import Token, Tokens
from attncli.registry import Entry, Value
from attncli.render import formats_with

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from attncli.attention.patterns.key_runs import Reach
    from attncli.maps.options import MaskOptions
    from attncli.view import MatrixGrid

_DEFAULT_LENGTH = 12
_PAIR_BYTES = 24  # of a mask, while it is made from distances between positions, and as numbers to write
_TEXT_BYTES = 3  # of a pair in JSON
_ROW_BYTES = 800  # of a pattern in runs, and of the search for its path


def pattern_view(pattern: MaskOptions, plan: Plan) -> MatrixGrid:
    """Make a named pattern's view: the mask itself, or where it is large a picture of it.

    Raises:
        UsageError: There is no such pattern, or what was set does not fit it or the lengths.
        TooLargeError: There are more pairs than the form asked for, or memory, has room for.
    """
    kind, entry = _named(pattern)
    text = _text_tokens(pattern)
    rows, keys = _lengths(pattern, text)
    settings = _settings(kind, entry, pattern, keys)
    whole = _shows_all(rows, keys, plan)
    module = registry.load(kind, entry.name)
    described = hasattr(module, "reach") or kind == "variants"
    _check_memory(rows, keys, whole or not described)

    from attncli.attention.patterns.key_runs import reach_of

    try:
        reach = reach_of(module, rows, keys, **settings)
        mask = module.mask(rows, keys, **settings).numpy() if whole else None
    except (ValueError, OverflowError) as error:
        raise UsageError(f"mask {entry.name}: {error}") from error
    return _measured(reach, mask, _title(kind, entry, settings), text, _smaller(entry, settings, pattern))


def _named(pattern: MaskOptions) -> tuple[str, Entry]:
    """Find what has this name: a mask, or else a variant.

    Raises:
        UsageError: Nothing has it.
    """
    if pattern.name is None:
        raise UsageError("no mask was named", "try: attncli mask causal --seq-len 8  (attncli list masks)")
    for kind in ("masks", "variants"):
        if pattern.name in registry.entries(kind):
            break
    else:
        known = {**registry.entries("masks"), **registry.entries("variants")}
        raise UsageError(f"no mask or variant named {pattern.name!r}", did_you_mean(pattern.name, known))
    return kind, registry.entries(kind)[pattern.name]


def _settings(kind: str, entry: Entry, pattern: MaskOptions, keys: int) -> dict[str, Value]:
    """Return the pattern's parameters their values, causality among them where it can be chosen.

    Where nothing is set and the defaults would cover all keys, they are small enough to be seen.

    Raises:
        UsageError: A parameter is not right, or the pattern does not come with, or without, causality.
    """
    settings = entry.settings(pattern.settings or (), length=keys)
    form = entry.attributes.get("causal", False)
    if pattern.causal is False and form == "only":
        raise UsageError(f"{entry.name} is causal by definition: there is no --no-causal form")
    if pattern.causal is True and form is False:
        raise UsageError(f"{entry.name} has no causal form", "choose from: " + ", ".join(_causal_names()))
    if "causal" in settings:
        set_too = any(one.partition("=")[0] == "causal" for one in pattern.settings or ())
        if pattern.causal is not None and set_too:
            raise UsageError("--set causal and --causal or --no-causal were both given", "give one of them")
        return settings if pattern.causal is None else {**settings, "causal": pattern.causal}
    if kind == "variants":
        settings["causal"] = form == "only" or bool(pattern.causal)
    return settings


def _smaller(entry: Entry, settings: Mapping[str, Value], pattern: MaskOptions) -> tuple[str, ...]:
    """Return a note where settings were made smaller than the defaults."""
    changed = [p for p in entry.parameters if p.name != "causal" and settings[p.name] != p.default]
    if pattern.settings or not changed:
        return ()
    now = ", ".join(f"{p.name}={settings[p.name]}" for p in changed)
    usual = ", ".join(f"{p.name}={p.default}" for p in changed)
    return (f"{now}, small enough to be seen here; the default {usual} is for long texts",)


def _causal_names() -> list[str]:
    known = {**registry.entries("variants"), **registry.entries("masks")}
    return sorted(name for name, entry in known.items() if entry.attributes.get("causal", False))


def _shows_all(rows: int, keys: int, plan: Plan) -> bool:
    """Return whether every pair is shown, or a picture is enough.

    Raises:
        TooLargeError: There are too many pairs for a form that lists them.
    """
    names = [name for _, name in plan.files] + ([plan.stdout] if plan.stdout else [])
    data = [name for name in names if name not in formats_with("draws")]
    texts = [name for name in data if name not in formats_with("binary")]
    pairs = rows * keys
    if pairs <= LARGEST_TEXT:
        return True
    if texts and not plan.output.yes_large:
        size = human_bytes(pairs * _TEXT_BYTES)
        raise TooLargeError(
            f"{rows:,}×{keys:,} = {pairs:,} pairs would be about {size} as {texts[0]}",
            "for a picture leave --format out, or use -o mask.png; for all pairs -o mask.npz, or --yes-large",
        )
    return bool(data)


def _check_memory(rows: int, keys: int, whole: bool) -> None:
    """Refuse what would not fit into memory, before anything is made.

    Raises:
        TooLargeError: It would not.
    """
    pairs = rows * keys if whole else 0
    what = f"all {rows:,}×{keys:,} pairs" if whole else f"{rows:,} rows"
    hint = "a picture needs no matrix: leave --format out, or -o mask.png" if whole else None
    require_memory(pairs * _PAIR_BYTES + (rows + keys) * _ROW_BYTES, what, hint)


def _measured(
    reach: Reach, mask: NDArray[np.bool_] | None, title: str, text: Tokens | None, said: Sequence[str]
) -> MatrixGrid:
    """Measure a pattern, and show its mask, or where there is none a picture of it."""
    from attncli.attention.patterns.key_runs import keys_per_row, pooled
    from attncli.cli.common import provenance
    from attncli.maps.views import mask_view, row_facts
    from attncli.view import Matrix

    rows, keys = reach.query_len, reach.key_len
    path, notes = _path(reach)
    notes = (*said, *notes)
    facts = {**row_facts(keys_per_row(reach), keys), **path}
    row_cuts, key_cuts = even_cuts(rows, SIDE), even_cuts(keys, SIDE)
    if mask is not None:
        row_cuts, key_cuts, shown = list(range(rows)), list(range(keys)), mask
    else:
        shown = pooled(reach, row_cuts, key_cuts)
        title = f"{title} · {rows:,}×{keys:,} pairs"
        notes = (_pooled_note(rows, keys), *notes)
    queries = _tokens_at([cut + max(keys - rows, 0) for cut in row_cuts], text)
    named = Matrix(shown[:0].astype("float32"))
    return mask_view(
        [(named, shown)],
        title,
        queries,
        _tokens_at(key_cuts, text),
        provenance(),
        notes=notes,
        facts=[facts],
    )


def _path(reach: Reach) -> tuple[dict[str, object], tuple[str, ...]]:
    """Measure the path length; give it as facts, and what to say of it."""
    from attncli.attention.patterns.path_length import PathTooLong, path_length, path_rows

    length = reach.key_len
    if reach.query_len != length:
        return {}, (*reach.notes, "no path length: rows and keys are not the same positions")
    measured = path_rows(length)
    try:
        found = path_length(reach, measured)
    except PathTooLong as error:
        return {}, (*reach.notes, f"no path length: it is {error}, and takes too long to measure")
    facts: dict[str, object] = {"path_length": found, "path_rows": len(measured)}
    if len(measured) == length:
        return facts, reach.notes
    sampled = f"path length measured from {len(measured)} of the {length:,} rows: both ends, the middle and a sample"
    return facts, (*reach.notes, sampled)


def _pooled_note(rows: int, keys: int) -> str:
    down, across = -(-rows // SIDE), -(-keys // SIDE)
    size = f"{min(rows, SIDE)}×{min(keys, SIDE)}"
    return f"the picture is pooled to {size}: a point stands for {down}×{across} pairs, filled where any is allowed"


def _title(kind: str, entry: Entry, settings: Mapping[str, Value]) -> str:
    """Name a pattern with what is not as by default."""
    defaults = {parameter.name: parameter.default for parameter in entry.parameters}
    changed = [
        f"{name}={value}"
        for name, value in settings.items()
        if name != "causal" and value != defaults.get(name)
    ]
    if settings.get("causal"):
        changed.insert(0, "causal")
    what = f" ({', '.join(changed)})" if changed else ""
    pairs = entry.summary.partition(": O(")[0]  # what a variant costs is told elsewhere
    return f"{entry.name} {'mask' if kind == 'masks' else 'pattern'}{what}: {pairs}"


def _text_tokens(pattern: MaskOptions) -> Tokens | None:
    """Return the tokens of the text; None where the pattern is one of bare positions.

    Raises:
        UsageError: The text is empty.
    """
    from attncli.models.tokens import words_of_text

    if pattern.text is None and pattern.file is None:
        return None
    tokens = words_of_text(TextInput(pattern.text, pattern.file).read("mask causal"))
    if not tokens:
        raise UsageError("the text is empty: there is nothing to attend to")
    return tokens


def _lengths(pattern: MaskOptions, text: Tokens | None) -> tuple[int, int]:
    """Return the number of rows and of keys."""
    if text is not None:
        return len(text), len(text)
    rows = pattern.seq_len or _DEFAULT_LENGTH
    return rows, pattern.key_len or rows


def _tokens_at(places: Sequence[int], text: Tokens | None) -> Tokens:
    """Return the tokens, or bare positions, of some places."""
    if text is not None:
        return tuple(text[place] for place in places)
    return tuple(Token(place, None, str(place), str(place)) for place in places)
