from __future__ import annotations

import pytest
from render_samples import curves, grid, mask, ranking, signed, steps, table, variants

from attncli import registry
from attncli.render import Options

VIEWS = {
    "MatrixGrid": [
        signed(3),
        variants(3),
        grid(["a", "b"], 2, 3, causal=True),
        grid(["a", "b", "c"], top=2),
        mask(4, 2),
    ],
    "Table": [table(("a", "b"))],
    "Curves": [curves()],
    "HeadRanking": [ranking(), ranking(unit="bits", largest=4.2), ranking(low=-0.4)],
    "Steps": [steps()],
}
FORMATS = registry.entries("formats")


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_says_what_its_folder_asks(name: str) -> None:
    attributes = FORMATS[name].attributes
    needed = {"suffixes", "views", "binary"}
    assert needed <= set(attributes) <= needed | {"draws", "notes", "bytes_per_weight"}
    assert all(suffix.startswith(".") for suffix in attributes["suffixes"])
    assert set(attributes["views"]) <= set(VIEWS)
    assert isinstance(attributes["binary"], bool)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_gives_the_same_bytes_for_each_view_it_names(name: str) -> None:
    module = registry.load("formats", name)
    for view in (view for kind in FORMATS[name].attributes["views"] for view in VIEWS[kind]):
        drawn = module.render(view, Options(dpi=40))
        assert drawn and drawn == module.render(view, Options(dpi=40))
        if not FORMATS[name].attributes["binary"]:
            assert drawn.decode("utf-8").endswith("\n")


def test_no_two_formats_claim_one_suffix() -> None:
    suffixes = [suffix for entry in FORMATS.values() for suffix in entry.attributes["suffixes"]]
    assert len(suffixes) == len(set(suffixes))
    assert {".json", ".ndjson", ".jsonl", ".csv", ".tsv", ".npz", ".md", ".png", ".svg", ".pdf"} <= set(
        suffixes
    )


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_that_cannot_draw_a_view_says_so(name: str) -> None:
    from attncli.errors import UsageError

    if "Table" not in FORMATS[name].attributes["views"]:
        with pytest.raises(UsageError, match="gives a table"):
            registry.load("formats", name).render(VIEWS["Table"][0], Options())
