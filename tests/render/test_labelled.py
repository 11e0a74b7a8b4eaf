from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from render_samples import VARIANTS, grid, header, signed, variants

from attncli.labels import cells
from attncli.render import Options, csv_format, heatmap, json_format, markdown, ndjson, npz, svg
from attncli.render import table as table_format
from attncli.render.picture.figure import build
from attncli.view import MatrixGrid

PLAIN = Options()


def draw(view: MatrixGrid, width: int = 80, **more: object) -> list[str]:
    return heatmap.render(view, Options(width, terminal=True, **more)).decode().split("\n")  # type: ignore[arg-type]


def test_labels_stand_whole_above_their_tiles_in_reading_order() -> None:
    lines = draw(variants())
    row = next(line for line in lines if line.startswith("full"))
    assert row.split() == list(VARIANTS)
    assert [row.index(name) for name in VARIANTS] == [16 * place for place in range(5)]


def test_tiles_that_do_not_fit_go_on_in_the_next_row() -> None:
    heads = [line.split() for line in draw(variants(), 40) if re.match(r"(full|sparse|dsa)\b", line)]
    assert heads == [["full", "sliding-window"], ["sparse", "linear"], ["dsa"]]


def test_labelled_tiles_are_shown_whole_where_two_fit_beside_each_other() -> None:
    assert any("30×30 each" in line for line in draw(variants(30)))
    assert any("pooled by max: 20×39 cells" in line for line in draw(variants(60)))


def test_facts_stand_between_a_label_and_its_picture() -> None:
    lines = draw(variants(), 200)
    start = next(place for place, line in enumerate(lines) if line.startswith("full"))
    assert lines[start + 1].split("  ")[0] == "relative error 0"
    assert re.findall(r"kl \S+ bits", lines[start + 2]) == [
        f"kl {0.3 * place:.3g} bits" for place in range(4)
    ]
    assert not any(line.startswith("full:") for line in lines), "no second time below"


@pytest.mark.parametrize("width", [20, 33, 40, 80, 200])
@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("unit", ["weight", "signed"])
def test_no_line_of_labelled_tiles_is_too_wide(width: int, unicode: bool, unit: str) -> None:
    hostile = replace(variants(unit=unit).matrices[0], label="\x1b[31m交通" + "long " * 9)
    view = replace(variants(unit=unit), matrices=(hostile, *variants(unit=unit).matrices[1:]))
    lines = draw(view, width, unicode=unicode)
    assert max(map(cells, lines)) <= width and "\x1b" not in "".join(lines)


def test_facts_of_unlabelled_weights_stand_below() -> None:
    one = replace(grid(["a", "b"]), facts=({"kl_bits": 0.3},))
    assert "kl 0.3 bits" in draw(one)
    many = replace(grid(["a", "b"], 2, 2), facts=({"kl_bits": 0.3},) * 4)
    assert "encoder L0H1: kl 0.3 bits" in draw(many)


def test_a_label_that_several_share_is_told_apart_by_its_head() -> None:
    made = grid(["a", "b"], 1, 2)
    shared = tuple(replace(matrix, label="full") for matrix in made.matrices)
    assert "full L0H0 full L0H1" in draw(replace(made, matrices=shared))


def test_data_formats_name_matrices_by_their_labels() -> None:
    view = variants(3)
    attention = json.loads(json_format.render(view, PLAIN))["attention"]
    assert [entry["name"] for entry in attention] == list(VARIANTS)
    assert (attention[1]["relative_error"], attention[4]["kl_bits"]) == (0.12, None)
    rows = list(csv.reader(io.StringIO(csv_format.render(view, PLAIN).decode(), newline="")))
    assert rows[0] == ["name", "kind", "layer", "head", "query", "key", "query_token", "key_token", "weight"]
    assert [row[0] for row in rows[1::9]] == list(VARIANTS)
    assert json.loads(ndjson.render(view, PLAIN).splitlines()[9])["name"] == "sliding-window"


def test_without_labels_the_columns_stay_as_they_were() -> None:
    heading = csv_format.render(grid(["a"]), PLAIN).split(b"\r\n")[0]
    assert heading == b"kind,layer,head,query,key,query_token,key_token,weight"
    assert "name" not in json.loads(ndjson.render(grid(["a"]), PLAIN).splitlines()[0])


def test_an_archives_arrays_are_called_by_the_labels() -> None:
    with np.load(io.BytesIO(npz.render(variants(3, "signed"), PLAIN)), allow_pickle=False) as archive:
        assert {"full", "sliding-window", "retention", "retention.allowed"} <= set(archive.files)
        np.testing.assert_array_equal(archive["retention"][0], signed(3).matrices[0].values)


def test_tables_and_markdown_name_matrices_by_their_labels() -> None:
    text = table_format.render(variants(), Options(terminal=True)).decode()
    assert "sliding-window · rows attend to columns · relative error 0.12 · kl 0.3 bits" in text
    piped = table_format.render(variants(), PLAIN).decode().split("\n")
    assert piped[14].split("\t")[0] == "sliding-window"
    assert "sliding-window · rows attend" in markdown.render(variants(), PLAIN).decode()


def test_panels_have_label_and_facts_above_them() -> None:
    panels = build(variants(), Options(dpi=40)).axes[:5]
    assert [axes.get_title(loc="left") for axes in panels] == list(VARIANTS)
    assert [text.get_text() for text in panels[1].texts][::-1] == [
        "relative error 0.12",
        "kl 0.3 bits",
        "max abs error 0.1",
    ]


def title_and_subtitle(view: MatrixGrid) -> list[str]:
    return [text.get_text() for text in build(view, Options(dpi=40)).texts]


def test_a_subtitle_does_not_say_again_what_the_title_says() -> None:
    told = grid(["a", "b"], header=header("bert-tiny · encoder self-attention layer 0 head 0"))
    assert " ".join(title_and_subtitle(told)) == told.header.title
    assert title_and_subtitle(replace(told, facts=({"kl_bits": 0.3},)))[-1] == "kl 0.3 bits"
    other = replace(told, header=header("bert-tiny · encoder self-attention layer 0 head 01"))
    assert title_and_subtitle(other)[-1] == "encoder L0H0"
    assert b"<svg" in svg.render(told, Options(dpi=40))
