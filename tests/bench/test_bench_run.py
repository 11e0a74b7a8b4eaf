import math
from dataclasses import replace

import pytest
from bench_samples import ENVIRONMENT, SMALL, contender

from attncli.bench.clock import Reading
from attncli.bench.results import BenchRequest, BenchResults
from attncli.bench.run import run_bench


def question(*contenders, lengths: tuple[int, ...] = (16, 32), **settings: object) -> BenchRequest:
    return BenchRequest(SMALL, lengths, contenders, "cpu", max_time=0.01, **settings)


def run(asked: BenchRequest) -> BenchResults:
    made = BenchResults(asked, ENVIRONMENT)
    run_bench(made)
    return made


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every reading be one second."""
    monkeypatch.setattr("attncli.bench.rounds.time_call", lambda call, number, device: Reading(1.0, 1.0))


def test_every_cell_has_times_memory_operations_and_an_error() -> None:
    made = run(question(contender("one"), contender("two")))
    assert made.complete and [(c.variant, c.seq_len) for c in made.cells] == [
        ("one", 16), ("two", 16), ("one", 32), ("two", 32)
    ]  # fmt: skip
    for cell in made.cells:
        assert cell.status == "ok" and len(cell.readings) >= 3
        assert cell.peak_bytes and cell.flops and cell.ratio and cell.max_abs_error is not None
    assert 0 < made.timed_seconds < made.elapsed_seconds and set(made.controls) == {16, 32}


def test_two_equal_things_are_no_different(steady: None) -> None:
    made = run(question(contender("one"), contender("twin")))
    twin = made.timed("twin")[0]
    assert (twin.ratio, twin.ratio_interval, twin.noise) == (1.0, (1.0, 1.0), True)
    assert made.noise_floors == {16: 0.0, 32: 0.0}


def test_a_wrong_implementation_is_never_timed() -> None:
    from attncli.attention.variants import full

    def wrong(query, key, value, *, causal):
        assert query.shape[2] <= 331, "it was measured though it is wrong"
        return full.attend(query, key, value, causal=False)

    made = run(question(contender("right"), contender("wrong", wrong), lengths=(400, 500)))
    cells = [cell for cell in made.cells if cell.variant == "wrong"]
    assert [cell.status for cell in cells] == ["wrong", "wrong"] and not any(cell.readings for cell in cells)
    assert all(cell.max_abs_error and cell.max_abs_error > 0.1 for cell in cells)


def test_what_would_not_fit_is_never_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    from attncli.attention.variants import full

    def attend(query, key, value, *, causal):
        assert query.shape[2] <= 2048, "it was tried"
        return full.attend(query, key, value, causal=causal)

    monkeypatch.setattr("attncli.bench.run.free_bytes", lambda device: 20 * 2**30)
    made = run(question(contender("full", attend), lengths=(16, 10**6)))
    (huge,) = [cell for cell in made.cells if cell.seq_len == 10**6]
    assert (huge.status, huge.readings) == ("too large", ()) and huge.reason.endswith(" TiB, 20 GiB free")


def test_what_would_outlast_the_budget_is_left_out() -> None:
    def flops(**shape: int) -> int:
        return shape["query_len"] ** 6

    made = run(question(contender("one", flops=flops), lengths=(16, 3000), budget=20.0))
    (late,) = [cell for cell in made.cells if cell.seq_len == 3000]
    assert late.status == "too slow" and "--budget leaves" in late.reason


def test_an_error_at_one_length_costs_one_cell() -> None:
    from attncli.attention.variants import full

    def attend(query, key, value, *, causal):
        if query.shape[2] == 16:
            raise RuntimeError("no\n  luck")
        return full.attend(query, key, value, causal=causal)

    made = run(question(contender("one"), contender("two", attend)))
    assert [(c.seq_len, c.status, c.reason) for c in made.cells if c.variant == "two"] == [
        (16, "failed", "no luck"), (32, "ok", "")
    ]  # fmt: skip


def test_gradients_are_timed_where_there_are_any() -> None:
    asked = question(
        contender("one"),
        contender(
            "cut", lambda q, k, v, *, causal: (q @ k.mT).softmax(-1).detach() @ v.detach(), exact=False
        ),
    )
    made = run(replace(asked, workload=replace(SMALL, backward=True)))
    statuses = {cell.variant: cell.status for cell in made.cells}
    assert statuses["one"] == "ok" and statuses["cut"] in ("unsupported", "wrong")


def test_an_interruption_leaves_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10**6))

    def interrupted(call, number, device):
        if next(ticks) == 35:
            raise KeyboardInterrupt
        return Reading(0.001, 0.001)

    monkeypatch.setattr("attncli.bench.rounds.time_call", interrupted)
    made = BenchResults(question(contender("one"), contender("two"), lengths=(8, 16, 24, 32)), ENVIRONMENT)
    with pytest.raises(KeyboardInterrupt):
        run_bench(made)
    assert not made.complete and made.elapsed_seconds > 0
    assert [cell.seq_len for cell in made.cells] == [
        8,
        8,
        16,
        16,
    ]  # 15 readings a length; of the third only 5
    assert all(math.isfinite(cell.ratio or math.nan) for cell in made.cells)
