"""The masks that a model really used on a text."""

from __future__ import annotations

from attncli.cli.common import provenance
from attncli.maps.show import Question, Shown
from attncli.maps.views import mask_view, source_title
from attncli.models.opening import Opened
from attncli.observers.masks import MaskOnly
from attncli.observers.selection import Selection
from attncli.record import Kind, Run
from attncli.view import Matrix


def mask_question(source: Opened, kind: Kind, layers: Selection) -> tuple[Question, MaskOnly]:
    """Return what to watch while a source runs, to see the masks of some layers, and where they are kept.

    Raises:
        UsageError: There is no such layer.
    """
    queries, keys = source.axes(kind)
    depth = source.depth(kind)
    kept = MaskOnly(kind, layers, depth, len(queries), len(keys))

    def finish(run: Run) -> Shown:
        layers.refuse_missing(run, kind, depth)
        groups = kept.groups()
        # One mask for several layers is no single layer's; where masks differ, each goes by the first that uses it.
        shared = len(groups) == 1 and len(groups[0][0]) > 1
        named = [
            (Matrix(mask[:0].astype("float32"), kind=kind, layer=None if shared else layers[0]), mask)
            for layers, mask in groups
        ]
        facts = [{"layers": list(layers)} for layers, _ in groups]
        title = f"{source_title(run.source)} · the mask its {kind} attention used"
        made = provenance(run)
        view = mask_view(named, title, queries, keys, made, source=run.source, notes=run.notes, facts=facts)
        return Shown(view, run)

    return Question([kept], finish), kept
