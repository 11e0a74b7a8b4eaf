"""Writes docs/coverage.md from the sweep's results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

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

*Seen at*: `interface` is recomputed from the query, key and mask that the model's fast kernel was given; `eager` is
the model's own softmax, one layer at a time.
"""


def page(results: Sequence[dict[str, Any]]) -> str:
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
    return "\n".join(parts)


def _counts(results: Sequence[dict[str, Any]]) -> list[str]:
    counts = Counter(VERDICTS[result["status"]] for result in results)
    both = sum(1 for r in results if r["status"] == "right" and {"left", "right"} <= set(r["sides"]))
    lines = ["| verdict | families |", "|---|--:|"]
    lines += [
        f"| {verdict} | {counts[verdict]} |"
        for verdict in dict.fromkeys(VERDICTS.values())
        if counts[verdict]
    ]
    silently = counts["WRONG"]
    lines += [f"| silently wrong | {silently} |", f"| all | {len(results)} |", ""]
    lines.append(f"Of those that are right, {both} are so with padding on either side as well.")
    return lines


def _table(verdict: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    if verdict == "right":
        head = [
            "| family | layers compared | largest difference | padding | seen at | note |",
            "|---|--:|--:|---|---|---|",
        ]
        return head + [_right(row) for row in rows]
    head = ["| family | why |", "|---|---|"]
    return head + [f"| {row['family']} | {_plain(row['why'])} |" for row in rows]


def _right(row: dict[str, Any]) -> str:
    cells = [
        row["family"],
        row["compared"],
        f"{row['difference']:.1e}" if row["difference"] else "0",
        ", ".join(row["sides"]) or "–",
        ", ".join(row["capture"]),
        _plain(row["why"]),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
