"""Each step on the way to queries, keys and values is known by what it computes; nothing is guessed."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from attncli.capture.projections import Leaf, is_linear, is_norm
from attncli.explain.projection_stages import Joined, Linear, Norm, Rotation, find_way

N, D = 5, 12


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def leaf(name: str, module: nn.Module, given: Tensor) -> Leaf:
    with torch.inference_mode():
        return Leaf(name, module.requires_grad_(False), given, module(given))


def turned(rows: Tensor) -> Tensor:
    """Turn each row by an angle that grows with its position, as rotary positions do."""
    angle = torch.arange(len(rows)).float().unsqueeze(-1)
    first, second = rows.chunk(2, dim=-1)
    return torch.cat(
        [first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1
    )


@pytest.mark.parametrize("change", [turned, lambda rows: rows, lambda rows: 0.25 * rows])
def test_a_heads_vectors_are_found_in_a_fused_projection_turned_or_not(
    change: Callable[[Tensor], Tensor],
) -> None:
    fused, x = nn.Linear(D, 3 * D), numbers(1, N, D)
    ran = [leaf("mlp.up", nn.Linear(D, 3 * D), x), leaf("layers.0.attn.qkv", fused, x)]
    keys = ran[1].output[0, :, D + 4 : D + 8]
    found = find_way(ran, change(keys), "layers.0.attn")
    assert found is not None and found.source is not None
    assert torch.equal(found.stages[0].rows, keys) and torch.equal(found.source, x[0])
    assert (found.last_rotation is not None) is (change is turned)
    assert found.factor == pytest.approx(float(change(keys).norm() / keys.norm()))


def test_a_low_rank_query_is_followed_back_to_what_its_first_projection_was_given() -> None:
    x = numbers(1, N, D)
    norm_before = leaf("layers.0.norm", nn.LayerNorm(D), x)
    down = leaf("layers.0.attn.q_a", nn.Linear(D, 6), norm_before.output)
    norm = leaf("layers.0.attn.q_norm", nn.LayerNorm(6), down.output)
    up = leaf("layers.0.attn.q_b", nn.Linear(6, D), norm.output)
    found = find_way([norm_before, down, norm, up], turned(up.output[0, :, 4:8]), "layers.0.attn")
    assert found is not None and found.source is not None and torch.equal(found.source, norm_before.output[0])


def test_what_no_module_gave_is_not_found() -> None:
    ran = [leaf("a.q", nn.Linear(D, D), numbers(1, N, D))]
    assert find_way(ran, numbers(N, 4, seed=1), "a") is None


@pytest.mark.parametrize(
    ("module", "found"),
    [
        (nn.LayerNorm(D), True),
        (nn.RMSNorm(D), True),
        (nn.Tanh(), False),
        (nn.ReLU(), False),
        (nn.Identity(), False),
        (nn.Linear(D, D), False),
    ],
)
def test_a_norm_is_what_gives_the_same_for_longer_vectors(module: nn.Module, found: bool) -> None:
    one = leaf("it", module, 0.05 * numbers(1, N, D))
    assert is_norm(one) is found and is_linear(one) is isinstance(module, nn.Linear)


@pytest.mark.parametrize("heads_first", [False, True])
def test_a_norm_and_a_rotation_after_a_projection_are_steps_of_their_own(heads_first: bool) -> None:
    down = leaf("a.k", nn.Linear(D, D), numbers(1, 3, D))  # as many heads as positions
    given = down.output.view(1, 3, 3, 4)
    norm = leaf("a.k_norm", nn.RMSNorm(4), given.transpose(1, 2) if heads_first else given)
    normed = norm.output[0, 1] if heads_first else norm.output[0, :, 1]
    way = find_way([down, norm], turned(normed), "a")
    assert way is not None and [type(stage) for stage in way.stages] == [Linear, Norm, Rotation]
    assert torch.equal(way.stages[0].rows, down.output[0, :, 4:8])


def test_positions_that_do_not_begin_at_zero_are_rotations_too() -> None:
    made = leaf("a.q", nn.Linear(D, D), numbers(1, N, D))
    later = turned(torch.cat([numbers(3, 4), made.output[0, :, 4:8]]))[3:]
    way = find_way([made], 1.5 * later, "a")
    assert way is not None and way.last_rotation is not None and way.factor == pytest.approx(1.5)


def test_keys_put_together_from_two_modules_are_found_in_both() -> None:
    x = numbers(1, N, D)
    one, other = leaf("a.nope", nn.Linear(D, 18), x), leaf("a.rope", nn.Linear(D, 10), x)
    keys = torch.cat([one.output[0, :, 9:14], turned(other.output[0, :, 6:])], -1)
    way = find_way([one, other], keys, "a")
    assert way is not None and isinstance(way.stages[0], Joined) and torch.equal(way.source, x[0])
    first, second = way.stages[0].parts
    assert isinstance(first.stages[0], Linear) and first.stages[0].columns == range(9, 14)
    assert second.last_rotation is not None
