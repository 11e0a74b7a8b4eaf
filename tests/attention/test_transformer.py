"""The whole Transformer, against one put together from PyTorch's own parts."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm

from attncli.attention.operation import AttentionOperation
from attncli.attention.positions import sinusoidal_positions
from attncli.attention.transformer import Layer, Shape, Transformer, initialise

BOTH = Shape(vocabulary=11, d_model=12, heads=3, encoder_layers=2, decoder_layers=1, feed_forward=7)
DECODER = Shape(vocabulary=11, d_model=12, heads=3, decoder_layers=2, distances=3)


def made(shape: Shape, seed: int = 0) -> Transformer:
    model = Transformer(shape)
    initialise(model, torch.Generator().manual_seed(seed))
    return model.eval()


def theirs(
    layer: Layer, part: str, x: torch.Tensor, source: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """Attend by torch.nn.MultiheadAttention with the weights of ours."""
    ours = getattr(layer, part)
    module = nn.MultiheadAttention(12, 3, batch_first=True).eval()
    parts = (ours.query, ours.key, ours.value)
    module.in_proj_weight.data = torch.cat([one.weight.data for one in parts])
    module.in_proj_bias.data = torch.cat([one.bias.data for one in parts])
    module.out_proj.load_state_dict(ours.output.state_dict())
    return module(x, source, source, attn_mask=mask, need_weights=False)[0]


def normed(x: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
    return layer_norm(x, (12,), norm.weight, norm.bias)


def feed(layer: Layer, x: torch.Tensor) -> torch.Tensor:
    first, _, last = layer.feed_forward
    return last(gelu(first(normed(x, layer.feed_forward_norm))))


@torch.no_grad()
def test_an_encoder_decoder_is_what_its_formula_says() -> None:
    model, said, written = made(BOTH), torch.tensor([[1, 5, 9, 2, 7]]), torch.tensor([[3, 10, 4]])
    for parameter in model.parameters():  # no zeros and no identity, after which a mistake could hide
        parameter += 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    x = model.embedding.weight[said] + sinusoidal_positions(5, 12)
    for layer in model.encoder:
        x = x + theirs(
            layer, "attention", normed(x, layer.attention_norm), normed(x, layer.attention_norm), None
        )
        x = x + feed(layer, x)
    memory = normed(x, model.encoder_norm)
    x = model.embedding.weight[written] + sinusoidal_positions(3, 12)
    hidden = torch.ones(3, 3, dtype=torch.bool).triu(1)
    for layer in model.decoder:
        own = normed(x, layer.attention_norm)
        x = x + theirs(layer, "attention", own, own, hidden)
        x = x + theirs(layer, "cross", normed(x, layer.cross_norm), memory, None)
        x = x + feed(layer, x)
    expected = normed(x, model.decoder_norm) @ model.head.weight.T @ model.embedding.weight.T / 12**0.5
    torch.testing.assert_close(model(said, written), expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_padding_changes_nothing() -> None:
    model, said, written = made(BOTH), torch.tensor([[1, 5, 9]]), torch.tensor([[3, 10]])
    padded = torch.tensor([[1, 5, 9, 6, 6]])
    mask = torch.tensor([[True, True, True, False, False]])
    torch.testing.assert_close(model(padded, written, mask), model(said, written))


@torch.no_grad()
def test_a_decoder_never_looks_ahead_and_an_encoder_does() -> None:
    ids, other = torch.tensor([[1, 5, 9, 2]]), torch.tensor([[1, 5, 9, 8]])
    decoder = made(DECODER)
    assert torch.equal(decoder(ids)[:, :3], decoder(other)[:, :3])
    encoder = made(dataclasses.replace(DECODER, decoder_layers=0, encoder_layers=2))
    assert not torch.allclose(encoder(ids)[:, :3], encoder(other)[:, :3])


@torch.no_grad()
def test_positions_are_told_to_the_first_layers_alone_and_heads_start_out_preferring_one_each() -> None:
    model = made(dataclasses.replace(DECODER, layers_with_distances=1))
    seen: dict[str, AttentionOperation] = {}
    model(torch.tensor([[4, 4, 4, 4]]), watch=lambda name, operation, output: seen.update({name: operation}))
    assert list(seen) == ["decoder.0.attention", "decoder.1.attention"]
    first, second = (operation.weights(range(3), slice(3, 4))[0, :, 0] for operation in seen.values())
    assert first.argmax(dim=-1).tolist() == [3, 2, 1]  # itself, the one before, two before
    torch.testing.assert_close(second, torch.full((3, 4), 0.25))  # the same token, whose place is not told


def test_an_encoder_s_heads_start_out_preferring_places_on_both_sides() -> None:
    model = made(dataclasses.replace(DECODER, decoder_layers=0, encoder_layers=1))
    best = model.encoder[0].attention.relative.table.argmax(dim=-1) - 3
    assert best.tolist() == [0, -1, 1]


def test_the_same_seed_gives_the_same_weights() -> None:
    first, again, other = (made(BOTH, seed).embedding.weight for seed in (3, 3, 4))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_a_target_goes_with_an_encoder_decoder_alone() -> None:
    ids = torch.tensor([[1, 2]])
    with pytest.raises(ValueError, match="takes a target"):
        made(BOTH)(ids)
    with pytest.raises(ValueError, match="takes a target"):
        made(DECODER)(ids, ids)
