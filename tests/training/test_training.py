import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attncli.attention.transformer import Shape
from attncli.models.trained import TrainedSource
from training import decoder, encoder, recipes
from training.__main__ import main
from training.loop import Schedule

SMALL = Shape(vocabulary=180, d_model=16, heads=2, encoder_layers=1, decoder_layers=1, feed_forward=16)


@pytest.fixture
def small() -> recipes.Recipe:
    """tiny-translator, smaller still."""
    schedule = Schedule(steps=30, batch_size=8, warmup=5)
    return replace(recipes.tiny_translator([]), shape=SMALL, schedule=schedule)


def test_the_loss_falls_and_the_same_seed_gives_the_same_model(small: recipes.Recipe) -> None:
    first, again, other = (recipes.train(small, seed=seed) for seed in (0, 0, 1))
    assert all(map(math.isfinite, first.losses)) and len(first.losses) == 30
    assert sum(first.losses[-5:]) < 0.9 * sum(first.losses[:5])
    assert first.losses == again.losses != other.losses
    assert first.figures == again.figures


def test_the_command_writes_a_folder_that_can_be_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tiny-translator", "--steps", "5", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "step     5 of 5" in told.err and "exact_dates\t" in told.out
    folder = tmp_path / "tiny-translator"
    card = json.loads((folder / "card.json").read_text())
    assert card["training"]["steps"] == 5 and "exact_dates" in (folder / "README.md").read_text()
    rows = list(csv.DictReader((folder / "curve.csv").read_text().splitlines()))
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5]
    assert TrainedSource(folder, "may first", "1900").run([]).source.kind == "trained"


def test_without_text_the_command_says_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tiny-decoder", "--text", str(tmp_path)]) == 1
    assert "apt-get install" in capsys.readouterr().err


def test_seven_eighths_of_what_a_decoder_reads_come_again() -> None:
    ids = torch.arange(1, 5001)
    drawn = decoder.Task(ids, start=0, vocabulary=5001).draw(8, torch.Generator().manual_seed(3))
    assert drawn.shape == (8, 64) and bool((drawn[:, 0] == 0).all())
    assert [len(row.unique()) < len(row) for row in drawn] == [False] + [True] * 7


def test_an_encoder_s_gaps_are_a_third_and_never_special() -> None:
    task = encoder.Task(torch.arange(3, 2003), start=0, end=1, gap=2, vocabulary=2003)
    generator = torch.Generator().manual_seed(0)
    whole = task.draw(64, generator)
    hidden, chosen = task.hide(whole, generator)
    assert bool((hidden[~chosen] == whole[~chosen]).all())
    assert not bool(chosen[:, 0].any() or chosen[:, -1].any())
    assert 0.26 < float(chosen.float().mean()) < 0.33
    assert 0.7 < float((hidden[chosen] == 2).float().mean()) < 0.9


def test_a_schedule_rises_then_falls_to_a_twentieth() -> None:
    schedule = Schedule(steps=101, batch_size=1, peak_rate=1.0, warmup=10)
    rates = [schedule.rate(step) for step in range(101)]
    assert rates[0] == 0.1 and max(rates) == rates[10] == 1.0
    assert rates[-1] < 0.06 and rates[10:] == sorted(rates[10:], reverse=True)
