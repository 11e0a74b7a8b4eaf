"""Texts that share a forward pass are seen as if each were alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attncli.errors import CaptureError
from attncli.models.loading import load
from attncli.models.prepared_text import Prepared
from attncli.models.text_batches import OneOfMany, TextReader
from attncli.observers.masks import MaskOnly
from attncli.observers.selection import Selection, parse_selection
from attncli.observers.weights import FullWeights
from attncli.record import Kind

TEXTS = ("it was", "the animal was too tired .", "too tired too", "was it the animal ?")


def kept(source: OneOfMany, kind: Kind, layers: str, rows: list[int] | None = None) -> FullWeights:
    lengths = map(len, source.axes(kind))
    chosen = parse_selection(layers, "layer"), Selection("head")
    return FullWeights(kind, *chosen, source.depth(kind), *lengths, rows)


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_llama", "tiny_marian"])
def test_each_text_is_seen_as_if_it_were_alone(model: str, request: pytest.FixtureRequest) -> None:
    reader = TextReader(load(request.getfixturevalue(model)))
    pair = "did it" if model == "tiny_marian" else None
    sources = [reader.open(text, pair) for text in TEXTS]
    for kind in sources[0].kinds:
        together, alone = ([kept(source, kind, "all") for source in sources] for _ in range(2))
        runs = reader.run(sources, [[one] for one in together])
        for source, run, mine, its in zip(sources, runs, together, alone, strict=True):
            its_run = source.run([its])
            assert (run.notes, run.queries, run.keys) == (its_run.notes, its_run.queries, its_run.keys)
            for left, right in zip(mine.matrices(), its.matrices(), strict=True):
                np.testing.assert_allclose(left.values, right.values, atol=1e-6)
                assert (left.allowed is None) == (right.allowed is None)


def test_texts_may_be_asked_different_things(tiny_llama: str) -> None:
    reader = TextReader(load(tiny_llama))
    sources = [reader.open(text) for text in TEXTS[:2]]
    some, other = kept(sources[0], "decoder", "0", [1]), kept(sources[1], "decoder", "2")
    mask = MaskOnly("decoder", Selection("layer"), 3, *map(len, sources[0].axes("decoder")))
    reader.run(sources, [[some, mask], [other]])
    assert {one.layer for one in some.matrices()} == {0} and some.matrices()[0].shape[0] == 1
    alone = kept(sources[1], "decoder", "2")
    sources[1].run([alone])
    np.testing.assert_allclose(other.matrices()[0].values, alone.matrices()[0].values, atol=1e-6)
    ((layers, seen),) = mask.groups()
    assert layers == (0, 1, 2) and (seen == np.tri(len(seen), dtype=bool)).all()


def test_inputs_that_are_no_rows_of_tokens_are_not_padded(tiny_llama: str) -> None:
    reader = TextReader(load(tiny_llama))
    source = reader.open(TEXTS[0])
    pixels = {**source.prepared.inputs, "pixel_values": torch.zeros(1, 3, 2, 2)}
    picture = OneOfMany(source.source, Prepared(pixels, source.prepared.queries, source.prepared.keys))
    with pytest.raises(CaptureError, match="pixel_values cannot be padded"):
        reader.run([picture, picture], [[], []])
    with pytest.raises(CaptureError, match="do not have the same inputs"):
        reader.run([picture, source], [[], []])
