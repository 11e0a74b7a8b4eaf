import math
import random
import time

import pytest

from attncli.bench.clock import Reading, choose_clock, time_call
from attncli.bench.rounds import FEWEST, FEWEST_IN_HASTE, MOST, Readings, Stop, repetitions, run_rounds

LONG = Stop(0.05, math.inf)


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tell the order of calls, with a clock by which "steady" always takes 1 s and "shaky" something else each time."""
    ran: list[str] = []
    shaky = random.Random(3)

    def fake(call, number, device):
        ran.append(call())
        seconds = 1.0 if ran[-1] == "steady" else shaky.uniform(0.5, 2.0)
        return Reading(seconds, seconds)

    monkeypatch.setattr("attncli.bench.rounds.time_call", fake)
    return ran


def run(
    names: tuple[str, ...], stop: Stop, keep: tuple[str, ...] = (), into: Readings | None = None
) -> Readings:
    into = {} if into is None else into
    calls = {name: (lambda name=name: name) for name in names}
    run_rounds(calls, dict.fromkeys(names, 1), keep, stop, "cpu", "cpu", random.Random(0), into)
    return into


def test_each_runs_once_a_round_in_changing_order(order: list[str]) -> None:
    found = run(("a", "b", "c"), Stop(0.0, 0.0))
    assert {name: len(readings) for name, readings in found.items()} == dict.fromkeys("abc", FEWEST)
    rounds = [tuple(order[start : start + 3]) for start in range(0, len(order), 3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds) and len(set(rounds)) > 1


def test_who_is_known_well_enough_leaves_and_the_reference_stays(order: list[str]) -> None:
    alone = run(("steady", "shaky"), LONG)
    assert len(alone["steady"]) == FEWEST < len(alone["shaky"]) <= MOST
    kept = run(("steady", "shaky"), LONG, keep=("steady",))
    assert len(kept["steady"]) == len(kept["shaky"])


def test_there_are_fewer_rounds_when_everything_is_late(order: list[str]) -> None:
    assert len(run(("a",), Stop(0.0, math.inf, at_last=0.0))["a"]) == FEWEST_IN_HASTE


def test_what_was_measured_outlives_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(call, number, device):
        if sum(map(len, into.values())) == 4:
            raise KeyboardInterrupt
        return Reading(1.0, 1.0)

    monkeypatch.setattr("attncli.bench.rounds.time_call", interrupted)
    into: Readings = {}
    with pytest.raises(KeyboardInterrupt):
        run(("a", "b"), LONG, into=into)
    assert sorted(map(len, into.values())) == [2, 2]


def test_short_calls_are_repeated_within_a_reading() -> None:
    count = []
    reading = time_call(lambda: count.append(1), 7, "cpu")
    assert len(count) == 7 and reading.wall >= 0 and reading.cuda is None
    assert repetitions(0.0001) == 20 and repetitions(3.0) == 1


def test_cpu_time_leaves_waiting_out() -> None:
    reading = time_call(lambda: time.sleep(0.05), 1, "cpu")
    assert reading.on("wall") >= 0.05 > 0.02 > reading.on("cpu")


def test_several_threads_are_timed_by_the_wall() -> None:
    assert [choose_clock("cpu", 1), choose_clock("cpu", 2), choose_clock("mps", 1)] == ["cpu", "wall", "wall"]
