"""Rankings of heads as text, picture and data."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from render_samples import ranking

from attncli import registry
from attncli.labels import cells
from attncli.render import Options
from attncli.render.picture.figure import build
from attncli.render.scales import ranking_scale
from attncli.view import Column, HeadRanking


def rendered(name: str, view: HeadRanking | None = None, **options: object) -> str:
    return registry.load("formats", name).render(view or ranking(), Options(**options)).decode()


def test_a_map_has_a_line_for_each_layer_and_a_number_for_each_head() -> None:
    view = ranking({"encoder": (6, 12)})
    lines = rendered("heatmap", view, width=80).splitlines()
    assert lines[0] == view.header.title and "rows are layers, columns are heads" in lines[1]
    first = next(line for line in lines if line.startswith("L0"))
    expected = [f"{value:.2f}"[1:] for value in view.maps[0].values[0].tolist()]
    assert [text.replace("1.0", "") for text in first.split()[1:]] == [
        "0" if text == "" else text for text in expected
    ]
    assert "blank no number" in "\n".join(lines)


@pytest.mark.parametrize("width", [24, 40, 80, 200])
@pytest.mark.parametrize("size", [(30, 9), (6, 12), (5, 64), (3, 130)])
@pytest.mark.parametrize("color", ["none", "16", "truecolor"])
def test_no_line_of_a_map_is_wider_than_the_terminal(width: int, size: tuple[int, int], color: str) -> None:
    text = rendered("heatmap", ranking({"decoder": size}), width=width, color=color)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(cells, plain.splitlines())) <= width
    assert plain.count("\nL0 ") >= 1 or plain.count("\n L0 ") >= 1


def test_ascii_has_no_other_characters() -> None:
    assert rendered("heatmap", unicode=False).isascii()


def test_shares_go_from_0_to_1_and_other_numbers_to_the_largest() -> None:
    assert ranking_scale(ranking()).of_weights
    bits = ranking(unit="bits", largest=4.2)
    assert ranking_scale(bits).high == pytest.approx(
        float(np.nanmax([np.nanmax(m.values) for m in bits.maps]))
    )
    assert ranking_scale(ranking(low=-0.4)).signed


def test_a_picture_has_a_panel_for_each_kind_and_one_scale() -> None:
    figure = build(ranking(), Options())
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["encoder", "decoder"]
    assert len(figure.axes) == 3
    assert (
        ">L2<" in rendered("svg")
        and ">H4<" in rendered("svg")
        and ">previous token (weight)" in rendered("svg")
    )


def test_what_a_place_without_a_number_means_is_said_once_and_folded() -> None:
    view = ranking({"encoder": (2, 4), "decoder": (2, 4)})
    for map_ in view.maps:
        map_.values[0, 1] = np.nan
    maps = tuple(replace(map_, gaps="not among those shown, or without a number") for map_ in view.maps)
    text = rendered("heatmap", replace(view, maps=maps), width=24, color="16")
    assert text.count("not among") == 1 and "without a" in text.partition("not among")[2]
    assert rendered("svg", replace(view, maps=maps)).count("hatched: not among") == 1
    for map_ in view.maps:
        map_.values[:] = 0.5
    assert "not among" not in rendered("svg", replace(view, maps=maps))


@pytest.mark.parametrize("rows", [2, 6, 30])
def test_the_name_of_the_scale_is_no_longer_than_its_bar(rows: int) -> None:
    view = ranking({"encoder": (rows, 4)})
    figure = build(replace(view, metric=Column("role", "strongest role", "weight")), Options())
    figure.canvas.draw()
    bar = figure.axes[-1]
    assert "strongest role (weight)" in bar.get_ylabel()
    assert bar.yaxis.label.get_window_extent().height <= bar.get_window_extent().height


def test_programs_get_the_rows_and_the_document() -> None:
    view = ranking()
    lines = rendered("csv").splitlines()
    assert lines[0] == "kind,layer,head,previous_token" and len(lines) == 1 + len(view.data.rows)
    assert rendered("table").splitlines()[0] == "kind\tlayer\thead\tprevious_token"
    first = json.loads(rendered("json"))["heads"][0]
    assert first["metrics"]["previous_token"]["mean"] == view.data.rows[0][3]
    assert json.loads(rendered("ndjson").splitlines()[0])["previous_token"] == view.data.rows[0][3]


def test_people_get_the_ranked_table_with_its_title_and_notes() -> None:
    lines = rendered("table", terminal=True, width=60).splitlines()
    assert lines[0] == ranking().header.title and lines[-1] == "note: rows: content tokens"
    assert "| kind | layer | head |" in rendered("md")


def test_bits_go_to_their_largest_even_where_that_is_below_1() -> None:
    few = ranking_scale(ranking(unit="bits", largest=0.5))
    assert not few.of_weights and few.high <= 0.5
