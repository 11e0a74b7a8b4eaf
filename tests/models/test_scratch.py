import numpy as np
import pytest
import torch

from attncli.errors import UsageError
from attncli.models.scratch import UNTRAINED, ScratchSource
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights
from attncli.record import Kind


def maps(source: ScratchSource, kind: Kind) -> list[np.ndarray]:
    queries, keys = source.axes(kind)
    every = parse_selection("all", "layer"), parse_selection("all", "head")
    kept = FullWeights(kind, *every, source.depth(kind), len(queries), len(keys))
    run = source.run([kept])
    assert run.notes[0] == UNTRAINED and run.source.kind == "scratch"
    return [matrix.values for matrix in kept.matrices()]


def test_a_sentence_attends_to_itself_and_every_check_holds() -> None:
    found = maps(ScratchSource("one two three", layers=2, heads=4), "encoder")
    assert len(found) == 8
    np.testing.assert_allclose(np.stack(found).sum(-1), 1.0, atol=1e-6)


def test_the_same_seed_gives_the_same_weights_and_another_gives_others() -> None:
    first, again, other = (maps(ScratchSource("a b c", seed=seed), "encoder")[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01


def test_a_causal_row_does_not_change_when_later_words_do() -> None:
    short = maps(ScratchSource("the animal was", causal=True, layers=2, heads=2), "decoder")
    longer = maps(ScratchSource("the animal was too tired", causal=True, layers=2, heads=2), "decoder")
    for ours, theirs in zip(short, longer, strict=True):
        np.testing.assert_allclose(ours, theirs[:3, :3], atol=1e-6)


def test_a_pair_makes_an_encoder_decoder_with_cross_attention() -> None:
    source = ScratchSource("one two three", "eins zwei", layers=2, heads=2)
    assert source.kinds == ("encoder", "decoder", "cross")
    assert [found.shape for found in maps(source, "cross")] == [(2, 3)] * 4


def test_the_callers_random_state_is_left_alone() -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state()
    maps(ScratchSource("a b", seed=5), "encoder")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("d_model", "heads"), [(64, 3), (9, 3), (2, 4)])
def test_sizes_that_do_not_fit_are_refused(d_model: int, heads: int) -> None:
    with pytest.raises(UsageError, match="must be even and a multiple"):
        ScratchSource("a", d_model=d_model, heads=heads)


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is empty"):
        ScratchSource(text)


def test_scores_spread_so_that_maps_are_no_uniform_grey() -> None:
    words = "the animal did not cross the street because it was too tired"
    found = np.stack(maps(ScratchSource(words, heads=4), "encoder"))
    assert found.max(axis=-1).mean() > 2 / len(words.split())
