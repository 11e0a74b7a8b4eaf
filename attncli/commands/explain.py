"""attncli explain: Walk through one row of attention, step by step, with the true numbers and shapes.

For one layer, one head and one query token: what is projected, query, key and value, each key's dot product with the
dimensions that add most to it, what scaling does, mask, softmax, the weighted sum of the values, and what the head
adds to the layer's output. Every number is the model's own. --diagram draws the data-flow with the model's shapes.

In place of TEXT, a topic can be given: scaling measures what 1/√d_k does, order what position encoding does. Options
for a model or a row make it a text, and so do two dashes: attncli explain -- scaling
"""

from __future__ import annotations

from attncli.cli.command import spread
from attncli.cli.options import ModelOptions, OutputOptions, ScratchOptions, TextInput
from attncli.explain.options import ExplainOptions

EXAMPLES = (
    'attncli explain "The animal was too tired." --query tired',
    'attncli explain "The animal was too tired." -m ./smollm2-135m --query tired --layer 20 --head 3',
    'attncli explain "The animal was too tired." -m ./all-minilm-l6-v2 --diagram',
    'attncli explain "CCO" -m ./annalog-marian --pair "CCO" --kind cross --query 2 -o steps.md',
    "attncli explain scaling -o scaling.svg",
    "attncli explain order",
)


@spread
def explain(
    text: TextInput,
    choice: ExplainOptions,
    model: ModelOptions,
    scratch: ScratchOptions,
    output: OutputOptions,
) -> None:
    """Explain one row of attention, or a topic."""
    from attncli.explain.run import explain_order, explain_row, explain_scaling, topic_of

    topic = topic_of(text)
    if topic == "scaling":
        explain_scaling(scratch.seed or 0, output)
    elif topic == "order":
        explain_order(scratch, output)
    else:
        explain_row(text, choice, model, scratch, output)
