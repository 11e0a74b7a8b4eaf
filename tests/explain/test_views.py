"""From an explained row to steps, a document and a diagram; and the topics."""

import json

import jsonschema
import numpy as np
import pytest
import torch

from attncli.commands.schema import schema_text
from attncli.explain.forward import explain
from attncli.explain.peakedness import entropy_bits, measure_scaling, softmax_gradient_norm
from attncli.explain.topics import order_view, scaling_view
from attncli.explain.views import explained_view
from attncli.explain.word_order import reorder
from attncli.models.scratch import ScratchSource
from attncli.models.tokens import words_of_text
from attncli.observers.strongest_head import TellingHead
from attncli.record import AttentionLayer, Provenance, WeightBlock
from attncli.render import Options
from attncli.render.json_format import render
from attncli.view import Steps

MADE = Provenance("0.1.0")


def view(text: str = "a b c d e", *, top: int | None = None, causal: bool = False) -> Steps:
    source = ScratchSource(text, heads=2, d_model=24, causal=causal)
    row, run = explain(source, "decoder" if causal else "encoder", 0, 1, 2)
    return explained_view(row, run, MADE, top=top)


def test_the_steps_come_in_the_order_of_the_computation() -> None:
    names = [step.name for step in view().steps]
    assert names == [
        "Input", "Query, key, value", "Compare", "Scale", "Mask", "Softmax", "Weighted sum", "Output projection",
    ]  # fmt: skip


def test_hidden_keys_are_named() -> None:
    told = {step.name: step for step in view(causal=True).steps}
    assert told["Mask"].about == ("2 of 5 keys are hidden (keys after the row, its future): 3 “d”, 4 “e”",)
    assert "listed are the 3 keys of 5 that this row may attend to" in told["Compare"].about
    for name, last in (("Compare", "2 c"), ("Softmax", "2 hidden keys"), ("Weighted sum", "output")):
        rows = [row[0] for row in told[name].tables[0].rows]
        assert rows[:3] == ["0 a", "1 b", "2 c"] and rows[-1] == last
    (one,) = next(step for step in view("a b c .", causal=True).steps if step.name == "Mask").about
    assert one == "1 of 4 keys is hidden (keys after the row, its future): 3 “.”"


def test_a_long_row_lists_its_strongest_keys_and_says_so() -> None:
    long = view(" ".join("abcdefghijklm"), top=3)
    told = {step.name: step for step in long.steps}
    assert "listed are the 3 keys of 13" in told["Compare"].about[1]
    assert [row[0] for row in told["Softmax"].tables[0].rows][3] == "10 other keys"
    shares = [row[4] for row in told["Softmax"].tables[0].rows]
    assert sum(shares) == pytest.approx(1.0, abs=1e-6)
    assert len(long.document["keys"]) == len(long.data.rows) == 3


@pytest.mark.parametrize(("top", "causal"), [(None, False), (2, True)])
def test_the_document_follows_its_schema_and_adds_up(top: int | None, causal: bool) -> None:
    document = json.loads(render(view(top=top, causal=causal), Options()))
    jsonschema.Draft202012Validator(json.loads(schema_text("explain"))).validate(document)
    for key in document["keys"]:
        assert sum(key["products"]) == pytest.approx(key["dot"], abs=1e-4)
        assert key["dot"] * document["scale"] == pytest.approx(key["score"], abs=1e-5)
    assert document["weight_sum"] == pytest.approx(1.0, abs=1e-6)
    assert document["key_count"] == 5 and len(document["keys"]) == (top or 5)


def test_the_diagram_has_the_true_shapes_and_a_mask_only_where_one_hides_something() -> None:
    plain, causal = ({node.name: node.lines for node in view(causal=c).flow} for c in (False, True))
    assert plain["query"][-1] == "(1, 2, 5, 12)" and plain["scores"][-1] == "(1, 2, 5, 5)"
    assert plain["projection"][-1] == "(24, 24)"
    assert "mask" in causal and "mask" not in plain


def test_unscaled_scores_have_variance_d_k_and_scaled_ones_one() -> None:
    points = measure_scaling((4, 64, 1024))
    for plain, scaled in zip(points[::2], points[1::2], strict=True):
        assert plain.variance == pytest.approx(plain.head_dim, rel=0.2)
        assert scaled.variance == pytest.approx(1.0, rel=0.2)
    assert points[4].entropy < 0.3 < 5 < points[5].entropy and points[4].gradient < points[5].gradient / 2


def test_peakedness_is_what_numpy_makes_of_the_jacobian() -> None:
    weights = torch.tensor([0.7, 0.2, 0.06, 0.04], dtype=torch.float64)
    p = weights.numpy()
    jacobian = np.diag(p) - np.outer(p, p)
    assert float(softmax_gradient_norm(weights)) == pytest.approx(np.linalg.norm(jacobian))
    assert float(entropy_bits(weights)) == pytest.approx(-(p * np.log2(p)).sum())


def test_scaling_is_three_plots_and_a_document() -> None:
    found = scaling_view(measure_scaling((4, 8)), MADE, 0)
    assert [plot.title.split()[0] for plot in found.plots] == ["variance", "entropy", "gradient"]
    assert [curve.x for curve in found.plots[0].curves] == [(4.0, 8.0)] * 2
    document = json.loads(render(found, Options()))
    jsonschema.validate(document, json.loads(schema_text("explain")))
    assert [point["d_k"] for point in document["points"]] == [4, 4, 8, 8]


def test_without_positions_the_order_is_lost_and_with_them_or_a_mask_it_is_not() -> None:
    found = reorder(layers=2, heads=4)
    largest = {name: max(values) for name, values in found.differences.items()}
    assert largest["no positions"] < 1e-5 * found.largest
    assert largest["positions"] > 0.1 and largest["no positions, causal mask"] > 0.1
    document = json.loads(render(order_view(found, MADE, 0), Options()))
    jsonschema.validate(document, json.loads(schema_text("explain")))


def test_the_telling_head_looks_farther_than_its_neighbours() -> None:
    keys = words_of_text("zero one two three four five")
    telling = TellingHead("decoder", 4, keys)
    layer = AttentionLayer("decoder", 3, 2, 2)
    weights = torch.zeros(1, 2, 1, 6)
    weights[0, 0, 0, [0, 3, 1]] = torch.tensor(
        [0.5, 0.4, 0.1]
    )  # the first token and a neighbour do not count
    weights[0, 1, 0, [4, 2]] = torch.tensor([0.7, 0.3])
    assert telling.request(layer) is not None and telling.request(AttentionLayer("encoder", 0, 1, 1)) is None
    telling.update(WeightBlock(layer, (0, 1), range(4, 5), weights, None))
    told = telling.found()
    assert (told.layer, told.head, told.key.text, told.weight) == (3, 1, "two", pytest.approx(0.3))
    assert told.why().startswith("layer 3 head 1: of 2 heads the one that gives a single word farther away")
