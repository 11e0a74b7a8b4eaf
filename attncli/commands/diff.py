"""attncli diff: Compare two runs head by head: two texts, two models, or one model loaded in two ways.

For each head the Jensen–Shannon distance of its rows (0 is the same, 1 has no key in common) and the largest difference
of a weight, ranked. Tokens are aligned by their text, so that one sentence can differ from the other by some words.
Options of loading take two values, one a side: --dtype float32,bfloat16. Saved runs (.npz, .json) need no model. Over
a corpus (--file) numbers are means over texts with their standard errors, beside each head's distance from itself on
other texts.
"""

from __future__ import annotations

from attncli.cli.command import spread
from attncli.cli.options import ModelOptions, OutputOptions
from attncli.diff.options import DiffOptions, SideOptions

EXAMPLES = (
    'attncli diff "The animal didn\'t cross the street because it was too tired." '
    '"The animal didn\'t cross the street because it was too wide." -m ./all-minilm-l6-v2',
    'attncli diff "The cat sat on the mat." -m ./all-minilm-l6-v2 --dtype float32,bfloat16 --maps 3 -o diff.png',
    'attncli diff "The cat sat." -m ./smollm2-135m --dtype float32,bfloat16 --fail-over 0.05',
    'attncli diff "The cat sat." -m ./smollm2-135m --attention sdpa,eager --by max_abs --fail-over 1e-5',
    "attncli diff --file corpus.txt -m ./smollm2-135m --dtype float32,bfloat16",
    "attncli diff before.npz after.npz",
)


@spread
def diff(sides: SideOptions, choice: DiffOptions, model: ModelOptions, output: OutputOptions) -> None:
    """Compare two runs."""
    from attncli.cli.common import plan_output, provenance
    from attncli.cli.output import deliver
    from attncli.diff.run import answer, check, check_limit
    from attncli.diff.views import diff_view, maps_view

    check(sides, choice)
    kind = "MatrixGrid" if choice.maps is not None else "HeadRanking"
    plan = plan_output(output, kind, default="heatmap" if choice.maps is not None else "table")
    found = answer(sides, choice, model, output)
    made = provenance(found.first.run)
    view = maps_view(found, choice, made) if choice.maps is not None else diff_view(found, choice, made)
    deliver(view, plan)
    check_limit(found, choice)
