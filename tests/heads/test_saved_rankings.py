"""A saved ranking of heads is read back whole, or refused in one line that names the place."""

import copy
import io
import json
import math
from typing import Any

import numpy as np
import pytest

from attncli.documents.reading import read_run
from attncli.errors import ReadError
from attncli.find.document import found_of
from attncli.heads.changes import Change
from attncli.heads.rerank import Again, rank_again
from attncli.heads.scores import Head, Number
from attncli.heads.tables import Measured
from attncli.record import Provenance, SourceInfo
from attncli.render import Options, csv_format, json_format, table
from attncli.view import Header, HeadRanking

MADE = Provenance("0.1.0", argv=("heads",))
RANGE = {"mean": 0.75, "low": 0.3, "high": 0.95, "hits": 3, "rows": 4}


def heads_view() -> HeadRanking:
    """Two of six heads, with all that a ranking can have."""
    from attncli.heads.ranking import Corpus, RankingRequest
    from attncli.heads.scores import Thresholds
    from attncli.heads.similarity import HeadOverlap
    from attncli.heads.views import Answer
    from attncli.heads.views import heads_view as made
    from attncli.observers.selection import parse_selection

    def number(mean: float, null: float = 0.1) -> Number:
        return Number(mean, math.nan, null, null, math.nan, 9)

    heads = [
        Head("decoder", layer, head, head // 2, {"previous_token": number((layer + head) / 7), "entropy": number(2.5)},
             ("previous_token",) * (layer > 2), (4, 0), 0.25)
        for layer in (2, 4) for head in range(3)
    ]  # fmt: skip
    overlap = HeadOverlap("decoder", parse_selection("all", "layer"), parse_selection("all", "head"), 5)
    overlap.found = [(head.layer, head.head) for head in heads]
    overlap.products, overlap.rows = np.eye(6), 1.0
    overlap.products[0, 3] = overlap.products[3, 0] = 0.95
    changes = [Change("decoder", 2, 1, "entropy", 2.0, 2.5, math.nan, (), ("sink",))]
    corpus = Corpus(3, 40, 30, 2, 0, "content tokens")
    answer = Answer("decoder", heads, overlap, Thresholds(), corpus, SourceInfo("m", "pretrained"), {"kind": "decoder"},
                    changes=("old.json", changes))  # fmt: skip
    return made(answer, RankingRequest("previous_token", top=2), MADE)


def found_view(by: str) -> HeadRanking:
    link = {"weight": 0.5, "average": None, "excess": -0.25, "ratio": None, "place": 2}
    heads = [
        {"kind": kind, "layer": 1, "head": 2, "metrics": {"accuracy": RANGE} if by == "accuracy" else link,
         "labels": []}
        for kind in ("encoder", "cross")
    ]  # fmt: skip
    held = {"seed": 0, "kind": "encoder", "layer": 1, "head": 2, "chose": RANGE, "scored": RANGE}
    offset = {"offset": -1, **RANGE}
    maps = [
        {"kind": "encoder", "layers": [1, 3], "heads": [2], "values": [[-0.25], [None]]},
        {"kind": "cross", "layers": [1], "heads": [2], "values": [[0.1]]},
    ]
    word = {"text": "it", "start": 0, "end": 2, "word": 0, "tokens": [0, 0]}
    document: dict[str, Any] = {
        "by": by,
        "corpus": {"texts": 1, "tokens": 8, "rows": 1},
        "searched": {
            "from": word,
            "to": word,
            "distance": -1,
            "others": 2,
            "rivals": 6,
            "formula": "weight − average",
        },
        "top": None,
        "heads": heads,
        "maps": maps,
    }
    if by == "accuracy":
        searched = {"examples": "pronouns", "from": "pronouns", "to": "nouns", "pairs": 4, "left_out": 0}
        document |= {"searched": searched, "offset": offset, "held_out": {**held, "offset": offset}}
    source = SourceInfo("m", "pretrained")
    head = Header(command="find", title="found", provenance=MADE, source=source, notes=("a note",))
    return found_of(document, head)


VIEWS = {"heads": heads_view, "link": lambda: found_view("excess"), "pairs": lambda: found_view("accuracy")}


def read(document: Any) -> Any:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_run(io.BytesIO(content), "old.json")


@pytest.mark.parametrize("name", VIEWS)
def test_what_is_read_is_what_was_written(name: str) -> None:
    made = VIEWS[name]()
    back = read(json_format.render(made, Options()))
    assert isinstance(back, HeadRanking)
    assert (back.header, back.metric, back.tables) == (made.header, made.metric, made.tables)
    for ours, theirs in zip(back.maps, made.maps, strict=True):
        assert (ours.kind, ours.layers, ours.heads) == (theirs.kind, theirs.layers, theirs.heads)
        np.testing.assert_array_equal(ours.values, theirs.values)
    for render in (json_format.render, csv_format.render, table.render):
        assert render(back, Options()) == render(made, Options())


def test_a_ranking_of_some_heads_keeps_the_map_of_all() -> None:
    back = read(json_format.render(heads_view(), Options()))
    assert back.maps[0].values.shape == (2, 3) and np.isfinite(back.maps[0].values).sum() == 2
    grouped = rank_again(back, Again(groups=True), "old.json")
    assert "old.json" in back.tables[1].header.title and grouped.tables[2].rows == ((2, "L2H0, L4H0"),)


def test_a_document_of_before_maps_were_kept_is_drawn_from_the_heads_that_it_lists() -> None:
    for name in VIEWS:
        document = json.loads(json_format.render(VIEWS[name](), Options()))
        for later in ("maps", "measured", "top", "compared_to"):
            document.pop(later, None)
        back = read(document)
        assert sum(int(np.isfinite(map_.values).sum()) for map_ in back.maps) == 2


DAMAGE = [
    ("heads", "by", "charm", 'by is "charm", expected role or a metric'),
    ("heads", "heads", {}, "heads: expected list, got object"),
    ("heads", "heads.0.layer", None, "heads[0].layer: expected whole number, got null"),
    ("heads", "heads.0.layer", 3, "heads[0].head is not among those that were measured"),
    ("heads", "heads.1.kind", "cross", "heads[1].head is not among those that were measured"),
    ("heads", "heads.1.metrics.entropy", 3, "heads[1].metrics[...]: expected object, got whole number"),
    ("heads", "heads.1.metrics.entropy.mean", "x", "heads[1].metrics[...].mean: expected number | null, got text"),
    ("heads", "heads.1.metrics.entropy.null", math.inf, "heads[1].metrics[...].null: expected number <= 1e+300"),
    ("heads", "heads.1.metrics.a\x1b[31m", {}, "heads[1].metrics: expected text matching regex"),
    ("heads", "heads.1.nearest", {"layer": 1}, "heads[1].nearest.head is missing"),
    ("heads", "heads.1.labels", [3], "heads[1].labels[0]: expected text, got whole number"),
    ("heads", "measured.layers", [4, 4], "measured has a layer or head twice"),
    ("heads", "clusters", [3], "clusters[0]: expected list, got whole number"),
    ("heads", "changes.0.before", True, "changes[0].before: expected number | null, got true or false"),
    ("heads", "top", -1, "top: expected whole number >= 1"),
    ("link", "by", "charm", "by: unknown word 'charm'"),
    ("link", "heads", [], "heads: expected list of length >= 1"),
    ("link", "heads.0.kind", "x", "heads[0].kind"),
    ("link", "heads.1.metrics.weight", None, "heads[1].metrics.weight: expected number, got null"),
    ("link", "heads.1.metrics.place", 0.5, "heads[1].metrics.place: expected whole number, got number"),
    ("link", "searched", None, "searched: expected object, got null"),
    ("link", "maps.0.values", [[1]], "maps[0].values is no table"),
    ("link", "maps.0.values.1.0", "x", "maps[0].values[1][0]: expected number | null, got text"),
    ("pairs", "heads.0.metrics", {}, "heads[0].metrics.accuracy is missing"),
    ("pairs", "offset.offset", None, "offset.offset: expected whole number, got null"),
    ("pairs", "offset.high", None, "offset.high: expected number, got null"),
    ("pairs", "held_out.scored.hits", -3, "held_out.scored.hits: expected whole number >= 0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "path", "value", "words"), DAMAGE)
def test_a_damaged_ranking_is_refused_with_its_place(name: str, path: str, value: Any, words: str) -> None:
    document = json.loads(json_format.render(VIEWS[name](), Options()))
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    inner = document
    for part in way:
        inner = inner[part]
    inner[last] = copy.copy(value)
    with pytest.raises(ReadError) as caught:
        read(document)
    assert words in caught.value.message, caught.value.message


def test_what_was_measured_is_collected_from_the_heads() -> None:
    heads = [
        Head("cross", 3, 1, 1, {"entropy": Number(1, 1, 1, 1, 1, 1)}),
        Head("cross", 0, 2, 2, {"span": Number(1, 1, 1, 1, 1, 1)}),
    ]
    assert Measured.of("cross", heads) == Measured("cross", (0, 3), (1, 2), ("entropy", "span"), 2)


def test_how_many_heads_were_measured_is_kept_where_layers_differ() -> None:
    document = json.loads(json_format.render(heads_view(), Options()))
    document["measured"]["count"] = 5  # one layer has but two heads
    assert "· 1 of 5 decoder heads by" in rank_again(read(document), Again(top=1), "old.json").header.title
    del document["measured"]["count"]
    assert "· 1 of 6 decoder heads by" in rank_again(read(document), Again(top=1), "old.json").header.title


def test_groups_and_changes_are_those_of_the_heads_that_are_left() -> None:
    back = read(json_format.render(heads_view(), Options()))
    both, one = (rank_again(back, Again(layer=layer, groups=True), "old.json") for layer in ("2-4", "4"))
    assert both.document["clusters"] == back.document["clusters"] and len(both.tables) == 3
    assert (one.document["clusters"], one.document["changes"]) == ([], []) and len(one.tables) == 2
    assert one.maps[0].layers == (4,)


@pytest.mark.parametrize("key", ["corpus", "corpus.rows", "where"])
def test_what_ranking_again_needs_is_not_taken_on_trust(key: str) -> None:
    document = json.loads(json_format.render(heads_view(), Options()))
    inner, last = (document["corpus"], "rows") if "." in key else (document, key)
    inner[last] = ["x"]
    with pytest.raises(ReadError, match=f"old.json: {key}: expected"):
        rank_again(read(document), Again(where="layer < 3"), "old.json")
