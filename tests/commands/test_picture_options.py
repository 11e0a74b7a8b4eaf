"""Options of pictures reach the picture, a style's file with them; mistakes are told before a model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from commandline import Cli
from PIL import Image

SHOW = ("show", "The cat sat.", "-m", "tiny-decoder", "--layer", "1")


def test_a_size_a_title_and_a_resolution_are_those_of_the_file(cli: Cli, tmp_path: Path) -> None:
    drawn = tmp_path / "x.png"
    assert cli(*SHOW, "--size", "4x3in", "--dpi", "50", "--title", "Mine", "-o", str(drawn)).code == 0
    with Image.open(drawn) as picture:
        assert picture.size == (200, 150) and picture.info["Title"] == "Mine"


def test_what_is_typed_comes_before_what_a_style_file_says(cli: Cli, tmp_path: Path) -> None:
    style, drawn = tmp_path / "mine.toml", tmp_path / "x.png"
    style.write_text('size = "2x2in"\ndpi = 30\nground = "dark"')
    assert cli(*SHOW, "--style", str(style), "--dpi", "40", "-o", str(drawn)).code == 0
    with Image.open(drawn) as picture:
        assert picture.size == (80, 80) and picture.convert("RGB").getpixel((0, 0)) == (20, 23, 28)


def test_notes_go_to_stderr_and_nothing_about_the_program_into_the_picture(cli: Cli, tmp_path: Path) -> None:
    drawn = tmp_path / "x.svg"
    asked = ("heads", "The cat sat on the mat.", "-m", "tiny-decoder", "--by", "entropy", "-o", str(drawn))
    assert "(--threshold)" in cli(*asked).err
    picture = drawn.read_text()
    assert "--threshold" not in picture and "standard errors" in picture


def test_each_query_has_its_text_in_the_terminal(cli: Cli) -> None:
    out = cli(*SHOW, "--head", "0", "--running-text").out
    assert out.count("attends to") == out.count("strongest:") > 3


def test_order_and_steps_are_pictures_too(cli: Cli, tmp_path: Path) -> None:
    order, steps = tmp_path / "order.svg", tmp_path / "steps.svg"
    assert cli("explain", "order", "-o", str(order)).code == 0
    assert ">dog<" in order.read_text()
    assert cli("explain", "The cat sat.", "-m", "tiny-decoder", "-o", str(steps)).code == 0
    assert ">softmax<" in steps.read_text() and "7. Weighted sum" in steps.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--size", "big"), "--size big: not a size"),
        (("--scale", "log"), "--scale log: no such form"),
        (("--vmax", "-1"), "--vmax -1: must be above 0"),
        (("--style", "papre"), "--style papre: no such style"),
        (("--style", "absent.toml"), "absent.toml: No such file"),
        (("--colormap", "lihgt"), 'did you mean "light"?'),
    ],
)
def test_a_mistake_is_told_before_anything_runs(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    done = cli("show", "The cat sat.", "-m", "no/such-model", *arguments)
    assert done.code in (1, 2) and message in done.err and len(done.err.splitlines()) <= 3
