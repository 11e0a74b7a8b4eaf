"""Pictures by Matplotlib: one matrix with its numbers, or many as a grid of layers and heads.

`Figure` with an Agg canvas, never pyplot, whose global state and windows have no place here. Sizes are worked
out in inches from the labels' measured lengths, so that nothing overlaps and nothing is cut. The user's own
Matplotlib settings play no part: a picture has the same bytes wherever the same fonts are.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attncli.labels import safe_label
from attncli.render import Options
from attncli.render.look import Ground, Look
from attncli.render.patches import as_patches
from attncli.render.picture.fonts import families
from attncli.render.pooling import fit_to_draw
from attncli.view import Curves, Header, HeadRanking, Matrix, MatrixGrid, Steps, Table, View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SETTINGS: dict[str, object] = {
    "svg.hashsalt": "attncli",
    # Text in an SVG stays text: it can be searched, copied and read aloud.
    # Labels are anchored where they touch the picture, so another machine's font moves nothing.
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.usetex": False,
    "text.parse_math": False,
    "axes.unicode_minus": False,
}

# Of each ground: what is behind all, labels, what explains, what may not attend, and its hatching.
_GROUNDS: dict[Ground, tuple[str, str, str, str, str]] = {
    "white": ("white", "#222222", "#666666", "#ececec", "#c9c9c9"),
    "transparent": ("none", "#222222", "#666666", "#ececec", "#c9c9c9"),
    "dark": ("#14171c", "#f0f0f0", "#b4bac4", "#2a2f37", "#454c57"),
}

_METADATA: dict[str, dict[str, object]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": "attncli"},
    "pdf": {"CreationDate": None, "Creator": "attncli", "Producer": "Matplotlib"},
}


def visualize_attention(
    weights: Any,
    tokens: Sequence[str],
    *,
    key_tokens: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw attention weights as a heatmap: keys along x, queries along y, each number in its cell.

    Args:
        weights: ``(query, key)``: an array, a tensor or nested lists, between 0 and 1.
        tokens: One text a query.
        key_tokens: One text a key; `tokens` where None.
        title: Above the picture.

    Returns:
        A figure of its own, to be saved with ``figure.savefig("attention.png")``.

    Raises:
        ValueError: `weights` has not one row a query and one column a key.
    """
    import numpy as np

    from attncli import __version__
    from attncli.record import Provenance, Token

    keys = tokens if key_tokens is None else key_tokens
    values = _as_array(weights)
    if values.shape != (len(tokens), len(keys)):
        expected, got = (len(tokens), len(keys)), tuple(values.shape)
        raise ValueError(f"weights must be (query, key): expected {expected}, got {got}")
    query_tokens, labels = (
        tuple(Token(index, None, text, safe_label(text)) for index, text in enumerate(texts))
        for texts in (tokens, keys)
    )
    header = Header(command="visualize_attention", title=title or "", provenance=Provenance(__version__))
    matrix = Matrix(np.ascontiguousarray(values, dtype=np.float32))
    return build(MatrixGrid(header, (matrix,), query_tokens, labels), Options())


def build(view: View, options: Options) -> Figure:
    """Draw a view as a figure: one matrix large, several as small panels."""
    from attncli.render.picture.curves import draw_curves
    from attncli.render.picture.head_panels import draw_head_panels
    from attncli.render.picture.over_pictures import draw_over_pictures
    from attncli.render.picture.panels import draw_panels
    from attncli.render.picture.running_text import draw_running_text
    from attncli.render.picture.single_map import draw_one
    from attncli.render.picture.steps import draw_steps
    from attncli.render.running_text import is_running_text

    with settings(options.look):
        if isinstance(view, Curves):
            return draw_curves(view, options)
        if isinstance(view, HeadRanking):
            return draw_head_panels(view, options)
        if isinstance(view, Steps | Table):
            return draw_steps(view, options)
        if view.pictures:
            return draw_over_pictures(view, options)
        if is_running_text(view, options):
            return draw_running_text(view, options)
        grid = fit_to_draw(as_patches(view))
        return draw_one(grid, options) if len(grid.matrices) == 1 else draw_panels(grid, options)


def save(view: View, options: Options, form: str) -> bytes:
    """Draw a view and give the file's bytes, the same each time.

    Args:
        form: ``png``, ``svg`` or ``pdf``.
    """
    buffer = io.BytesIO()
    with settings(options.look):
        title = view.header.title if options.look.title is None else options.look.title
        metadata = _METADATA[form] | ({"Title": safe_label(title)} if title else {})
        build(view, options).savefig(buffer, format=form, dpi=options.dpi, metadata=metadata)
    return buffer.getvalue()


@contextmanager
def settings(look: Look) -> Iterator[None]:
    """Draw with Matplotlib's defaults and ours, and leave the caller's settings as they were."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {**_SETTINGS, "font.family": list(families()), "font.size": look.font_size}
        )
        names = ("figure.facecolor", "text.color", "axes.labelcolor", "axes.facecolor", "hatch.color")
        matplotlib.rcParams.update(zip(names, _GROUNDS[look.ground], strict=True))
        yield


def _as_array(weights: Any) -> Any:
    """Turn weights into an array; of a tensor, a copy on the CPU without its gradient."""
    import numpy as np

    if hasattr(weights, "detach"):
        weights = weights.detach().cpu().float().numpy()
    return np.asarray(weights, dtype=np.float32)
