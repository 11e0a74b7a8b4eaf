"""A picture instead of a text: what `attncli show photo.jpg` does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.cli.common import sign_of_life
from attncli.cli.options import GenerationOptions, ModelOptions, OutputOptions
from attncli.cli.output import PICTURES
from attncli.errors import UsageError
from attncli.labels import safe_label
from attncli.models.opening import Opened, load_options

if TYPE_CHECKING:
    from attncli.maps.options import ShowOptions
    from attncli.view import MatrixGrid, Picture

_CLASS = "cls"


@dataclass(frozen=True)
class Seen:
    """A model that looks at a picture.

    Args:
        choice: What to show of it.
        picture: As the model sees it; None where its tokens are no grid of patches.
    """

    source: Opened
    choice: ShowOptions
    picture: Picture | None

    def over(self, view: MatrixGrid) -> MatrixGrid:
        """Lay one query's weights over the picture, or each written token's of one head, where all patches are keys."""
        patches = self.source.axes("encoder")[1]
        if self.picture is None or view.pooled is not None or view.key_tokens != patches:
            return view
        if len(view.query_tokens) == 1:
            return replace(view, picture=replace(self.picture, query=0))
        if self.choice.asks_for_rows:
            return view
        if view.query_tokens == patches:
            return replace(
                view, picture=replace(self.picture, query=_default_query(self.picture, len(patches)))
            )
        return replace(view, picture=replace(self.picture, query=None)) if len(view.matrices) == 1 else view


def open_picture(
    text: str,
    choice: ShowOptions,
    model: ModelOptions,
    output: OutputOptions,
    writing: GenerationOptions,
    formats: Collection[str],
) -> Seen:
    """Open a picture.

    Args:
        formats: Those that the view will be written in: drawing needs one query alone.

    Raises:
        AttnCliError: The picture cannot be read, or an option does not go with it.
    """
    assert model.model is not None
    with sign_of_life(f"loading {safe_label(model.model)} …", output):
        from attncli.models.input_kinds import inputs_of
        from attncli.models.loading import load

        writes = inputs_of(model.model, load_options(model)).writes
        _refuse_others(choice, writing, writes=writes)
        loaded = load(model.model, load_options(model), tokenizer=writes)
    with sign_of_life("looking …", output):
        from attncli.models.captioner import part_that_sees, write_of
        from attncli.models.vision import look_at
        from attncli.observers.selection import parse_selection

        verify = not model.no_verify
        if writes and choice.kind != "encoder":
            source, picture = write_of(
                loaded, Path(text), choice.pair, tokens=writing.generate, verify=verify
            )
            return Seen(source, choice, picture)
        layers = parse_selection(choice.layer or "all", "layer")
        part = part_that_sees(loaded) if writes else loaded
        source, picture = look_at(part, Path(text), layers=layers, verify=verify)
    tokens = source.axes("encoder")[0]
    if choice.query is not None and choice.query.lower() == _CLASS and tokens[0].special:
        choice = replace(choice, query="0")
    elif (
        picture is not None
        and not choice.asks_for_rows
        and choice.pool is None
        and PICTURES.issuperset(formats)
    ):
        choice = replace(choice, query=str(_default_query(picture, len(tokens))))
    return Seen(source, choice, picture)


def _default_query(picture: Picture, tokens: int) -> int:
    """Choose who attends where nobody said so: the class token, or the patch in the middle where there is none."""
    if tokens > picture.rows * picture.columns:
        return 0
    return picture.rows // 2 * picture.columns + picture.columns // 2


def _refuse_others(choice: ShowOptions, writing: GenerationOptions, *, writes: bool) -> None:
    given = {
        "--pair": choice.pair is not None and not writes,
        "--stride": choice.stride is not None,
        "--words": choice.words,
        "--generate": bool(writing.generate) and not writes,
        "--temperature": bool(writing.temperature),
        "--chat": writing.chat,
    }
    for option, is_given in given.items():
        if is_given:
            raise UsageError(f"{option} is for texts: a picture has patches", "leave it out")
