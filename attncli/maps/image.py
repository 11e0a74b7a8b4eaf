"""A picture instead of a text: what `attncli show photo.jpg` does."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.cli.options import GenerationOptions, ModelOptions, OutputOptions
from attncli.cli.progress import progress
from attncli.cli.rules import Rule, check_rules
from attncli.labels import safe_label
from attncli.maps import OpenedInput
from attncli.models.opening import Opened, load_options
from attncli.registry import Entry
from attncli.render import formats_with

if TYPE_CHECKING:
    from attncli.maps.options import ShowOptions
    from attncli.view import MatrixGrid, Picture

_CLASS = "cls"


ENTRY = Entry(
    name="picture",
    summary="a picture, whose patches a model of pictures attends to",
    attributes={
        "suffixes": (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
        "models": "ViT, DINOv2, CLIP, TrOCR, …",
        "example": "photo.jpg",
        "takes": ("pixel_values", "flattened_patches"),
        "towers": True,
    },
)


RULE = Rule(
    "--pair --stride --words --generate --chat", excludes="@picture", hint="it is for texts: leave it out"
)
WRITING = Rule(
    "--stride --words --temperature --chat", excludes="@picture", hint="it is for texts: leave it out"
)
"""What does not go with a picture that a model writes of."""


def open_input(
    path: str,
    choice: ShowOptions,
    model: ModelOptions,
    output: OutputOptions,
    writing: GenerationOptions,
    formats: Collection[str],
) -> OpenedInput:
    """Open a picture.

    Args:
        formats: Those that the view will be written in: drawing needs one query alone.

    Raises:
        AttnCliError: The picture cannot be read, or an option does not go with it.
    """
    assert model.model is not None
    with progress(f"loading {safe_label(model.model)} …", output):
        from attncli.models.input_kinds import inputs_of
        from attncli.models.loading import load

        writes = inputs_of(model.model, load_options(model)).writes
        check_rules((WRITING if writes else RULE,), "@picture")
        loaded = load(model.model, load_options(model), tokenizer=writes)
    with progress("looking …", output):
        from attncli.models.captioner import part_that_sees, write_of
        from attncli.models.vision import look_at
        from attncli.observers.selection import parse_selection

        verify = not model.no_verify
        if writes and choice.kind != "encoder":
            source, picture = write_of(
                loaded, Path(path), choice.pair, tokens=writing.generate, verify=verify
            )
            return OpenedInput(source, choice, _over(picture, source, choice))
        layers = parse_selection(choice.layer or "all", "layer")
        part = part_that_sees(loaded) if writes else loaded
        source, picture = look_at(part, Path(path), layers=layers, verify=verify)
    tokens = source.axes("encoder")[0]
    draws = formats_with("draws").issuperset(formats)
    if choice.query is not None and choice.query.lower() == _CLASS and tokens[0].special:
        choice = replace(choice, query="0")
    elif picture is not None and not choice.asks_for_rows and choice.pool is None and draws:
        choice = replace(choice, query=str(_default_query(picture, len(tokens))))
    return OpenedInput(source, choice, _over(picture, source, choice))


def _over(
    picture: Picture | None, source: Opened, choice: ShowOptions
) -> Callable[[MatrixGrid], MatrixGrid] | None:
    return None if picture is None else partial(_lay_over, picture, source, choice)


def _lay_over(picture: Picture, source: Opened, choice: ShowOptions, view: MatrixGrid) -> MatrixGrid:
    """Lay one query's weights over the picture, or each written token's of one head, where all patches are keys."""
    patches = source.axes("encoder")[1]
    if view.pooled is not None or view.key_tokens != patches:
        return view
    if len(view.query_tokens) == 1:
        return replace(view, picture=replace(picture, query=0))
    if choice.asks_for_rows:
        return view
    if view.query_tokens == patches:
        return replace(view, picture=replace(picture, query=_default_query(picture, len(patches))))
    return replace(view, picture=replace(picture, query=None)) if len(view.matrices) == 1 else view


def _default_query(picture: Picture, tokens: int) -> int:
    """Choose who attends where nobody said so: the class token, or the patch in the middle where there is none."""
    if tokens > picture.rows * picture.columns:
        return 0
    return picture.rows // 2 * picture.columns + picture.columns // 2
