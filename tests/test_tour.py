"""The README's tour is what its commands print."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from commandline import Cli

ROOT = Path(__file__).parent.parent


def load_tour() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tour", ROOT / "docs" / "tour.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tour"] = module
    spec.loader.exec_module(module)
    return module


TOUR = load_tour()
README = TOUR.README.read_text(encoding="utf-8")
STOPS = list(TOUR.stops(README))


def test_the_tour_has_stops_and_each_a_name_of_its_own() -> None:
    names = [stop.name for stop in STOPS]
    assert len(names) >= 6 and len(set(names)) == len(names)


def test_the_readme_shows_what_is_kept() -> None:
    assert TOUR.with_outputs(README) == README


@pytest.mark.parametrize(
    "stop", [stop for stop in STOPS if stop.shows and not stop.noisy], ids=lambda stop: stop.name
)
def test_a_command_prints_what_the_tour_says(cli: Cli, stop: "TOUR.Stop") -> None:
    result = cli(*stop.arguments)
    assert (result.code, result.err) == (0, "")
    assert TOUR.difference(stop.file.read_text(encoding="utf-8"), result.out) is None
    assert max(map(len, result.out.splitlines())) <= 80


@pytest.mark.parametrize("stop", [stop for stop in STOPS if not stop.shows], ids=lambda stop: stop.name)
def test_a_picture_of_the_tour_is_kept_and_can_be_drawn_again(
    cli: Cli, tmp_path: Path, stop: "TOUR.Stop"
) -> None:
    (picture,) = stop.pictures
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"]({picture.relative_to(ROOT)})" in README
    again = tmp_path / picture.name
    arguments = [str(again) if ROOT / word == picture else word for word in stop.arguments]
    assert cli(*arguments).code == 0 and again.read_bytes().startswith(b"\x89PNG")


def test_a_noisy_command_is_kept_with_the_form_it_has(cli: Cli) -> None:
    noisy = [stop for stop in STOPS if stop.noisy]
    assert noisy and all(stop.file.read_text(encoding="utf-8").startswith("attention, ") for stop in noisy)


def test_words_and_numbers_that_differ_are_told() -> None:
    assert TOUR.difference("a 0.12\nb 3", "a 0.12\nb 4") == "b 3 → b 4"
    assert TOUR.difference("a 0.12", "c 0.12") == "a 0.12 → c 0.12"
    assert TOUR.difference("a\nb", "a") == "b → "
