"""A norm at the vectors it was given is a linear map, found by giving it others."""

import pytest
import torch
from torch import Tensor, nn

from attncli.capture.frozen_maps import freeze
from attncli.capture.projections import Leaf

N, D = 5, 12


class Gain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(-1, 2, D))

    def forward(self, given: Tensor) -> Tensor:
        return given * self.gain


def ran(module: nn.Module) -> Leaf:
    given = torch.randn(1, N, D, generator=torch.Generator().manual_seed(1)) * torch.tensor([3.0])
    module.requires_grad_(False)
    for parameter in module.parameters():
        parameter += torch.linspace(0, 1, D)
    return Leaf("it", module, given, module(given))


@pytest.mark.parametrize("module", [nn.LayerNorm(D), nn.RMSNorm(D, eps=1e-2), Gain()], ids=str)
def test_norms_and_gains_are_linear_with_the_scale_they_had(module: nn.Module) -> None:
    leaf = ran(module)
    found = freeze(leaf, torch.Size((N, D)))
    assert found is not None and found.centred is isinstance(module, nn.LayerNorm)
    made = found.direction(leaf.input[0].double()) / found.scales[:, None] + found.bias
    torch.testing.assert_close(made.float(), leaf.output[0], rtol=1e-5, atol=1e-5)
    one, other = leaf.input[0].double()[:2]
    assert float(found.direction(one) @ other) == pytest.approx(float(one @ found.back(other)))


@pytest.mark.parametrize("module", [nn.Linear(D, D), nn.GELU(), nn.Sequential(nn.LayerNorm(D))], ids=str)
def test_other_modules_are_no_such_maps(module: nn.Module) -> None:
    given = torch.randn(1, N, D)
    assert freeze(Leaf("it", module, given, module(given).detach()), torch.Size((N, D))) is None
