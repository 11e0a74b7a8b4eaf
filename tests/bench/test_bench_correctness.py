import pytest
import torch
from bench_samples import SMALL, contender

from attncli import registry
from attncli.attention.variants import full
from attncli.bench.correctness import can_differentiate, check
from attncli.bench.entrants import choose_contenders
from attncli.bench.inputs import Workload


def scaled(factor: float):
    return lambda query, key, value, *, causal: full.attend(query, key, value, causal=causal) * factor


def test_full_attention_is_right_and_a_slightly_wrong_one_is_refused() -> None:
    right = check(contender("right"), SMALL, 64)
    assert right.status == "ok" and right.max_abs_error is not None and 0 < right.max_abs_error < 2e-6
    wrong = check(contender("wrong", scaled(1.001)), SMALL, 64)
    assert wrong.status == "wrong" and "differs from full attention in float64 by" in wrong.reason


def test_an_approximation_is_held_against_its_own_plain_form() -> None:
    half = contender(
        "half", scaled(0.5), exact=False, weights=lambda q, k, causal: full.weights(q, k, causal=causal) / 2
    )
    assert check(half, SMALL, 64).status == "ok"
    third = contender(
        "third", scaled(0.3), exact=False, weights=lambda q, k, causal: full.weights(q, k, causal=causal) / 2
    )
    assert "its own plain form" in check(third, SMALL, 64).reason


def test_one_wrong_row_of_an_approximation_is_found_in_float64() -> None:
    def attend(query, key, value, *, causal):
        output = full.attend(query, key, value, causal=causal)
        output[:, :, 40] += 0.1
        return output

    assert check(contender("nearly", attend, exact=False), SMALL, 64).status == "wrong"


def test_rounding_that_changes_a_choice_in_few_rows_is_no_fault() -> None:
    def attend(query, key, value, *, causal):
        output = full.attend(query, key, value, causal=causal)
        if output.dtype == torch.float32:
            output[:, :, 40] += 0.1
        return output

    verdict = check(contender("chooser", attend, exact=False), SMALL, 64)
    assert verdict.status == "ok" and verdict.max_abs_error == pytest.approx(0.1, abs=1e-3)
    assert check(contender("exact", attend), SMALL, 64).status == "wrong"


def test_nan_is_wrong_and_an_error_is_unsupported() -> None:
    assert check(contender("nan", scaled(float("nan"))), SMALL, 64).status == "wrong"

    def refuse(*_: object, **__: object) -> None:
        raise NotImplementedError("not here\nreally")

    assert check(contender("no", refuse), SMALL, 64).reason == "not here"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_variant_and_peer_passes(causal: bool, dtype: str) -> None:
    workload = Workload(heads=2, head_dim=8, causal=causal, dtype=dtype)
    found, _ = choose_contenders(None, (), workload, (200,), "sdpa")
    assert len(found) >= 4 and set(registry.entries("peers")) <= {one.name for one in found}
    for one in found:
        verdict = check(one, workload, 200)
        assert verdict.status == "ok", (one.name, verdict)
        assert (verdict.max_abs_error is None) == (one.name in ("recurrent", "convolution"))


def test_what_has_no_gradient_says_so() -> None:
    def detached(query, key, value, *, causal):
        return full.attend(query, key, value, causal=causal).detach()

    assert can_differentiate(contender("full"), SMALL) is None
    assert "no gradient" in (can_differentiate(contender("cut", detached), SMALL) or "")
