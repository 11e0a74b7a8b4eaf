import numpy as np
import pytest

from attncli.diff.alignment import align, by_position
from attncli.diff.distance import distance
from attncli.models.tokens import words_of_text
from attncli.view import Matrix


def _rows(rng, rows: int, keys: int) -> np.ndarray:
    raw = rng.random((rows, keys)) ** 4
    return (raw / raw.sum(axis=1, keepdims=True)).astype(np.float32)


def _reference(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Jensen–Shannon distance of rows by its definition, key by key."""
    found = []
    for ours, theirs in zip(p.astype(float), q.astype(float), strict=True):
        bits = 0.0
        for a, b in zip(ours / ours.sum(), theirs / theirs.sum(), strict=True):
            middle = (a + b) / 2
            bits += sum(0.5 * one * np.log2(one / middle) for one in (a, b) if one > 0)
        found.append(np.sqrt(bits))
    return np.array(found)


def test_the_distance_is_that_of_the_definition_key_by_key() -> None:
    rng = np.random.default_rng(0)
    p, q = _rows(rng, 6, 9), _rows(rng, 6, 9)
    p[2, 3:] = 0
    p[2] /= p[2].sum()
    found = distance(Matrix(p), Matrix(q), by_position(6, 6), by_position(9, 9))
    apart = _reference(p, q)
    assert found.distance == pytest.approx(apart.mean(), abs=1e-9)
    assert found.divergence == pytest.approx((apart**2).mean(), abs=1e-9)
    assert (found.row, found.rows) == (int(apart.argmax()), 6)
    assert found.max_abs == pytest.approx(np.abs(p - q).max())


def test_a_key_that_only_one_side_has_counts_as_weight_that_the_other_lacks() -> None:
    before, after = words_of_text("a b c"), words_of_text("a x y b c")
    rng = np.random.default_rng(1)
    p, q = _rows(rng, 3, 3), _rows(rng, 5, 5)
    pairs = align(before, after)
    assert (pairs.before, pairs.after, pairs.added) == ((0, 1, 2), (0, 3, 4), (1, 2))
    wide = np.insert(p, [1, 1], 0, axis=1)
    found = distance(Matrix(p), Matrix(q), pairs, pairs)
    assert found.distance == pytest.approx(_reference(wide, q[[0, 3, 4]]).mean(), abs=1e-9)


def test_rows_of_replaced_tokens_are_not_compared_and_their_keys_count_as_one() -> None:
    pairs = align(words_of_text("too tired now"), words_of_text("too wide now"))
    assert pairs.replaced == (False, True, False)
    rng = np.random.default_rng(2)
    p, q = _rows(rng, 3, 3), _rows(rng, 3, 3)
    found = distance(Matrix(p), Matrix(q), pairs, pairs)
    assert found.rows == 2 and found.distance == pytest.approx(_reference(p, q)[[0, 2]].mean(), abs=1e-9)


def test_what_a_row_leaves_to_a_sink_is_part_of_its_distribution() -> None:
    p, q = np.array([[0.5, 0.5]], np.float32), np.array([[0.25, 0.25]], np.float32)
    found = distance(Matrix(p), Matrix(q), by_position(1, 1), by_position(2, 2))
    assert found.distance == pytest.approx(
        _reference(np.array([[0.5, 0.5, 0]]), np.array([[0.25, 0.25, 0.5]]))[0]
    )


def test_equal_maps_have_no_distance_and_disjoint_ones_have_1() -> None:
    p = _rows(np.random.default_rng(3), 4, 4)
    same = by_position(4, 4)
    assert distance(Matrix(p), Matrix(p.copy()), same, same).distance == 0.0
    one, other = np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)[::-1].copy()
    assert distance(Matrix(one), Matrix(other), by_position(2, 2), by_position(2, 2)).distance == 1.0


def test_signed_weights_have_a_largest_difference_and_no_distance() -> None:
    p, same = np.array([[0.5, -0.5]], np.float32), by_position(2, 2)
    found = distance(Matrix(p), Matrix(p + 1), by_position(1, 1), same)
    assert np.isnan(found.distance) and found.row is None and found.max_abs == 1.0
