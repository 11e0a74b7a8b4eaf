from __future__ import annotations

import logging
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
import torch
from render_samples import ANIMAL, HOSTILE, grid, header, mask, ranking, signed

from attncli import visualize_attention
from attncli.labels import safe_label
from attncli.render import Options, pdf, png, svg
from attncli.render.picture.figure import build
from attncli.render.picture.fonts import families, picture_label

FORMATS = {"png": (png, b"\x89PNG"), "svg": (svg, b"<?xml"), "pdf": (pdf, b"%PDF")}
QUICK = Options(dpi=40)


def svg_texts(view: object) -> list[str]:
    root = ElementTree.fromstring(svg.render(view, QUICK))
    return ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("name", FORMATS)
def test_a_picture_is_the_same_bytes_each_time(name: str) -> None:
    module, start = FORMATS[name]
    first = module.render(grid(["a", "b"], 1, 2, causal=True), QUICK)
    assert first.startswith(start)
    assert module.render(grid(["a", "b"], 1, 2, causal=True), QUICK) == first
    assert b"202" not in first[:600] or name == "png"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("heads", [1, 2])
def test_hostile_tokens_draw_without_a_word(
    name: str, heads: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    hostile = header(r"$\badcmd$ </text><script>" + "\x1b[31m", notes=(r"$\frac{$",))
    with caplog.at_level(logging.DEBUG):
        FORMATS[name][0].render(grid(HOSTILE, 1, heads, header=hostile), QUICK)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert capfd.readouterr() == ("", "")


def test_svg_labels_are_text_and_no_element() -> None:
    texts = svg_texts(grid(["<script>alert(1)</script>"[:24], "$x$", "[red]"]))
    assert {"$x$", "[red]", "query", "key"} <= set(texts)
    raw = svg.render(grid(["<script>", "b"]), QUICK)
    assert b"<script" not in raw and b"http://" not in raw.split(b"<g ")[1]


def test_short_labels_below_a_picture_lie_and_long_ones_stand() -> None:
    def turned(*keys: str) -> set[float]:
        return {label.get_rotation() for label in build(grid(keys), QUICK).axes[0].get_xticklabels()}

    assert turned("a", "b", "it") == {0} and turned("a", "b", "animals") == {90}


@pytest.mark.parametrize("view", [grid(["a"]), grid(["a", "b", "c"]), grid(), signed(), signed(3), ranking()])
def test_a_scale_s_name_is_no_longer_than_the_scale(view: object) -> None:
    figure = build(view, QUICK)
    figure.set_dpi(400)  # where letters are as wide as they should be
    figure.canvas.draw()
    scale = figure.axes[-1]
    assert scale.yaxis.label.get_window_extent().height <= 1.05 * scale.bbox.height


def test_numbers_for_missing_characters_are_cut_as_other_labels_are() -> None:
    linear_b = "\U00010000"  # which no font here has
    texts = svg_texts(grid([linear_b * 9, "a"]))
    assert texts.count("U+10000" * 3 + "…") == 2, texts


def test_each_panel_has_its_name() -> None:
    names = [text for text in svg_texts(grid(["a", "b"], 2, 3)) if text.startswith("L")]
    assert names == ["L0H0", "L0H1", "L0H2", "L1H0", "L1H1", "L1H2"]


def test_tokens_stand_at_the_left_and_below_only() -> None:
    texts = svg_texts(grid(["left", "low"], 2, 3))
    assert texts.count("left") == 2 + 3


def test_long_axes_are_thinned_to_true_positions() -> None:
    words = [f"w{index}" for index in range(120)]
    texts = svg_texts(grid(words))
    assert "0 w0" in texts and "60 w60" in texts and "1 w1" not in texts


def test_a_character_without_a_font_is_told_by_number_once() -> None:
    lacking = "\U0001f9ff"
    assert picture_label(lacking) == "U+1F9FF"
    texts = svg_texts(grid([lacking, "b"]))
    assert texts.count("U+1F9FF") == 2
    assert "U+… stands for a character that no installed font has" in texts


def test_only_installed_families_are_asked_for() -> None:
    assert families()[0] == "DejaVu Sans"


def test_numbers_are_written_up_to_twenty_four_tokens() -> None:
    view = grid(["a", "b"])
    assert len(build(view, QUICK).axes[0].texts) == 4
    assert len(build(grid([str(index) for index in range(25)]), QUICK).axes[0].texts) == 0


def test_forbidden_cells_are_hatched_ground_and_have_no_number() -> None:
    axes = build(grid(["a", "b", "c"], causal=True), QUICK).axes[0]
    assert len(axes.texts) == 6 and axes.patch.get_hatch()
    np.testing.assert_array_equal(axes.images[0].get_array().mask, ~np.tri(3, dtype=bool))


def test_an_undefined_weight_is_marked() -> None:
    view = grid(["a", "b", "c"])
    view.matrices[0].values[1, 2] = np.nan
    axes = build(view, QUICK).axes[0]
    assert axes.collections[0].get_offsets().tolist() == [[2.0, 1.0]]


def test_a_mask_has_a_key_instead_of_a_scale() -> None:
    texts = svg_texts(mask(5, 2))
    assert "may attend" in texts and "may not" in texts and not any("weight" in text for text in texts)


def test_no_text_is_cut_by_the_edge_of_the_page() -> None:
    view = grid([*ANIMAL, "extraordinarily-long-token"], header=header("A rather long title " * 4))
    figure = build(view, QUICK)
    renderer = figure.canvas.get_renderer()
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= 0 and box.y0 >= 0
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
    for text in figure.texts:
        assert text.get_window_extent(renderer).x1 <= figure.bbox.x1


def test_a_long_title_over_a_small_picture_is_not_cut() -> None:
    title = "scratch (untrained) · encoder self-attention layer 0 head 0 mmmmmmmm"
    figure = build(grid(["a", "b"], header=header(title)), QUICK)
    assert figure.texts[0].get_window_extent(figure.canvas.get_renderer()).x1 <= figure.bbox.x1


def test_the_callers_settings_stay_and_play_no_part() -> None:
    import matplotlib

    plain = png.render(grid(["a", "b"]), QUICK)
    with matplotlib.rc_context({"axes.grid": True, "image.cmap": "jet", "font.size": 30}):
        assert png.render(grid(["a", "b"]), QUICK) == plain
        assert matplotlib.rcParams["font.size"] == 30


def test_pictures_never_load_pyplot() -> None:
    code = (
        "import sys; from attncli import visualize_attention as v; v([[1.0]], ['a']);"
        "print({'matplotlib.pyplot', 'torch'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"set()\n"


def test_visualize_attention_puts_keys_along_x_and_queries_along_y() -> None:
    figure = visualize_attention([[0.2, 0.8, 0], [1, 0, 0]], ["q0", "q1"], key_tokens=["k0", "k1", "k2"])
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["k0", "k1", "k2"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["q0", "q1"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("key", "query")
    assert [text.get_text() for text in axes.texts] == [".20", ".80", "1.0"]


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
def test_visualize_attention_takes_tensors_and_leaves_them_alone(kind: torch.dtype) -> None:
    weights = torch.tensor([[1.0, 0.0], [0.5, 0.5]], dtype=kind, requires_grad=True)
    figure = visualize_attention(weights, ["a", "b"], title="Mine")
    assert figure.axes[0].images[0].get_array()[1, 0] == 0.5
    assert weights.requires_grad and figure.texts[0].get_text() == "Mine"


def test_visualize_attention_tells_expected_and_got_shapes() -> None:
    with pytest.raises(ValueError, match=r"expected \(2, 2\), got \(2, 3\)"):
        visualize_attention(np.zeros((2, 3)), ["a", "b"])
    with pytest.raises(ValueError, match=r"expected \(1, 2\), got \(3,\)"):
        visualize_attention([1, 2, 3], ["a"], key_tokens=["b", "c"])


def test_picture_labels_pass_the_gate() -> None:
    assert picture_label("\u202ex") == safe_label("\u202ex")
    assert "\x1b" not in picture_label("\x1b")


def test_the_darkest_number_is_white_and_the_lightest_black() -> None:
    view = grid(["a", "b"])
    one = replace(view.matrices[0], values=np.array([[0.02, 0.98], [0.99, 0.01]], np.float32), allowed=None)
    drawn = build(replace(view, matrices=(one,)), QUICK).axes[0]
    assert [text.get_color() for text in drawn.texts] == ["white", "black", "black", "white"]
