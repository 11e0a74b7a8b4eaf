from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from render_samples import header, signed, tokens, variants

from attncli.labels import cells
from attncli.render import Options, csv_format, heatmap, json_format, markdown, npz, svg
from attncli.render import table as table_format
from attncli.render.grid_text import strongest_keys
from attncli.render.picture.figure import build
from attncli.render.pooling import Field, pool
from attncli.render.scales import largest_size, scale_of, signed_number, signed_scale
from attncli.render.terminal.cells import FORBIDDEN_CODE, UNDEFINED_CODE, Pen
from attncli.render.terminal.colors import diverging, diverging_color, luminance, palette_color
from attncli.view import Matrix, MatrixGrid

MODES = ("none", "16", "256", "truecolor")
ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")


def one(values: list[list[float]], allowed: list[list[bool]] | None = None, **settings: object) -> MatrixGrid:
    rows, columns = tokens(list("abcdefg")[: len(values)]), tokens(list("uvwxyz")[: len(values[0])])
    ruled = None if allowed is None else np.array(allowed)
    matrix = Matrix(np.array(values, np.float32), ruled)
    return MatrixGrid(header(), (matrix,), rows, columns, unit="signed", **settings)  # type: ignore[arg-type]


def draw(view: object, width: int = 80, color: str = "none", **more: object) -> str:
    return heatmap.render(view, Options(width, color, terminal=True, **more)).decode()  # type: ignore[arg-type]


def test_the_scale_is_symmetric_and_its_middle_is_nought() -> None:
    scale = signed_scale(4)
    places = scale.places(np.array([-4, -1, 0, 1, 4, 9], np.float32))
    np.testing.assert_allclose(places, [0, 0.25, 0.5, 0.75, 1, 1])
    np.testing.assert_allclose(scale.values_at(places), [-4, -1, 0, 1, 4, 4], atol=1e-6)


def test_the_largest_absolute_value_of_all_matrices_sets_the_scale() -> None:
    view = one([[-3, 9], [2, np.nan]], [[True, False], [True, True]])
    assert largest_size(view.matrices) == 3
    second = Matrix(np.array([[-5, 0], [0, 0]], np.float32))
    assert (scale_of(replace(view, matrices=(*view.matrices, second)))).high == 5
    assert scale_of(one([[0, 0]])).high == 1


@given(st.floats(-1e9, 1e9, width=32), st.floats(0, 1e9, width=32))
def test_a_short_number_keeps_sign_and_size(value: float, more: float) -> None:
    largest = abs(value) + more
    text = signed_number(value, largest)
    assert text.startswith("-") == (value < 0) and len(text) <= 8
    assert abs(float(text) - value) <= 0.0501 * max(abs(value), 0.1 * largest)


def test_forbidden_undefined_and_negative_cells_have_codes_of_their_own() -> None:
    field = Field(
        np.array([[-4, -1, 0, 4, np.nan, -9]], np.float32), np.array([[True, True, True, True, True, False]])
    )
    codes = Pen(Options(color="truecolor"), "signed", signed_scale(4)).codes(field)
    assert codes.tolist() == [[0, 16, 32, 64, UNDEFINED_CODE, FORBIDDEN_CODE]]


@pytest.mark.parametrize("color", MODES)
@pytest.mark.parametrize("unicode", [True, False])
def test_the_sign_is_told_in_every_cell_with_and_without_colour(color: str, unicode: bool) -> None:
    pen = Pen(Options(color=color, unicode=unicode), "signed", signed_scale(1))
    drawn = [pen.cell(code, 1) for code in pen.codes(Field(np.array([[-1, -0.3, 0, 0.3, 1]], np.float32)))[0]]
    assert len(set(drawn)) == 5 and (pen.forbidden, "") not in drawn
    assert len(pen.paints or pen.shades) % 2 == 1


def test_numbers_have_their_sign_and_fit_their_cells() -> None:
    text = draw(one([[-0.31, 0.05, 0], [0.2, -0.001, 9]], [[True, True, True], [True, True, False]]))
    assert "a *-.31  .05    0\nb  *.20  .00\n" in text
    wide = draw(one([[-1.2e-7, 3e-9]]))
    assert "a *-1.2e-7  3.0e-9\n" in wide


def test_the_legend_states_the_largest_absolute_value_and_the_form() -> None:
    for color in MODES:
        for width in (40, 80, 200):
            text = ESCAPE.sub("", draw(variants(unit="signed"), width, color))
            assert "±2.0 is the largest absolute value" in text and "signed square-root scale" in text
    assert "+/-2.0 is the largest" in draw(signed(), unicode=False)


def test_the_largest_absolute_value_of_a_row_is_bold() -> None:
    text = draw(one([[0.5, -0.7], [-0.2, 0.3]]), color="truecolor")
    assert re.findall(r"\x1b\[(?:0;)?1;[0-9;]*m([^\x1b]*)", text) == [" -.70", "  .30"]


@pytest.mark.parametrize("mode", ["256", "truecolor"])
def test_colours_darken_evenly_away_from_nought_and_go_from_blue_to_brown(mode: str) -> None:
    if mode == "truecolor":
        colors = [diverging_color(step / 64) for step in range(65)]
    else:
        colors = [palette_color(int(paint.ground.split(";")[2])) for paint in diverging(mode)]
    middle = len(colors) // 2
    light = [luminance(color) for color in colors]
    assert all(low < high for low, high in pairwise(light[: middle + 1]))
    assert all(high > low for high, low in pairwise(light[middle:]))
    assert all(blue > red and green < blue for red, green, blue in colors[: middle - 1])
    assert all(red > blue and green < red for red, green, blue in colors[middle + 2 :])


def test_the_neutral_colour_is_neither_a_black_nor_a_white_ground() -> None:
    assert 0.3 < luminance(diverging_color(0.5)) < 0.8


@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 90), st.sampled_from(MODES), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_signed_shape_fits_any_width(
    rows: int, columns: int, width: int, color: str, unicode: bool
) -> None:
    values = np.random.default_rng(rows).normal(0, 10.0 ** (columns % 12 - 6), (rows, columns))
    names = tokens([f"k{index}" for index in range(columns)])
    matrix = Matrix(values.astype(np.float32), values < 1)
    view = MatrixGrid(header(), (matrix,), names[:1] * rows, names, unit="signed")
    for form in (heatmap, table_format):
        text = form.render(view, Options(width, color, unicode, terminal=True)).decode()
        assert max(map(cells, ESCAPE.sub("", text).split("\n"))) <= max(width, 40 if form != heatmap else 20)


@given(st.integers(1, 7), st.integers(1, 11), st.integers(1, 4), st.integers(1, 5), st.integers(0, 99))
def test_pooling_keeps_the_largest_absolute_value_with_its_sign(
    rows: int, columns: int, down: int, across: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    values = generator.normal(0, 1, (rows, columns)).astype(np.float32)
    allowed = generator.random((rows, columns)) < 0.5
    cuts = range(0, rows, down), range(0, columns, across)
    pooled = pool(Field(values, allowed), *cuts)
    assert pooled.allowed is not None
    for row in range(len(cuts[0])):
        for column in range(len(cuts[1])):
            here = np.s_[row * down : (row + 1) * down, column * across : (column + 1) * across]
            kept = values[here][allowed[here]]
            assert pooled.allowed[row, column] == bool(kept.size)
            assert not kept.size or pooled.values[row, column] == max(kept, key=abs)


def test_the_strongest_keys_are_the_largest_in_absolute_value() -> None:
    rows = strongest_keys(one([[0.1, -0.9, 0.5]]).matrices[0], 2)
    assert rows[0].columns == (1, 2) and rows[0].values == pytest.approx((-0.9, 0.5))


def test_data_formats_carry_plain_numbers_below_nought() -> None:
    view = one([[-0.31, 120], [-1e-7, 0]], [[True, True], [True, False]])
    document = json.loads(json_format.render(view, Options()))
    assert (document["unit"], document["attention"][0]["weights"]) == (
        "signed",
        [[-0.31, 120.0], [-1e-7, 0.0]],
    )
    rows = list(csv.DictReader(io.StringIO(csv_format.render(view, Options()).decode(), newline="")))
    assert [row["weight"] for row in rows] == ["-0.31", "120.0", "-1e-7", "0.0"]
    with np.load(io.BytesIO(npz.render(view, Options())), allow_pickle=False) as archive:
        assert archive["signed"].dtype == np.float32 and archive["signed.allowed"].tolist()[0][1] == [
            True,
            False,
        ]
        np.testing.assert_array_equal(archive["signed"][0], view.matrices[0].values)


def test_tables_for_people_show_the_sign_and_leave_forbidden_cells_blank() -> None:
    view = one([[-0.31, 1.5], [-0.02, 7]], [[True, True], [True, False]])
    table = table_format.render(view, Options(terminal=True)).decode()
    assert table.endswith("a  -.31  1.5\nb  -.02\n")
    assert "| `a` | -.31 | 1.5 |\n| `b` | -.02 |  |" in markdown.render(view, Options()).decode()
    top = table_format.render(replace(view, top=1), Options(terminal=True)).decode()
    assert "v 1.5\n" in top and "u -.02\n" in top


def test_a_picture_diverges_symmetrically_with_a_labelled_bar() -> None:
    view = one([[-0.5, 2], [0, 1]], [[True, True], [True, False]])
    axes, bar = build(view, Options(dpi=40)).axes
    image = axes.images[0]
    assert image.norm([-2, -0.5, 0, 2]).tolist() == [0, 0.25, 0.5, 1]
    assert image.get_array().mask.tolist() == [[False, False], [False, True]]
    assert [text.get_text() for text in axes.texts] == ["-.50", "2.0"]
    assert bar.get_ylabel().startswith("effective weight")
    assert [label.get_text() for label in bar.get_yticklabels()] == ["-2.0", "-.50", "0", ".50", "2.0"]


@pytest.mark.parametrize("view", [signed(2), signed(scale=1e-5), signed(scale=1e7), variants(2, "signed")])
def test_nothing_in_a_signed_picture_is_cut_by_the_edge(view: MatrixGrid) -> None:
    figure = build(view, Options(dpi=40))
    renderer = figure.canvas.get_renderer()
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1


def test_all_zero_and_all_undefined_matrices_are_drawn() -> None:
    for value in (0.0, np.nan):
        view = one([[value, value]])
        assert "0" in draw(view) if value == 0 else "×" in draw(view)
        assert svg.render(view, Options(dpi=40))
