"""What the README and docs/ print and name is true: outputs, pictures, options, links, Python."""

import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from commandline import Cli

ROOT = Path(__file__).parent.parent


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


TOUR = load("tour")
TERMINAL = load("terminal")
PAGES = {path: path.read_text(encoding="utf-8") for path in TOUR.PAGES}
STOPS = [stop for page in PAGES.values() for stop in TOUR.stops(page)]
COMMAND = re.compile(r"(?<![\w/.-])attncli ([a-z]+)\b((?:[^\n`|>]|\\\n)*)")
OPTION = re.compile(r"(?<!\S)--?[a-z][\w-]*")


def blocks(language: str) -> list[str]:
    return [
        block
        for page in PAGES.values()
        for block in re.findall(rf"```{language}\n(.+?)\n```", page, re.DOTALL)
    ]


def commands() -> list[tuple[str, str]]:
    """Return each command in a block of shell code or between backticks, and its arguments."""
    quoted = [span for page in PAGES.values() for span in re.findall(r"(?<!`)`(attncli [^`]+)`(?!`)", page)]
    found = [match.groups() for text in (*blocks("sh"), *quoted) for match in COMMAND.finditer(text)]
    return sorted({(name, arguments) for name, arguments in found})


def test_the_tour_has_stops_and_each_a_name_of_its_own() -> None:
    names = [stop.name for stop in STOPS]
    assert len(names) >= 6 and len(set(names)) == len(names)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_shows_what_is_kept(path: Path) -> None:
    assert TOUR.with_outputs(PAGES[path]) == PAGES[path]


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
    assert any(f"tour/{picture.name})" in page for page in PAGES.values())
    again = tmp_path / picture.name
    arguments = [str(again) if ROOT / word == picture else word for word in stop.arguments]
    assert cli(*arguments).code == 0 and again.read_bytes().startswith(b"\x89PNG")


def test_a_noisy_command_is_kept_with_the_form_it_has(cli: Cli) -> None:
    noisy = [stop for stop in STOPS if stop.noisy]
    assert noisy and all(stop.file.read_text(encoding="utf-8").startswith("attention, ") for stop in noisy)


def test_the_picture_of_the_terminal_says_what_the_command_prints(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    drawn = TERMINAL.draw(cli("show", TERMINAL.TEXT, "--color", "always", "--width", "80").out)
    kept, now = (re.sub("<[^>]+>", "", svg) for svg in (TERMINAL.PICTURE.read_text("utf-8"), drawn))
    assert TOUR.difference(kept, now) is None


def test_every_option_on_a_page_is_one_of_its_command(cli: Cli) -> None:
    known: dict[str, set[str]] = {}
    for name, arguments in commands():
        if name not in known:
            lines = re.findall(r"(?m)^  (-.+?)(?:  |$)", cli(name, "--help").out)
            known[name] = {option for line in lines for option in OPTION.findall(line.replace(",", " "))}
        outside_quotes = re.sub(r"\$\(.*?\)|\"[^\"]*\"|'[^']*'|#.*", "", arguments)
        assert set(OPTION.findall(outside_quotes)) <= known[name], f"attncli {name}{arguments}"
    assert len(known) >= 10


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_to_one(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", PAGES[path])
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_the_python_on_the_pages_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    assert len(blocks("python")) >= 3
    for page in PAGES.values():
        names: dict[str, object] = {}
        for block in re.findall(r"```python\n(.+?)\n```", page, re.DOTALL):
            exec(block, names)


def test_the_readme_is_short() -> None:
    assert len(PAGES[ROOT / "README.md"].splitlines()) <= 180


def test_words_and_numbers_that_differ_are_told() -> None:
    assert TOUR.difference("a 0.12\nb 3", "a 0.12\nb 4") == "b 3 → b 4"
    assert TOUR.difference("a 0.12", "c 0.12") == "a 0.12 → c 0.12"
    assert TOUR.difference("a\nb", "a") == "b → "
