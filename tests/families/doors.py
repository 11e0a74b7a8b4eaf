"""Looks at a family through the doors that people use: the command, generation, a checkpoint with holes."""

from __future__ import annotations

from families.command import typed
from families.configs import tiny_model
from families.depths import told
from families.generating import generates
from families.holes import holes
from families.inputs import inputs_that_run
from families.outcome import Outcome

from attncli.errors import ModelError
from attncli.models.towers import has_towers


def look_further(outcome: Outcome) -> None:
    """Add to what capture gave for a family what its doors give."""
    if outcome.status in ("unbuildable", "crash"):
        return
    family = outcome.family
    outcome.typed = typed(family, tiny_model(family))
    outcome.generates = generates(family)
    if outcome.status != "right":
        return
    model = tiny_model(family)
    inputs, _ = inputs_that_run(family, model, None)
    assert inputs is not None
    outcome.depths = told(model, inputs, outcome.layers)
    if not has_towers(
        model.config
    ):  # a command loads one tower, which does not take the whole model's inputs
        try:
            outcome.holes = holes(model, inputs)
        except ModelError as error:  # transformers reads another config from its file than it wrote
            outcome.why = f"not loaded again from its own file: {error.message.partition(': ')[2]}"[:160]
