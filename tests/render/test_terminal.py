from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from render_samples import ANIMAL, HOSTILE, grid, header, mask, signed, table, tokens, variants

from attncli.errors import UsageError
from attncli.labels import cells
from attncli.render import Options, heatmap
from attncli.render import table as table_format
from attncli.render.pooling import Field, pool
from attncli.render.terminal.colors import (
    COLORMAPS,
    RGB,
    color_at,
    is_light,
    luminance,
    mask_paint,
    palette_color,
    scale,
)
from attncli.view import Matrix, MatrixGrid

ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")
MODES = ("none", "16", "256", "truecolor")
LONG = [f"word{index}" for index in range(150)]
VIEWS = {
    "one": grid(),
    "signed": signed(),
    "variants": variants(unit="signed"),
    "causal": grid(causal=True),
    "cross": grid(keys=["les", "·animaux", "ent"]),
    "long": grid(LONG, causal=True),
    "heads": grid(layers=3, heads=12),
    "layers": grid(layers=7, heads=1),
    "mask": mask(),
    "mask_long": mask(150, 40),
    "hostile": grid(HOSTILE),
    "noted": grid(["a", "b"], header=header("\x1b[31m" + "title " * 40, notes=("note " * 60, "x" * 300))),
}


def draw(view: object, width: int | None = 80, color: str = "none", **more: object) -> str:
    options = Options(width=width, color=color, terminal=True, **more)
    return heatmap.render(view, options).decode("utf-8")


def bare(text: str) -> str:
    return ESCAPE.sub("", text)


def one(values: list[list[float]], allowed: list[list[bool]] | None = None) -> MatrixGrid:
    rows, columns = tokens(list("abcdefg")[: len(values)]), tokens(list("uvwxyz")[: len(values[0])])
    ruled = None if allowed is None else np.array(allowed)
    return MatrixGrid(header(), (Matrix(np.array(values, np.float32), ruled),), rows, columns)


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("color", MODES)
@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("form", [heatmap, table_format])
def test_no_line_is_wider_than_the_terminal(
    form: object, name: str, width: int, color: str, unicode: bool
) -> None:
    options = Options(width=width, color=color, unicode=unicode, terminal=True)
    text = form.render(VIEWS[name], options).decode("utf-8")
    wide = [line for line in bare(text).split("\n") if cells(line) > width]
    assert not wide
    assert text.endswith("\n") and (unicode or text.isascii())
    assert set(bare(text)) & set(map(chr, [*range(10), *range(11, 32), *range(127, 160)])) == set()
    assert (color != "none") or "\x1b" not in text


@given(st.integers(1, 30), st.integers(1, 90), st.integers(1, 120), st.booleans(), st.sampled_from(MODES))
@settings(max_examples=60, deadline=None)
def test_any_shape_fits_any_width(rows: int, columns: int, width: int, causal: bool, color: str) -> None:
    keys = [f"k{index}" for index in range(columns)]
    view = grid([f"q{index}" for index in range(rows)], 1, 1, causal, keys)
    text = bare(draw(view, width, color))
    assert max(map(cells, text.split("\n"))) <= max(width, 20)


def test_numbers_stand_in_the_cells_and_the_largest_of_a_row_is_bold() -> None:
    view = one([[0.82, 0.18, 0.0], [0.004, 0.996, 0.0]])
    assert "a *.82 .18   0\nb  .00*1.0   0\n" in draw(view) and "* largest of its row" in draw(view)
    bold = re.findall(r"\x1b\[(?:0;)?1;[0-9;]*m([^\x1b]*)", draw(view, color="truecolor"))
    assert bold == [" .82", " 1.0"]


def test_forbidden_cells_keep_the_terminals_own_ground() -> None:
    view = one([[1.0, 0.0], [0.5, 0.5]], [[True, False], [True, True]])
    first = next(line for line in draw(view, color="truecolor").split("\n") if line.startswith("a"))
    assert first.endswith("1.0\x1b[0m")
    assert "blank may not attend" in draw(view)


def test_an_undefined_weight_is_a_cross() -> None:
    text = draw(one([[float("nan"), 0.5], [0.5, 0.5]]))
    assert "a   × *.50" in text and "× not a number" in text


def test_labels_take_turns_over_their_columns_where_numbers_stand() -> None:
    first, second = draw(grid(ANIMAL)).split("\n")[1:3]
    start = first.index("[CLS]")
    assert first.index("animal") == start + 8 and second.index("the") == start + 4


def test_long_labels_stand_upright_without_marks_of_spaces() -> None:
    names = [" extraordinarily", " so", " the"]
    lines = draw(grid(names), width=40).split("\n")
    foot = next(index for index, line in enumerate(lines) if line.split()[-1:] == ["1.0"] or ".5" in line)
    column = lines[foot - 1].index("y")
    assert "".join(line.ljust(40)[column] for line in lines[foot - 15 : foot]) == "extraordinarily"
    assert "·" not in "".join(lines[1:foot]).replace(" · ", "")


def test_a_map_taller_than_the_terminal_has_title_and_labels_at_its_foot_too() -> None:
    tall, low = (draw(grid(ANIMAL), height=height) for height in (10, 60))
    assert tall.count("[CLS]   ") == low.count("[CLS]   ") + 1
    assert tall.count("bert-tiny · encoder") == 2 and low.count("bert-tiny · encoder") == 1


def test_more_keys_than_room_are_pooled_by_maximum_and_said_so() -> None:
    view = grid(["q"] * 3, keys=[f"k{index}" for index in range(200)])
    spike = np.full((3, 200), 0.0, np.float32)
    spike[1, 137] = 1.0
    view = replace(view, matrices=(Matrix(spike),))
    text = draw(view, 80)
    assert "pooled by max: 3×67 cells show 3×200" in text
    assert text.count("█") == 2, "one in the picture, one in the scale"


def test_no_position_of_a_pooled_map_is_cut() -> None:
    lines = draw(grid(["<s>", *"x" * 300], causal=True)).split("\n")
    assert any(line.startswith("  0 <s> ") for line in lines)
    late = tuple(replace(key, position=10**6 + place) for place, key in enumerate(tokens([""] * 300)))
    late = tuple(replace(key, label=str(key.position), text=str(key.position)) for key in late)
    (ticks,) = [line for line in draw(replace(mask(300), key_tokens=late)).split("\n") if "╷" in line]
    assert all(re.fullmatch(r"╷\d{7}", tick) for tick in ticks.split()), ticks


def test_half_blocks_show_two_rows_in_a_line() -> None:
    view = grid([f"q{index}" for index in range(10)], keys=["k"] * 60)
    drawn = [line for line in draw(view, 80, "256").split("\n") if "▀" in line]
    assert len(drawn) == 5
    assert "▀" not in draw(view, 80, "256", unicode=False)


def test_twelve_heads_stand_beside_each_other_in_eighty_columns() -> None:
    lines = bare(draw(grid(layers=2, heads=12), 80, "truecolor")).split("\n")
    heading = next(line for line in lines if "H0" in line)
    assert [heading.index(f"H{head} ") for head in range(11)] == [3 + 6 * head for head in range(11)]
    assert [line[:2] for line in lines if re.match(r"L\d", line)] == ["L0", "L1"]


def test_heads_that_do_not_fit_go_into_bands() -> None:
    text = bare(draw(grid(layers=2, heads=12), 40, "truecolor"))
    headings = [line.split() for line in text.split("\n") if re.match(r" +H\d", line)]
    assert headings == [[f"H{head}" for head in range(6)], [f"H{head}" for head in range(6, 12)]]


def test_a_few_scattered_heads_stand_one_after_another() -> None:
    view = grid(layers=9, heads=9)
    picked = tuple(view.matrices[index] for index in (0, 20, 40))
    assert "L0H0" in draw(replace(view, matrices=picked)) and "L2H2" in draw(replace(view, matrices=picked))


def test_a_mask_is_filled_or_empty_with_its_facts_below() -> None:
    text = draw(mask(4, 2))
    assert "0 ■ ╌ ╌ ╌\n1 ■ ■ ╌ ╌\n2 ╌ ■ ■ ╌\n3 ╌ ╌ ■ ■\n" in text
    assert text.endswith("density 0.438 · keys per row 1–2\n")
    assert "square-root" not in text


def test_a_mask_never_uses_the_weights_scale() -> None:
    used = set(map(unreset, ESCAPE.findall(draw(mask(4, 2), color="truecolor"))))
    assert used == {"1", "0", mask_paint("truecolor").filled}


def test_title_and_reading_direction_are_always_there() -> None:
    for view in (grid(["a", "b"]), grid(["a", "b"], 2, 2)):
        text = draw(view)
        assert text.startswith("bert-tiny · encoder")
        assert "rows attend to columns" in text


def test_ascii_terminals_get_ascii_marks() -> None:
    text = draw(grid(["·the", "‿ed", "\n"], causal=True), unicode=False)
    assert "_the" in text and "##ed" in text and "\\n" in text and "bert-tiny - encoder" in text


@pytest.mark.parametrize("color", ["16", "256", "truecolor"])
def test_each_coloured_cell_sets_both_colours(color: str) -> None:
    for style in map(unreset, ESCAPE.findall(draw(grid(), color=color))):
        assert style in ("0", "1") or (re.search(r"(?:3|9)\d", style) and re.search(r"(?:4|10)\d", style))


def unreset(style: str) -> str:
    """Drop the reset in front of a style."""
    return style.removeprefix("0;")


def contrast(light: float, dark: float) -> float:
    high, low = max(light, dark), min(light, dark)
    return (high + 0.05) / (low + 0.05)


@given(st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255)))
def test_text_on_any_colour_has_enough_contrast(color: RGB) -> None:
    assert contrast(1.0 if not is_light(color) else 0.0, luminance(color)) >= 4.58


@pytest.mark.parametrize("colormap", COLORMAPS)
def test_a_larger_weight_is_always_brighter_or_on_white_darker(colormap: str) -> None:
    sign = -1 if colormap == "light" else 1
    exact = [sign * luminance(color_at(colormap, step / 63)) for step in range(64)]
    steps = [palette_color(int(paint.ground.split(";")[2])) for paint in scale(colormap, "256")]
    palette = [sign * luminance(step) for step in steps]
    assert all(low < high for low, high in pairwise(exact))
    assert len(palette) == 9 and all(low < high for low, high in pairwise(palette))


def test_an_unknown_colour_map_is_the_users_mistake() -> None:
    with pytest.raises(UsageError) as caught:
        scale("virdis", "256")
    assert caught.value.hint == 'did you mean "viridis"?'


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_pooling_keeps_the_largest_and_hides_no_undefined_value(
    rows: int, columns: int, down: int, across: int
) -> None:
    values = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    cuts = range(0, rows, down), range(0, columns, across)
    pooled = pool(Field(values), *cuts).values
    expected = [
        [values[row : row + down, column : column + across].max() for column in cuts[1]] for row in cuts[0]
    ]
    np.testing.assert_array_equal(pooled, expected)
    values[-1, -1] = np.nan
    assert np.isnan(pool(Field(values), *cuts).values[-1, -1])


def test_a_heatmap_of_a_table_is_refused() -> None:
    with pytest.raises(UsageError, match="heatmap draws matrices"):
        draw(table())


def test_heatmaps_need_neither_matplotlib_nor_torch_nor_a_console_library() -> None:
    code = "import attncli.render.heatmap, sys; print(*(set(sys.modules) & {'matplotlib', 'torch', 'rich'}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"\n"
