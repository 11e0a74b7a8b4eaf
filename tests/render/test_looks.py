"""How a picture looks: sizes, styles and their files; which notes stand in it, which scale, which shape it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from render_samples import curves, grid, header, mask, ranking, steps, table, tokens, variants

from attncli.errors import ReadError, UsageError
from attncli.record import Token
from attncli.render import Options
from attncli.render.heatmap import render as heatmap
from attncli.render.look import STYLES, Look, size_of, style_of
from attncli.render.picture.figure import build
from attncli.render.picture.notes import facts_only
from attncli.render.scales import ranking_scale, scales_of
from attncli.view import Matrix, MatrixGrid

VIEWS = [
    grid(["a", "b", "c"]),
    grid(layers=6, heads=12),
    mask(),
    variants(),
    curves(),
    ranking(),
    steps(),
    table(),
]


def with_look(**changes: object) -> Options:
    return Options(look=replace(Look(), **changes), dpi=40)


def texts(view: object, options: Options) -> list[str]:
    figure = build(view, options)  # type: ignore[arg-type]
    inside = (text.get_text() for axes in figure.axes for text in axes.texts)
    return [*(text.get_text() for text in figure.texts), *inside]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: type(view).__name__)
@pytest.mark.parametrize("style", STYLES)
def test_every_view_has_the_size_that_a_style_asks_for(view: object, style: str) -> None:
    look = STYLES[style]
    figure = build(view, Options(look=look))  # type: ignore[arg-type]
    width, height = figure.get_size_inches()
    assert look.size is not None and width == pytest.approx(look.size[0])
    assert look.size[1] is None or height == pytest.approx(look.size[1])


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: type(view).__name__)
def test_no_letter_is_smaller_than_five_points_on_84_mm(view: object) -> None:
    figure = build(view, Options(look=STYLES["paper"]))  # type: ignore[arg-type]
    labels = [label for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    drawn = [text for axes in figure.axes for text in axes.texts] + labels + figure.texts
    assert min(text.get_fontsize() for text in drawn if text.get_text()) >= 4.95


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: type(view).__name__)
def test_all_of_a_slide_is_on_the_slide(view: object) -> None:
    figure = build(view, Options(look=STYLES["slide"]))  # type: ignore[arg-type]
    for axes in figure.axes:
        box = axes.get_position()
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= 1 and box.y1 <= 1, axes


def test_twelve_heads_of_a_layer_stand_in_four_columns_and_nine_variants_in_three() -> None:
    def columns(view: MatrixGrid, look: Look) -> int:
        boxes = [axes.get_position() for axes in build(view, Options(look=look)).axes[: len(view.matrices)]]
        return len({round(box.x0, 3) for box in boxes})

    layer = grid(["a", "b", "c"], 1, 12)
    nine = replace(layer, matrices=tuple(replace(one, label=str(one.head)) for one in layer.matrices[:9]))
    assert columns(layer, Look()) == 4 and columns(nine, Look()) == 3
    assert columns(layer, Look(columns=6)) == 6


def test_maps_of_one_head_stand_side_by_side() -> None:
    one = grid(["a", "b", "c"]).matrices[0]
    matrices = tuple(replace(one, head=head, label=f"{head} {side}") for head in (2, 5) for side in "ABC")
    axes = build(replace(grid(["a", "b", "c"]), matrices=matrices), Options()).axes[:6]
    assert len({round(one.get_position().x0, 3) for one in axes}) == 3


def test_a_title_and_notes_can_be_left_out_or_said_otherwise() -> None:
    view = grid(["a", "b"], header=header("mine", notes=("a fact",)))
    assert texts(view, Options())[:2] == ["mine", "encoder L0H0"]
    assert "a fact" in texts(view, Options()) and "a fact" not in texts(view, with_look(notes=False))
    assert "mine" not in texts(view, with_look(title="")) and "other" in texts(view, with_look(title="other"))
    assert ".50" not in "".join(texts(view, with_look(numbers=False, notes=False)))


def test_what_is_about_the_program_stands_in_no_picture() -> None:
    notes = (
        "noise: the load was 3.1",
        "with --top 3",
        "read /home/me/x.txt",
        "seen: 4 (--all)",
        "a: 3; --x: b",
    )
    assert facts_only(notes) == ["seen: 4", "a: 3"]


def test_numbers_that_round_to_nought_are_not_written() -> None:
    values = np.array([[0.004, 0.996], [0.2, 0.8]], np.float32)
    view = replace(grid(["a", "b"]), matrices=(Matrix(values),))
    assert texts(view, with_look(title="", notes=False)) == ["1.0", ".20", ".80"]


def test_heads_have_a_linear_scale_and_weights_a_square_root() -> None:
    assert ranking_scale(ranking()).linear and ranking_scale(ranking(unit="bits", largest=4)).linear
    first = scales_of(grid(), Look())[0]
    changed = scales_of(grid(), Look(scale="linear", vmax=0.5))[0]
    assert not first.linear and first.high == 1 and changed.linear and changed.high == 0.5


def test_only_a_variant_with_signs_is_on_the_scale_that_diverges() -> None:
    found = scales_of(variants(unit="signed"), Look())
    assert [scale.signed for scale in found] == [False] * 4 + [True]


def test_a_sound_s_axis_has_whole_seconds_and_its_own_scale() -> None:
    moments = tuple(Token(n, None, f"{n / 50:.2f} s", f"{n / 50:.2f} s") for n in range(150))
    view = MatrixGrid(header(), (Matrix(np.full((2, 150), 0.02, np.float32)),), tokens(["a", "b"]), moments)
    axes = build(view, Options()).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2"]
    assert axes.get_xlabel() == "time (s)" and scales_of(view, Look())[0].high == pytest.approx(0.02)


def test_a_style_file_starts_from_a_style_and_changes_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('style = "paper"\nfont-size = 9\nsize = "4x3in"\nvmax = 0.5\nground = "dark"')
    expected = replace(STYLES["paper"], font_size=9, size=(4.0, 3.0), vmax=0.5, ground="dark")
    assert style_of(str(path)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colums = 3", "no setting 'colums'"),
        ("columns = true", "columns = True"),
        ('size = "big"', "not a size"),
        ("font-size = 3", "font-size = 3"),
        ("[", "not TOML"),
        ('style = "papier"', "no style 'papier'"),
    ],
)
def test_a_style_file_with_a_mistake_says_which(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message.replace("[", r"\[")):
        style_of(str(path))


def test_an_unknown_style_and_an_absent_file_are_told() -> None:
    with pytest.raises(UsageError, match="no such style"):
        style_of("papre")
    with pytest.raises(ReadError, match="No such file"):
        style_of("absent.toml")
    with pytest.raises(UsageError, match="out of range"):
        size_of("900cm")


def running(texts: list[str], keys: int = 1) -> MatrixGrid:
    starts = np.cumsum([0, *map(len, texts)])
    words = tuple(
        Token(n, n, text, text, start=int(starts[n]), end=int(starts[n + 1]), written=text)
        for n, text in enumerate(texts)
    )
    values = np.zeros((1, len(texts)), np.float32)
    values[0, keys] = 0.75
    return MatrixGrid(header(), (Matrix(values, layer=1, head=2),), words[-1:], words)


def test_one_row_of_many_keys_is_shown_as_the_text_itself() -> None:
    view = running(["The", " cat", " sat", " on"] * 12)
    text = heatmap(view, Options()).decode()
    assert "The [cat] sat on" in text and "strongest: “cat” (1) .75" in text
    colored = heatmap(view, Options(color="truecolor")).decode()
    assert "mcat\x1b[0m" in colored and "[cat]" not in colored
    assert texts(view, Options()).count("cat") == 12


def test_running_text_can_be_asked_for_and_has_a_block_for_each_query() -> None:
    view = grid(["a", "b", "c"], 1, 2)
    assert heatmap(view, with_look(running_text=True)).decode().count("attends to") == 6
    assert len([one for one in texts(view, with_look(running_text=True)) if "attends to" in one]) == 6


def test_a_computation_has_its_diagram_and_its_numbers_or_the_diagram_alone() -> None:
    both, alone = texts(steps(), Options()), texts(steps(), with_look(numbers=False))
    assert {"Q = x·W_Q", "2. Softmax", "0.750"} <= set(both)
    assert "Q = x·W_Q" in alone and "2. Softmax" not in alone


@pytest.mark.parametrize("style", STYLES)
def test_no_box_of_a_diagram_leaves_the_page(style: str) -> None:
    figure = build(steps("a rather long token" * 2), Options(look=STYLES[style]))
    for axes in figure.axes:
        left, right = axes.get_xlim()
        assert all(
            left <= box.get_x() <= box.get_x() + box.get_width() <= right + 1e-6 for box in axes.patches
        )
