"""Of a saved run one may pick what is in it, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from render_samples import ANIMAL, grid

from attncli.errors import UsageError
from attncli.maps.saved_selection import choose_heads, choose_tokens, choose_top
from attncli.render.grid_text import short_names
from attncli.view import MatrixGrid


def run(layers: tuple[int, ...] = (0, 4, 7), heads: int = 3) -> MatrixGrid:
    """A run of some layers of a hybrid model."""
    made = grid(ANIMAL[:5], layers=len(layers), heads=heads, causal=True)
    true = tuple(replace(m, layer=layers[m.layer], kv_head=0) for m in made.matrices)
    return replace(made, matrices=true, facts=tuple({"number": index} for index in range(len(true))))


def names(made: MatrixGrid) -> list[str]:
    return short_names(made.matrices)


@pytest.mark.parametrize(
    ("layer", "head", "expected"),
    [
        ("4", "1", ["L4H1"]),
        ("7,0", "2,0", ["L7H2", "L7H0", "L0H2", "L0H0"]),
        ("-1", "-1", ["L7H2"]),
        ("3-9", "0", ["L4H0", "L7H0"]),
        ("7-0", "0", ["L7H0", "L4H0", "L0H0"]),
        ("4", "mean", ["L4 mean"]),
        ("mean", "1", ["mean of layers H1"]),
        ("0,4:mean", "mean", ["mean of layers  mean"]),
    ],
)
def test_layers_and_heads_are_picked_in_the_order_asked_for(
    layer: str, head: str, expected: list[str]
) -> None:
    assert names(choose_heads(run(), layer, head)) == expected


def test_facts_go_with_their_matrices() -> None:
    assert choose_heads(run(), "7", "2,0").facts == ({"number": 8}, {"number": 6})
    assert choose_heads(run(), "7", "mean").facts == ()


def test_a_mean_is_the_mean_and_allows_what_any_of_them_allows() -> None:
    made = run()
    mean = choose_heads(made, "4", "0,2:mean").matrices[0]
    np.testing.assert_allclose(
        mean.values, (made.matrices[3].values + made.matrices[5].values) / 2, atol=1e-7
    )
    assert mean.kv_head is None and (mean.allowed == np.tri(5, dtype=bool)).all()
    both = choose_heads(made, "mean", "mean").matrices[0].values
    np.testing.assert_allclose(both, np.mean([m.values for m in made.matrices], axis=0), atol=1e-7)


@pytest.mark.parametrize(
    ("layer", "head", "words"),
    [
        ("3", "all", "--layer 3: not in the run; saved layers: 0, 4, 7"),
        ("1-3", "all", "--layer 1-3: not in the run; saved layers: 0, 4, 7"),
        ("4", "3", "--head 3: not in the run; saved heads: 0-2"),
        ("four", "all", "not a layer selection"),
    ],
)
def test_what_was_not_saved_is_told_with_what_was(layer: str, head: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_heads(run(), layer, head)
    assert words in f"{caught.value.message}; {caught.value.hint}"


def test_of_a_mean_no_single_head_can_be_picked() -> None:
    mean = choose_heads(run(), "all", "mean")
    with pytest.raises(UsageError, match=r"no single heads \(their mean was saved\)"):
        choose_heads(mean, "all", "1")
    assert short_names(choose_heads(mean, "4", "mean").matrices) == ["L4 mean"]


def test_the_title_names_what_is_left() -> None:
    assert choose_heads(run(), "4", "1").header.title == "bert-tiny · decoder self-attention layer 4 head 1"
    assert choose_heads(run(), "all", "all").header.title == "bert-tiny · encoder"


def test_rows_and_columns_are_picked_from_those_saved_by_their_true_positions() -> None:
    made = run()
    some = choose_tokens(made, "animal,1", "0-2")
    assert [token.position for token in some.query_tokens] == [2, 1]
    np.testing.assert_array_equal(some.matrices[5].values, made.matrices[5].values[[2, 1]][:, :3])
    again = choose_tokens(some, "1", "2,0")
    assert [token.position for token in again.key_tokens] == [2, 0]
    np.testing.assert_array_equal(again.matrices[5].values, made.matrices[5].values[[1]][:, [2, 0]])
    np.testing.assert_array_equal(again.matrices[5].allowed, [[False, True]])


def test_rows_that_were_not_saved_are_told() -> None:
    some = choose_tokens(run(), "0,1,4", None)
    with pytest.raises(UsageError, match="--query 2-3: not in the run") as caught:
        choose_tokens(some, "2-3", None)
    assert caught.value.hint == "saved positions: 0-1, 4"
    assert len(choose_tokens(some, "1-4", None).query_tokens) == 2


def test_more_of_the_strongest_keys_than_were_saved_cannot_be_listed() -> None:
    whole = replace(run(), top=2)
    assert choose_top(whole, 4).top == 4
    values = np.where(np.tri(5, dtype=bool) & (np.arange(5) > 1), np.nan, whole.matrices[0].values)
    part = replace(whole, matrices=(replace(whole.matrices[0], values=values),), facts=())
    assert choose_top(part, 1).top == 1
    with pytest.raises(UsageError, match="only the 2 strongest keys"):
        choose_top(part, 3)
