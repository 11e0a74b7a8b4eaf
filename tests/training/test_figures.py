import pytest
import torch

from attncli.attention.transformer import Shape, Transformer, initialise
from training import dates, figures


def test_means_are_over_the_rows_that_have_something_to_look_at() -> None:
    weights = torch.tensor(
        [[[1.0, 0.0, 0.0], [0.7, 0.3, 0.0], [0.1, 0.5, 0.4]], [[1.0, 0, 0], [0, 1, 0], [0, 0, 1]]]
    )
    means = figures.HeadMeans()
    means.add({"decoder.1.attention": weights[None]}, figures.beside(3, -1))
    best, other = means.roles("previous_token")
    assert (best.kind, best.layer, best.head, best.score) == ("decoder", 1, 0, pytest.approx(0.6))
    assert (other.head, other.score) == (1, 0.0)


def test_special_tokens_are_no_occurrence() -> None:
    assert not figures.follows_the_same(torch.tensor([0, 5, 0, 6]), 1).any()


def test_alignment_counts_rows_whose_strongest_word_is_one_that_says_the_piece() -> None:
    one = dates.Dated(
        ("may", "first", "ten", "two"),
        ("10", "02", "-", "05", "-", "01"),
        tuple(map(frozenset, ({2}, {3}, (), {0}, (), {1}))),
    )
    weights = torch.full((1, 7, 4), 0.1)
    for row, word in enumerate((2, 3, 0, 0, 1, 3, 0)):  # right, right, (dash), right, (dash), wrong, (end)
        weights[0, row, word] = 0.7
    assert figures.alignment(weights, [one]) == 0.75


def test_a_decoder_is_measured_and_the_null_is_what_even_rows_would_have() -> None:
    model = Transformer(Shape(vocabulary=9, d_model=8, heads=2, decoder_layers=2))
    initialise(model, torch.Generator().manual_seed(0))
    for layer in model.decoder:  # no query: every row is even
        torch.nn.init.zeros_(layer.attention.query.weight)
        torch.nn.init.zeros_(layer.attention.query.bias)
    found, roles = figures.measure_decoder(model.eval(), [torch.tensor([[0, 3, 4, 3, 4, 5, 3]])], ordinary=1)
    assert found["previous_token"] == pytest.approx(found["previous_token_null"], abs=1e-4)
    assert found["induction"] == pytest.approx(found["induction_null"], abs=1e-4)
    assert found["previous_token_null"] == pytest.approx(sum(1 / n for n in range(2, 8)) / 6)
    assert {(role.layer, role.head) for role in roles} == {(0, 0), (0, 1), (1, 0), (1, 1)}
