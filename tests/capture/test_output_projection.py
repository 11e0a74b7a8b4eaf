"""The output projection and the stream it is added to are known by what they compute."""

import pytest
import torch
from torch import Tensor, nn

from attncli.capture.output_projection import find_output_projection, find_stream
from attncli.capture.projections import Leaf, weight_of

N, D, HEADS = 5, 12, 3


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def leaf(name: str, module: nn.Module, given: Tensor) -> Leaf:
    with torch.inference_mode():
        return Leaf(name, module.requires_grad_(False), given, module(given))


def test_the_output_projection_is_the_linear_map_that_was_given_the_heads() -> None:
    heads, other = numbers(N, D), numbers(N, D, seed=2)
    ran = [leaf("gate", nn.Linear(D, D), other[None]), leaf("out", nn.Linear(D, 7), heads[None])]
    found = find_output_projection([], ran, heads.view(N, HEADS, 4))
    assert found is not None and found.place == 1 and torch.equal(found.weight, weight_of(ran[1].module))
    assert (
        find_output_projection(
            [], [leaf("out", nn.Linear(D, 7), heads[None] * other)], heads.view(N, HEADS, 4)
        )
        is None
    )


def test_a_linear_map_that_does_something_else_besides_is_not_taken_for_one() -> None:
    class Doubling(nn.Linear):
        def forward(self, given: Tensor) -> Tensor:
            return 2 * super().forward(given)

    heads = numbers(N, D)
    assert (
        find_output_projection([], [leaf("out", Doubling(D, D), heads[None])], heads.view(N, HEADS, 4))
        is None
    )


@pytest.mark.parametrize("how", ["in turn", "side by side", "normed first"])
def test_the_stream_is_found_where_its_sum_with_the_output_is_seen(how: str) -> None:
    x, heads = numbers(1, N, D), numbers(1, N, D, seed=3)
    before = [leaf("norm", nn.LayerNorm(D), x)]
    out, network = leaf("out", nn.Linear(D, D), heads), leaf("mlp", nn.Linear(D, D), before[0].output)
    total = (
        x
        + {
            "in turn": out.output,
            "side by side": out.output + network.output,
            "normed first": nn.functional.layer_norm(out.output, (D,)),
        }[how]
    )
    after = [out, network, leaf("next", nn.LayerNorm(D), total)]
    projection = find_output_projection([], after, heads[0].view(N, HEADS, 4))
    assert projection is not None
    stream = find_stream(before, after, projection)
    assert stream is None if how == "normed first" else torch.allclose(stream, x[0], atol=1e-5)


@pytest.mark.parametrize("width", [4, 1])
def test_a_gate_for_each_dimension_or_each_head_is_found_and_named(width: int) -> None:
    heads, made = (
        numbers(N, HEADS, 4),
        leaf("q_and_gate", nn.Linear(D, D + HEADS * width), numbers(1, N, D, seed=2)),
    )
    gate = made.output[0, :, D:].view(N, HEADS, width).sigmoid()
    out = leaf("out", nn.Linear(D, 7), (heads * gate).flatten(1)[None])
    found = find_output_projection([made], [out], heads)
    assert found is not None and (found.between, found.gate) == ("gate", "q_and_gate")
    assert find_output_projection([], [out], heads) is None


def test_a_norm_of_the_heads_outputs_is_stepped_over_and_an_activation_is_not() -> None:
    heads = numbers(N, HEADS, 4)
    for module, between in ((nn.RMSNorm(D), "norm"), (nn.Tanh(), None)):
        first = leaf("between", module, heads.flatten(1)[None])
        found = find_output_projection([], [first, leaf("out", nn.Linear(D, 7), first.output)], heads)
        assert (None if found is None else found.between) == between
