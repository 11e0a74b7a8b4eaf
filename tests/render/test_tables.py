from __future__ import annotations

import re

import numpy as np
import pytest
from render_samples import HOSTILE, grid, header, mask, table, tokens

from attncli.labels import safe_label
from attncli.render import Options, markdown
from attncli.render import table as table_format
from attncli.view import Column, Matrix, MatrixGrid, Table


def draw(view: object, **settings: object) -> str:
    return table_format.render(view, Options(terminal=True, **settings)).decode()


def pipe(view: object) -> list[list[str]]:
    text = table_format.render(view, Options(width=40)).decode()
    return [line.split("\t") for line in text.split("\n")[:-1]]


def mark(view: object) -> str:
    return markdown.render(view, Options()).decode()


def two(top: int | None = None) -> MatrixGrid:
    values = np.array([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0]], np.float32)
    allowed = np.array([[True, False, False], [True, True, False]])
    matrix = Matrix(values, allowed, kind="decoder", layer=4, head=7)
    return MatrixGrid(header("two rows"), (matrix,), tokens(["cat", "dog"]), tokens(["x", "y", "z"]), top=top)


def test_numbers_align_under_a_rule() -> None:
    assert draw(table(("the", "sat"))) == (
        "tokens of a text\n"
        "\n"
        "text  entropy (bits)  count  special\n"
        "────────────────────────────────────\n"
        "the             0.00      0  yes\n"
        "sat             1.23      1  no\n"
    )


@pytest.mark.parametrize("width", [31, 34, 44])
def test_a_narrow_table_breaks_no_word_that_has_room(width: int) -> None:
    columns = Column("role"), Column("weight", right=True), Column("named")
    rows = (("the token before", 0.5, "previous-token, sink"), ("itself", 0.25, "self"))
    lines = draw(Table(header(), columns, rows, rows_name="heads"), width=width).split("\n")
    assert max(map(len, lines)) <= width and {"previous-token,", "before", "0.250"} <= set(
        " ".join(lines).split()
    )


def test_a_matrix_is_a_table_with_blanks_where_nothing_may_be() -> None:
    assert draw(two()) == (
        "two rows\n"
        "\n"
        "decoder L4H7 · rows attend to columns\n"
        "\n"
        "       x    y  z\n"
        "────────────────\n"
        "cat  1.0\n"
        "dog  .25  .75\n"
    )


def test_top_lists_the_strongest_keys_of_each_row() -> None:
    text = draw(two(top=2))
    assert "strongest 2 keys of each row" in text
    assert re.search(r"0  cat +0 x 1\.0\n1  dog +1 y \.75, 0 x \.25\n", text)


def test_a_wide_matrix_falls_back_to_its_strongest_keys() -> None:
    assert "strongest 5 keys" in draw(grid([f"token{index}" for index in range(40)]))


def test_the_largest_of_a_row_is_bold_only_where_there_is_colour() -> None:
    assert "\x1b[1m.75\x1b[0m" in draw(two(), color="256")
    assert "\x1b" not in draw(two(), color="none")


def test_several_matrices_follow_one_another_by_name() -> None:
    text = draw(grid(["a", "b"], 2, 2))
    assert re.findall(r"L\dH\d", text) == ["L0H0", "L0H1", "L1H0", "L1H1"]


def test_a_piped_table_is_tab_separated_and_whole() -> None:
    wide = "word " * 40
    lines = pipe(table((wide + "x", "b")))
    assert lines[0] == ["text", "entropy", "count", "special"]
    assert lines[1] == [wide + "x", "0.0", "0", "yes"]


def test_a_piped_matrix_has_every_number_in_full() -> None:
    assert pipe(two())[2] == ["decoder L4H7", "1 dog", "0.25", "0.75", "0.0"]
    assert pipe(two(top=1))[2] == ["decoder", "4", "7", "1", "1", "dog", "y", "0.75"]  # as CSV has it


@pytest.mark.parametrize("view", [grid(HOSTILE), table(HOSTILE), grid(HOSTILE, top=3)])
def test_a_piped_table_holds_no_control_character(view: object) -> None:
    text = table_format.render(view, Options()).decode()
    assert not set(text) & set(map(chr, [*range(9), *range(11, 32), *range(127, 160)]))
    assert len({line.count("\t") for line in text.split("\n")[:-1]}) == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_shown_as_its_label_and_no_markup(text: str) -> None:
    drawn = draw(table((text,)), color="truecolor", width=80)
    assert (safe_label(text) if text else "0.00") in drawn


def test_values_of_every_kind_have_words_for_people() -> None:
    rows = ((["a", "b"], None, {"x": 1}, np.float32(0.1)),)
    made = Table(header(), (Column("list"), Column("none"), Column("map"), Column("number", digits=1)), rows)
    assert draw(made).split("\n")[-2].split() == ["a,", "b", "x", "1", "0.1"]


def test_an_empty_table_says_so() -> None:
    assert "nothing to show" in draw(Table(header(), (Column("a"),), ()))


def test_a_mask_lists_ones() -> None:
    assert draw(mask(3, 2)).endswith("0  1\n1  1  1\n2     1  1\n")


def test_markdown_escapes_pipes_and_markup() -> None:
    text = mark(grid(["a|b", "*c*"]))
    assert "| query | `a\\|b` | `*c*` |" in text
    assert "| --- | ---: | ---: |" in text


@pytest.mark.parametrize("view", [grid(HOSTILE), table(HOSTILE), grid(HOSTILE, top=2), grid(HOSTILE, 1, 2)])
def test_each_markdown_row_has_as_many_cells_as_its_heading(view: object) -> None:
    for block in mark(view).split("\n\n"):
        rows = [line for line in block.split("\n") if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) <= 1


def test_markdown_lets_no_html_through() -> None:
    made = grid(["<b>x</b>", "y"], header=header("<script>alert(1)</script>", notes=("<i>",)))
    outside = re.sub(r"`[^`]*`", "", mark(made))
    assert "<" not in outside and "&lt;script&gt;" in outside


def test_markdown_shows_forbidden_cells_blank() -> None:
    assert "| `cat` | 1.00 |  |  |" in mark(two())
