"""Steps as text, as Markdown, and their diagram."""

import json

import pytest
from render_samples import steps
from rich.cells import cell_len

from attncli import registry
from attncli.render import Options
from attncli.view import Node


def drawn(name: str, **options: object) -> str:
    return registry.load("formats", name).render(steps(), Options(**options)).decode()


def test_steps_are_numbered_with_formula_shape_and_numbers() -> None:
    lines = drawn("steps").splitlines()
    assert lines[:4] == ["a row, explained", "", "1. Input", "   x   → (1, 2, 8)"]
    assert "   0 it   0.750  █████████" in lines and "   1 b    0.250  ███" in lines
    assert lines[-1] == "note: it was picked"


def test_steps_have_no_escape_without_colour_and_bold_headings_with_it() -> None:
    assert "\x1b" not in drawn("steps")
    assert "\x1b[1m2. Softmax\x1b[0m" in drawn("steps", color="16", terminal=True)


@pytest.mark.parametrize("name", ["steps", "diagram"])
@pytest.mark.parametrize("width", [24, 40, 80])
@pytest.mark.parametrize("unicode", [True, False])
def test_no_line_is_wider_than_asked_for(name: str, width: int, unicode: bool) -> None:
    text = drawn(name, width=width, unicode=unicode)
    assert max(map(cell_len, text.splitlines())) <= width
    assert unicode or text.isascii()


def test_the_diagram_forks_and_joins_and_carries_lines_past_what_they_do_not_enter() -> None:
    assert drawn("diagram").splitlines()[2:10] == [
        "                x",
        "            (1, 2, 8)",
        "    ┌───────────┼───────────┐",
        "Q = x·W_Q   K = x·W_K   V = x·W_V",
        "    └─────┬─────┘           │",
        "    softmax(Q·Kᵀ)           │",
        "          └────────┬────────┘",
        "               weights·V",
    ]


def test_two_inputs_stand_above_what_they_feed() -> None:
    from attncli.render.diagram import draw

    flow = [Node("x", ("x",)), Node("y", ("y",)), Node("q", ("q",), ("x",))]
    flow += [Node("k", ("k",), ("y",)), Node("v", ("v",), ("y",))]
    assert draw(flow, Options()) == ["x     y", "│   ┌─┴─┐", "q   k   v"]


def test_mermaid_names_each_node_and_each_line() -> None:
    lines = drawn("mermaid").splitlines()
    assert lines[0] == "flowchart TD" and '  input["x<br/>(1, 2, 8)"]' in lines
    assert "  value --> output" in lines and len(lines) == 1 + 6 + 7


def test_markdown_has_a_section_for_each_step_no_bars_and_the_diagram() -> None:
    text = drawn("md")
    assert "#### 2. Softmax\n\n`exp(score) / Σ exp(score)`\n\nWhat each key gets.\n" in text
    assert "| key | weight |\n| --- | ---: |\n| 0 it | 0.750 |" in text and "█" not in text
    assert "```mermaid\nflowchart TD\n" in text


def test_programs_get_the_document_or_one_row_for_each_key() -> None:
    assert json.loads(drawn("json"))["keys"] == [{"weight": 0.75}, {"weight": 0.25}]
    assert drawn("csv") == "key,weight\r\n0,0.75\r\n1,0.25\r\n"
    assert drawn("table") == "key\tweight\n0\t0.75\n1\t0.25\n"
