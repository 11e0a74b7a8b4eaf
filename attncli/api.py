"""From Python: each command as a method, whose answer holds numbers, tokens and pictures.

A method runs the very command: its arguments are the command's options, written with ``_`` (``fail_over=0.1`` for
``--fail-over 0.1``, ``words=True`` for ``--words``, a list for an option that may be repeated). A model is loaded once.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli import registry
from attncli.cli.main import run_command
from attncli.cli.output import CAUGHT, write_whole
from attncli.errors import UsageError
from attncli.render import Options
from attncli.render.grid_text import short_names
from attncli.view import Curves, HeadRanking, MatrixGrid, Steps, Table, View

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Value = str | int | float | bool | None | Sequence[str | int | float]


@dataclass(frozen=True)
class Answer:
    """What a command found.

    Args:
        view: Everything, as the renderers get it.
    """

    view: View

    @property
    def title(self) -> str:
        """What it is of, in one line."""
        return self.view.header.title

    @property
    def notes(self) -> tuple[str, ...]:
        """Facts that a reader of the numbers must know."""
        return self.view.header.notes

    @property
    def weights(self) -> NDArray[np.float32]:
        """The weights ``(head, query, key)`` of ``show`` and ``mask``; `axes` names its places.

        Raises:
            UsageError: The answer has no matrices.
        """
        import numpy as np

        return np.stack([matrix.values for matrix in self._grid().matrices])

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Which keys each query may attend to ``(head, query, key)``."""
        import numpy as np

        grid = self._grid()
        return np.stack(
            [np.ones(one.shape, np.bool_) if one.allowed is None else one.allowed for one in grid.matrices]
        )

    @property
    def axes(self) -> dict[str, list[str]]:
        """The names along each axis of `weights`: heads (``L4H7``), query tokens, key tokens."""
        grid = self._grid()
        return {
            "head": short_names(grid.matrices),
            "query": [token.text for token in grid.query_tokens],
            "key": [token.text for token in grid.key_tokens],
        }

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each head, token or measurement, as in ``-f ndjson``."""
        import json

        lines = self._rendered("ndjson", Options()).splitlines()
        return [json.loads(line) for line in lines]

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document (``attncli schema``)."""
        import json

        found: dict[str, Any] = json.loads(self._rendered("json", Options()))
        return found

    def to_pandas(self) -> Any:
        """Return `rows` as a data frame: of pandas, or of polars where that alone is installed.

        Raises:
            UsageError: Neither is installed.
        """
        try:
            import pandas as frames  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:
            try:
                import polars as frames  # type: ignore[import-not-found, no-redef, unused-ignore]
            except ImportError:
                raise UsageError(
                    "a data frame needs pandas or polars, and neither is installed", "pip install pandas"
                ) from None
        return frames.DataFrame(self.rows)

    def save(self, path: str | Path, **how: Any) -> Path:
        """Write a file in the format of its ending: .png, .svg, .pdf, .html, .json, .csv or .npz.

        Args:
            how: Fields of `attncli.render.Options`: ``colormap``, ``dpi``, ``raw_tokens``.

        Raises:
            UsageError: No format has this ending.
            WriteError: It cannot be written.
        """
        path = Path(path)
        for name, entry in registry.entries("formats").items():
            suffixes, views = entry.attributes["suffixes"], entry.attributes["views"]
            if path.suffix.lower() in suffixes and type(self.view).__name__ in views:  # type: ignore[operator]
                write_whole(path, self._rendered(name, Options(**how)))
                return path
        raise UsageError(f"{path.name}: no format of this answer has the ending {path.suffix!r}")

    def _rendered(self, name: str, options: Options) -> bytes:
        content: bytes = registry.load("formats", name).render(self.view, options)
        return content

    def _grid(self) -> MatrixGrid:
        if not isinstance(self.view, MatrixGrid):
            raise UsageError("this answer has no matrices", "use rows, document or to_pandas()")
        return self.view

    def __str__(self) -> str:
        form = "heatmap" if isinstance(self.view, MatrixGrid) else "table"
        return self._rendered(form, Options(width=100, terminal=True)).decode()

    def __repr__(self) -> str:
        kinds = {
            MatrixGrid: "maps",
            HeadRanking: "heads",
            Steps: "steps",
            Curves: "measurements",
            Table: "rows",
        }
        return f"<attncli answer: {self.title} ({kinds[type(self.view)]})>"

    def _repr_html_(self) -> str:
        """Show the page of this answer in a notebook, in a frame of its own."""
        from html import escape

        page = escape(self._rendered("html", Options()).decode(), quote=True)
        frame = "width:100%;height:720px;border:1px solid #ccc"
        return f'<iframe sandbox="allow-scripts" style="{frame}" srcdoc="{page}"></iframe>'


@dataclass
class Model:
    """A model that is loaded once and asked many times.

    Args:
        name: A folder, a name on the hub, one of attncli's own models, or None for ``tiny-decoder``.
        loading: Options of loading: ``dtype="bfloat16"``, ``device="cuda"``, ``attention="eager"``.
    """

    name: str | None = None
    loading: Mapping[str, Value] = field(default_factory=dict)
    _kept: dict[object, Any] = field(default_factory=dict, repr=False)

    def show(self, text: str, **options: Value) -> Answer:
        """Return the attention weights of a text: `Answer.weights`, `Answer.axes`. Options: ``attncli show --help``."""
        return self._ask("show", [text], options)

    def mask(self, text: str, **options: Value) -> Answer:
        """Return the masks that the model used on a text."""
        return self._ask("mask", [text], options)

    def heads(self, text: str | None = None, **options: Value) -> Answer:
        """Rank the heads over a text, or over a corpus (``file="corpus.txt"``)."""
        return self._ask("heads", [] if text is None else [text], options)

    def find(self, text: str | None = None, **options: Value) -> Answer:
        """Find the heads that link two words: ``from_="it", to="animal"``, or ``examples="coreference"``."""
        return self._ask("find", [] if text is None else [text], options)

    def explain(self, text: str, **options: Value) -> Answer:
        """Follow one row of one head step by step: ``query="it"``."""
        return self._ask("explain", [text], options)

    def diff(self, text: str, other: str | None = None, **options: Value) -> Answer:
        """Compare two texts, or one text on two models (``other_model="…"``, ``dtype="float32,bfloat16"``)."""
        return self._ask("diff", [text] if other is None else [text, other], options)

    def _ask(self, command: str, texts: Sequence[str], options: Mapping[str, Value]) -> Answer:
        given = {**({} if self.name is None else {"model": self.name}), **self.loading, **options}
        return ask(command, texts, given, self._kept)


def open(model: str | None = None, **loading: Value) -> Model:
    """Open a model for many questions.

    Args:
        model: A folder, a name on the hub, one of attncli's own models, or None for ``tiny-decoder``.
        loading: Options of loading: ``dtype="bfloat16"``, ``device="cuda"``, ``revision="…"``.
    """
    return Model(model, loading)


def show(text: str, model: str | None = None, **options: Value) -> Answer:
    """Return the attention weights of one text; see `Model.show`."""
    return Model(model).show(text, **options)


def ask(
    command: str, texts: Sequence[str], options: Mapping[str, Value], kept: dict[object, Any] | None = None
) -> Answer:
    """Run a command and return its answer.

    Args:
        texts: Its arguments.
        options: Its options, with ``_`` for ``-``.
        kept: Where loaded models are kept for the next question.

    Raises:
        AttnCliError: As the command line tells it, by message, hint and exit code.
    """
    arguments = [
        command,
        *_options(options),
        "--format",
        "json",
        "--yes-large",
        "-q",
        "--no-progress",
        "--",
        *texts,
    ]

    def run() -> View:
        from attncli.models.loading import KEPT

        views: list[View] = []
        CAUGHT.set(views)
        KEPT.set(kept)
        run_command(arguments)
        return views[0]

    return Answer(copy_context().run(run))


def _options(options: Mapping[str, Value]) -> builtins.list[str]:
    found: builtins.list[str] = []
    for name, value in options.items():
        option = "--" + name.strip("_").replace("_", "-")
        if value is True:
            found.append(option)
        elif value is None or value is False:
            continue
        elif isinstance(value, str | int | float):
            found += [option, str(value)] if not str(value).startswith("-") else [f"{option}={value}"]
        else:
            found += [f"{option}={one}" for one in value]
    return found
