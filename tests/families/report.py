"""Writes docs/coverage.md from the sweep's results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Row = dict[str, Any]

VERDICTS = {
    "right": "right",
    "checked": "right by its own output",
    "uncompared": "shown, nothing to compare with",
    "error": "clear error",
    "unbuildable": "not buildable here",
    "wrong": "WRONG",
    "crash": "WRONG",
}
ABOUT = """\
# Which families attncli captures

`make coverage` wrote this page. For every family that `AutoModel` of the installed transformers knows, a tiny model
with random weights runs on a batch of two, in float32, and is captured as `attncli show` captures. Text is read
without padding, and with the second text padded on the left and on the right.

* **right**: every weight of every layer and head equals what the same weights give in transformers' own eager
  attention (`output_attentions`), to 2e-5, and observing did not change the model's output by a bit.
* **right by its own output**: eager returns no weights to compare with, or another model's; but the captured weights
  times the values give what the model's own kernel returned, to 1e-4 of its largest value.
* **shown, nothing to compare with**: the weights are the model's own softmax, and eager returns none.
* **clear error**: attncli refuses, and says why.
* **not buildable here**: no tiny model could be made or run; this says nothing about capture.

The columns:

* *seen at*: `interface` is recomputed from the query, key and mask that the model's fast kernel was given; `eager` is
  the model's own softmax, one layer at a time.
* *layers*: how many attncli counts, of the encoder + the decoder where there are two; what the config says.
* *from the command line*: the model is saved to a folder with a tokenizer, an image processor or a feature extractor,
  and `attncli show TEXT`, `show picture.png` or `show sound.wav -m FOLDER --json` runs on it; of two stacks each kind,
  with `--pair`. Right: its maps are those above. Refused: an error that says why, with its exit code.
* *generates*: `--generate 3` with the family's language model; right: the maps equal eager's over the same tokens.
  –: transformers has no such class for the family, or it reads no text.
* *holes*: one weight of each kind is taken out of the checkpoint, one at a time, and it is loaded as the command
  does: refused (exit 4) / maps unchanged to 1e-6 / **other maps in silence**.
"""


def page(results: Sequence[Row]) -> str:
    """Make the page."""
    import torch
    import transformers

    made_with = (
        f"Made with transformers {transformers.__version__} and torch {torch.__version__.split('+')[0]}."
    )
    parts = [ABOUT, made_with, "", *_counts(results), ""]
    for verdict in dict.fromkeys(VERDICTS.values()):
        rows = [result for result in results if VERDICTS[result["status"]] == verdict]
        if rows:
            parts += [f"## {verdict[0].upper()}{verdict[1:]} ({len(rows)})", "", *_table(verdict, rows), ""]
    return "\n".join([*parts, *_holes(results)])


def _counts(results: Sequence[Row]) -> list[str]:
    counts = Counter(VERDICTS[result["status"]] for result in results)
    both = sum(1 for r in results if r["status"] == "right" and {"left", "right"} <= set(r["sides"]))
    verdicts = [(verdict, counts[verdict]) for verdict in dict.fromkeys(VERDICTS.values()) if counts[verdict]]
    lines = _numbers("verdict", [*verdicts, ("silently wrong", counts["WRONG"]), ("all", len(results))])
    lines += ["", f"Of those that are right, {both} are so with padding on either side as well.", ""]
    for title, column in (("from the command line", "typed"), ("generates", "generates")):
        said = Counter(_first(result[column]) for result in results if result[column])
        lines += [*_numbers(title, said.most_common()), ""]
    miscounted = sum(1 for result in results if result["depths"].startswith("WRONG"))
    holes = {
        came: sum(len(r["holes"].get(came, [])) for r in results)
        for came in ("refused", "unchanged", "failed", "silent")
    }
    lines += [f"Families whose layers are counted otherwise than their config says: {miscounted}.", ""]
    lines.append(
        f"Of {sum(holes.values())} checkpoints that lack a weight, {holes['refused']} are refused, "
        f"{holes['unchanged']} give the same maps, {holes['failed']} fail in another way, and "
        f"**{holes['silent']} give other maps in silence**."
    )
    return lines


def _numbers(title: str, pairs: Iterable[tuple[str, int]]) -> list[str]:
    return [f"| {title} | families |", "|---|--:|", *(f"| {name} | {number} |" for name, number in pairs)]


def _first(said: str) -> str:
    """Give a verdict without its reason: ``refused (2)``; a model without attention has nothing to refuse.

    >>> _first("refused (2): FOLDER takes no text")
    'refused (2)'
    """
    return "no attention to show" if "no softmax over the tokens" in said else said.partition(":")[0]


_CELLS: dict[str, Callable[[Row], object]] = {
    "family": lambda row: row["family"],
    "layers compared": lambda row: row["compared"],
    "largest difference": lambda row: f"{row['difference']:.1e}" if row["difference"] else "0",
    "padding": lambda row: ", ".join(row["sides"]) or "–",
    "seen at": lambda row: ", ".join(row["capture"]),
    "layers": lambda row: row["depths"],
    "from the command line": lambda row: _short(row["typed"]),
    "generates": lambda row: _short(row["generates"]),
    "holes": lambda row: _hole_numbers(row["holes"]),
    "note": lambda row: row["why"],
    "why": lambda row: row["why"],
}
"""What stands in a row, by column."""

_COLUMNS = {
    "right": [name for name in _CELLS if name != "why"],
    "not buildable here": ["family", "why"],
    "clear error": ["family", "from the command line", "why"],
}
_OTHERWISE = ["family", "from the command line", "generates", "why"]


def _table(verdict: str, rows: Sequence[Row]) -> list[str]:
    columns = _COLUMNS.get(verdict, _OTHERWISE)
    rules = ["--:" if name in ("layers compared", "largest difference") else "---" for name in columns]
    lines = [[_plain(str(_CELLS[name](row))) for name in columns] for row in rows]
    return ["| " + " | ".join(columns) + " |", "|" + "|".join(rules) + "|",
            *("| " + " | ".join(line) + " |" for line in lines)]  # fmt: skip


def _hole_numbers(holes: dict[str, list[str]]) -> str:
    if not holes:
        return ""
    failed = f", {len(holes['failed'])} failed" if holes["failed"] else ""
    silent = len(holes["silent"])
    return f"{len(holes['refused'])}/{len(holes['unchanged'])}/{f'**{silent}**' if silent else 0}{failed}"


def _holes(results: Sequence[Row]) -> list[str]:
    """List the weights that are missed in silence, or in a way that is no clear error."""
    lines = []
    for came, title in (("silent", "Missed in silence"), ("failed", "Missed otherwise")):
        rows = [(row["family"], row["holes"][came]) for row in results if row["holes"].get(came)]
        if rows:
            lines += [f"## {title} ({len(rows)})", "", "| family | weights |", "|---|---|"]
            lines += [f"| {family} | {', '.join(f'`{name}`' for name in names)} |" for family, names in rows]
            lines.append("")
    return lines


def _short(text: str, most: int = 90) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
