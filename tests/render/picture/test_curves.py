from __future__ import annotations

import json
from itertools import pairwise

import pytest
from matplotlib.text import Text
from render_samples import curves

from attncli import registry
from attncli.render import Options
from attncli.render.picture.curves import draw_curves, spread_out


def rendered(name: str, **options: object) -> str:
    return registry.load("formats", name).render(curves(), Options(**options)).decode()


def test_programs_get_the_rows_and_the_document() -> None:
    assert rendered("csv") == "variant,median\r\nfull,0.0012\r\nlinear,4.4e-05\r\n"
    assert rendered("table").splitlines()[0] == "variant\tmedian"
    assert [json.loads(line)["variant"] for line in rendered("ndjson").splitlines()] == ["full", "linear"]
    document = json.loads(rendered("json"))
    assert (document["command"], document["complete"], len(document["cells"])) == ("bench", True, 1)


def test_people_get_aligned_tables_with_titles_and_notes() -> None:
    lines = rendered("table", terminal=True, width=60).splitlines()
    assert lines[0] == "attention, causal" and lines[-1] == "note: it was noisy"
    assert "   n  variant    time" in lines and " 512  full     1.2 ms" in lines
    assert "\\xb5" not in rendered("table", terminal=True, unicode=False)


def test_markdown_aligns_written_numbers_to_the_right() -> None:
    assert "| ---: | --- | ---: |" in rendered("md") and "**time and memory**" in rendered("md")


def test_a_picture_names_every_curve_and_slope() -> None:
    text = rendered("svg")
    for word in ("full  n²", "linear  n¹·⁵", "peer", "1 MiB", "1 s", "2,048", "n²", "it was noisy"):
        assert f">{word}<" in text, word


def test_curves_keep_their_colour_from_plot_to_plot_and_names_do_not_touch() -> None:
    figure = draw_curves(curves(("one", "two", "three", "four")), Options())
    colors = [[line.get_color() for line in axes.lines[:4]] for axes in figure.axes]
    assert colors[0] == colors[1] and len(set(colors[0])) == 4


def test_lines_to_names_end_before_them_and_no_slope_is_named_over_a_point() -> None:
    figure = draw_curves(curves(("one", "two", "three", "four")), Options())
    figure.canvas.draw()
    for axes in figure.axes:
        right = max(axes.transData.transform((line.get_xdata()[-1], 1))[0] for line in axes.lines[:4])
        for text in axes.texts:
            if text.arrow_patch is not None:
                line = text.arrow_patch.get_path().vertices[:, 0]
                assert line.max() <= Text.get_window_extent(text).x0
            elif text.get_text() == "n²":
                assert text.get_window_extent().x0 > right


@pytest.mark.parametrize("places", [[0.5, 0.5, 0.5], [0.1, 0.9], [0.9, 0.1, 0.12], [0.3] * 20])
def test_places_are_spread_out_in_their_order(places: list[float]) -> None:
    found = spread_out(places, 0.04)
    assert sorted(range(len(places)), key=lambda i: (places[i], i)) == sorted(
        range(len(places)), key=lambda i: found[i]
    )
    ordered = sorted(found)
    assert all(b - a >= 0.04 - 1e-9 for a, b in pairwise(ordered))
