import pytest
import torch
from bench_samples import SMALL, cell, ledger

from attncli.bench.cost import measure_costs, predicted_bytes
from attncli.bench.entrants import find_contender
from attncli.bench.footprint import fits, highest_sum, peak_extra_bytes
from attncli.bench.inputs import Workload
from attncli.bench.prediction import (
    RUNS,
    affordable,
    fair_share,
    predict_seconds,
    time_for_rounds,
)


def test_the_peak_of_known_allocations_is_found(capfd: pytest.CaptureFixture[str]) -> None:
    def call() -> torch.Tensor:
        first = torch.zeros(1000, dtype=torch.float64)  # 8,000 bytes
        second = first + 1  # 16,000 together
        del first
        return second[:500] + 0.0  # 8,000 and 4,000

    peak = peak_extra_bytes(call, "cpu")
    assert peak is not None and 16_000 <= peak < 16_500
    assert capfd.readouterr().err == ""  # the profiler's library is not heard


def test_full_attention_holds_two_score_matrices() -> None:
    workload = Workload(heads=4, head_dim=16, causal=False)
    one = find_contender("full")
    peak = peak_extra_bytes(lambda: one.attend(*workload.inputs(256), False), "cpu")
    assert peak is not None
    inputs = workload.input_bytes(256)
    assert 2 * 4 * 256 * 256 * 4 <= peak <= 3 * 4 * 256 * 256 * 4 + inputs


def test_events_are_taken_in_the_order_of_their_times() -> None:
    assert highest_sum([(2, 10), (1, 5), (3, -15), (4, 12)]) == 15
    assert highest_sum([]) == 0


def test_what_needs_more_than_is_free_does_not_fit() -> None:
    costs = measure_costs(find_contender("full"), Workload(causal=False), 512)
    assert predicted_bytes(costs, Workload(causal=False), 2**20) > 1.9 * 4 * 8 * 2**40
    assert not fits(predicted_bytes(costs, Workload(), 10**6), 2**40)
    assert fits(100, None)


def test_time_is_predicted_from_the_last_length_in_proportion_to_the_operations() -> None:
    made = ledger()
    full = find_contender("full")
    assert made.timed("full")[-1].median == pytest.approx(4e-8 * 4096**2)
    seconds = predict_seconds(full, made, 8192)
    # The samples' cells count n² operations; full attention counts 2·8·n²·128.
    assert seconds == pytest.approx(4e-8 * 8192**2 * 2 * 8 * 128)
    made.cells = []
    assert predict_seconds(full, made, 8192) == pytest.approx(2 * 8 * 8192**2 * 128 / 1e11)


def test_the_slowest_are_left_out_first_and_the_reference_last() -> None:
    seconds = {"sdpa": 1.0, "slow": 10.0, "quick": 0.1}
    assert affordable(seconds, 1000.0, "sdpa") == {}
    assert affordable(seconds, 20.0, "sdpa") == {"slow": 50.0}
    assert list(affordable(seconds, 9.1, "sdpa")) == ["slow", "quick"]
    # Where the reference alone takes too long, the others run without it.
    assert list(affordable(seconds, 1.0, "sdpa")) == ["slow", "sdpa"]


def test_rounds_leave_time_for_the_lengths_that_come() -> None:
    made = ledger([cell("full", 256, [0.01] * 3)], names=("sdpa", "full"))
    later = RUNS * (
        predict_seconds(find_contender("full"), made, 1024)
        + predict_seconds(find_contender("full"), made, 4096)
    )
    assert time_for_rounds(made, 256, later + 2) == pytest.approx(2.0)
    assert time_for_rounds(made, 256, 1.0) == 0.0
    assert time_for_rounds(made, 4096, 3.0) == 3.0


def test_a_length_may_take_as_much_as_each_that_follows() -> None:
    made = ledger()
    assert [fair_share(made, n, 60.0) for n in (256, 1024, 4096)] == [20.0, 30.0, 60.0]
    assert fair_share(made, 4096, -1.0) == 0.0


def test_inputs_are_the_same_for_a_seed_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    assert torch.equal(SMALL.inputs(5)[2], SMALL.inputs(5)[2])
    assert torch.equal(torch.get_rng_state(), state)
