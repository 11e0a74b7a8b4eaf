"""A picture instead of a text: what `attncli show photo.jpg` does."""

from __future__ import annotations

from collections.abc import Collection
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
        "models": "ViT, DINOv2, CLIP, …",
        "example": "photo.jpg",
        "takes": ("pixel_values",),
        "towers": True,
    },
)


RULE = Rule(
    "--pair --stride --words --generate --chat", excludes="@picture", hint="it is for texts: leave it out"
)


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
    check_rules((RULE,), "@picture")
    with progress(f"loading {safe_label(model.model)} …", output):
        from attncli.models.loading import load

        loaded = load(model.model, load_options(model), tokenizer=False)
    with progress("looking …", output):
        from attncli.models.vision import look_at

        source, picture = look_at(loaded, Path(path), verify=not model.no_verify)
    tokens = source.axes("encoder")[0]
    if choice.query is not None and choice.query.lower() == _CLASS and tokens[0].special:
        choice = replace(choice, query="0")
    elif not choice.asks_for_rows and choice.pool is None and formats_with("draws").issuperset(formats):
        choice = replace(choice, query=str(_default_query(picture, len(tokens))))
    return OpenedInput(source, choice, partial(_lay_over, picture, source, choice))


def _lay_over(picture: Picture, source: Opened, choice: ShowOptions, view: MatrixGrid) -> MatrixGrid:
    """Lay one query's weights over the picture, where all patches are keys."""
    queries, keys = source.axes("encoder")
    if view.pooled is not None or view.key_tokens != keys:
        return view
    if len(view.query_tokens) == 1 or (view.query_tokens == queries and not choice.asks_for_rows):
        place = 0 if len(view.query_tokens) == 1 else _default_query(picture, len(keys))
        return replace(view, picture=replace(picture, query=place))
    return view


def _default_query(picture: Picture, tokens: int) -> int:
    """Choose who attends where nobody said so: the class token, or the patch in the middle where there is none."""
    if tokens > picture.rows * picture.columns:
        return 0
    return picture.rows // 2 * picture.columns + picture.columns // 2
