"""A long text in windows is held against each window run by itself, through the model's own eager attention."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncli.errors import UsageError
from attncli.models.loading import load
from attncli.models.pretrained import PretrainedSource
from attncli.models.windows import Frame, StridedSource, _Placed, stride_over
from attncli.observers.masks import MaskOnly
from attncli.observers.pooled import PooledPicture
from attncli.observers.selection import parse_selection
from attncli.observers.strongest import StrongestKeys
from attncli.observers.weights import FullWeights
from attncli.record import AttentionLayer, Request, WeightBlock

TEXT = "the animal was too tired . it did cross the animal . was it too tired the it . the animals did ."
EVERY = parse_selection("all", "layer"), parse_selection("all", "head")


def strided(folder: Path | str, stride: int, text: str = TEXT) -> StridedSource:
    source = stride_over(load(str(folder)), text, stride)
    assert isinstance(source, StridedSource)
    return source


def kept(source: StridedSource, **more: Any) -> FullWeights:
    (kind,) = source.kinds
    size = len(source.tokens)
    found = FullWeights(kind, *EVERY, source.depth(kind), size, size, **more)
    source.run([found])
    return found


def by_hand(source: StridedSource, limit: int, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Run every window through eager attention; a later window overwrites nothing that an earlier one has given."""
    lead, tail, total = source.frame.lead, source.frame.tail, source.frame.total
    ids = source.inputs["input_ids"][0].tolist()
    text, room = ids[lead : total - tail], limit - lead - tail
    source.first.loaded.model.set_attn_implementation("eager")
    weights = allowed = None
    done: set[int] = set()
    for start in range(0, len(text), stride):
        part = text[start : start + room]
        window = ids[:lead] + part + ids[total - tail :]
        with torch.no_grad():
            found = source.first.loaded.model(torch.tensor([window]), output_attentions=True).attentions
        maps = torch.stack(found)[:, 0].numpy()  # (layers, heads, window, window)
        if weights is None:
            weights = np.zeros((*maps.shape[:2], total, total), np.float32)
            allowed = np.zeros((total, total), bool)
        columns = [*range(lead), *range(lead + start, lead + start + len(part)), *range(total - tail, total)]
        is_last = start + room >= len(text)
        for here, row in enumerate(columns):
            if row in done or (row >= total - tail and not is_last):
                continue
            weights[:, :, row, columns] = maps[:, :, here]
            allowed[row, columns] = maps[0, 0, here] > 0
            done.add(row)
        if is_last:
            break
    source.first.loaded.model.set_attn_implementation("sdpa")
    return weights, allowed


@given(st.integers(1, 40), st.integers(0, 2), st.integers(0, 2), st.integers(1, 9), st.data())
def test_each_row_is_given_once_by_the_first_window_that_holds_its_token(
    text: int, lead: int, tail: int, room: int, data: st.DataObject
) -> None:
    stride = data.draw(st.integers(1, room))
    windows = Frame(lead + text + tail, lead, tail).windows(room + lead + tail, stride)
    rows = [row + w.shift for w in windows for row in w.rows]
    assert rows == list(range(lead + text + tail))
    assert all(w.shift == i * stride and w.length <= room + lead + tail for i, w in enumerate(windows))


@pytest.mark.parametrize("stride", [1, 5, 13])
def test_an_encoders_windows_have_special_tokens_of_their_own(tiny_bert: str, stride: int) -> None:
    source = strided(tiny_bert, stride)
    assert (source.frame.lead, source.frame.tail, source.frame.total) == (1, 1, 26)
    weights, allowed = by_hand(source, 16, stride)
    for matrix in kept(source).matrices():
        np.testing.assert_allclose(matrix.values, weights[matrix.layer, matrix.head], atol=1e-6)
        np.testing.assert_array_equal(matrix.allowed, allowed)
        np.testing.assert_allclose(matrix.values.sum(1), 1.0, atol=1e-5)


@pytest.mark.parametrize("stride", [3, 10])
def test_a_decoders_windows_start_anew_and_positions_are_true(tmp_path: Path, stride: int) -> None:
    source = strided(tiny.write_llama(tmp_path, max_position_embeddings=10), stride)
    weights, allowed = by_hand(source, 10, stride)
    assert [token.position for token in source.axes("decoder")[0]] == list(range(source.frame.total))
    for matrix in kept(source).matrices():
        np.testing.assert_allclose(matrix.values, weights[matrix.layer, matrix.head], atol=1e-6)
        np.testing.assert_array_equal(matrix.allowed, allowed)


def test_a_decoders_first_special_token_stands_before_each_window(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, processors

    folder = tiny.write_llama(tmp_path, max_position_embeddings=9)
    made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])
    made.add_special_tokens(["[CLS]"])
    made.save(str(folder / "tokenizer.json"))
    source = strided(folder, 4)
    assert (source.frame.lead, source.frame.tail) == (1, 0)
    weights, allowed = by_hand(source, 9, 4)
    for matrix in kept(source).matrices():
        np.testing.assert_allclose(matrix.values, weights[matrix.layer, matrix.head], atol=1e-6)
        np.testing.assert_array_equal(matrix.allowed, allowed)
    assert weights[0, 0, 20, 0] > 0 and not allowed[20, 1]


def test_all_observers_see_the_same_map_whatever_the_blocks(tiny_bert: str) -> None:
    source = strided(tiny_bert, 6)
    source = StridedSource(
        PretrainedSource(source.first.loaded, source.first.prepared, block_bytes=300),
        source.inputs, source.tokens, source.frame, source.windows,
    )  # fmt: skip
    depth, size = source.depth("encoder"), len(source.tokens)
    full = FullWeights("encoder", *EVERY, depth, size, size)
    top = StrongestKeys("encoder", 3, *EVERY, depth, size)
    picture = PooledPicture("encoder", *EVERY, depth, size, size, side=7)
    mask = MaskOnly("encoder", EVERY[0], depth, size, size)
    source.run([full, top, picture, mask])
    last = full.matrices()[-1]
    np.testing.assert_array_equal(top.strongest()[1].keys[2], np.argsort(-last.values, kind="stable")[:, :3])
    edges = picture.query_starts
    pooled = np.maximum.reduceat(np.maximum.reduceat(last.values, edges, axis=0), edges, axis=1)
    np.testing.assert_array_equal(picture.matrices()[-1].values, pooled)
    ((layers, allowed),) = mask.groups()
    assert layers == (0, 1)
    np.testing.assert_array_equal(allowed, last.allowed)


def test_only_windows_with_a_row_that_is_asked_for_run(
    tiny_bert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, ran = strided(tiny_bert, 4), []
    forward = PretrainedSource._forward
    monkeypatch.setattr(PretrainedSource, "_forward", lambda *a, **k: ran.append(1) or forward(*a, **k))
    part = kept(source, rows=[20, 19]).matrices()
    assert len(source.windows) == 4 and len(ran) == 2
    for ours, whole in zip(part, kept(strided(tiny_bert, 4)).matrices(), strict=True):
        np.testing.assert_allclose(ours.values, whole.values[[20, 19]], atol=1e-7)


def test_the_model_stops_in_every_window_behind_the_layer_that_is_asked_for(tiny_bert: str) -> None:
    source = strided(tiny_bert, 4)
    size, first = len(source.tokens), parse_selection("0", "layer")
    alone = FullWeights("encoder", first, EVERY[1], source.depth("encoder"), size, size)
    run = source.run([alone])
    assert run.stopped and {layer.index for layer in run.attention_layers} == {0}
    whole = [matrix for matrix in kept(source).matrices() if matrix.layer == 0]
    for ours, theirs in zip(alone.matrices(), whole, strict=True):
        np.testing.assert_array_equal(ours.values, theirs.values)


def test_every_windows_numbers_are_checked_and_the_worst_is_told(tiny_bert: str) -> None:
    source = strided(tiny_bert, 6)
    found = FullWeights("encoder", *EVERY, 2, source.frame.total, source.frame.total)
    run = source.run([found])
    assert [report.layer.index for report in run.reports] == [0, 1]
    assert all(report.output_error is not None for report in run.reports)
    assert run.queries["encoder"] is source.tokens


def test_a_text_that_fits_is_read_at_once(tiny_bert: str) -> None:
    assert isinstance(stride_over(load(tiny_bert), "the animal", 4), PretrainedSource)


def test_a_special_token_that_stands_in_the_text_is_of_the_text(tiny_bert: str) -> None:
    source = strided(tiny_bert, 4, f"[CLS] {TEXT} [SEP]")
    assert (source.frame.lead, source.frame.tail) == (1, 1)


def test_strides_that_leave_gaps_and_models_of_two_stacks_are_refused(
    tiny_bert: str, tiny_marian: str
) -> None:
    with pytest.raises(UsageError, match=r"a window holds 14 \(the model's 16 less \[CLS\] and \[SEP\]\)"):
        stride_over(load(tiny_bert), TEXT, 15)
    with pytest.raises(UsageError, match="is an encoder–decoder"):
        stride_over(load(tiny_marian), TEXT, 4)


class Seen:
    """Keeps the blocks it is shown."""

    def __init__(self, rows: range | None = None) -> None:
        self.rows, self.blocks = rows, []

    def request(self, layer: AttentionLayer) -> Request:
        return Request(None, self.rows)

    def update(self, block: WeightBlock) -> None:
        self.blocks.append(block)


@pytest.mark.parametrize(("lead", "width"), [(1, 9), (0, 4)])
def test_what_a_moved_block_holds_is_as_wide_as_its_weights(lead: int, width: int) -> None:
    layer, frame, seen = AttentionLayer("encoder", 0, 1, 1), Frame(9, lead, 0), Seen()
    window = frame.windows(4, 2)[1]
    scores = torch.arange(16.0).view(1, 1, 4, 4)
    sums = torch.tensor([[[1.0, 2, 3, 4]]])
    block = WeightBlock(layer, (0,), range(4), scores.softmax(-1), None, scores=scores, sums=sums)
    _Placed(seen, frame, window).update(block)
    (moved,) = seen.blocks
    rows = len(window.rows)
    assert moved.weights.shape == (1, 1, rows, width) and moved.sums.tolist() == [[[1, 2, 3, 4][-rows:]]]
    assert moved.scores is None or moved.scores.shape == moved.weights.shape
    assert (moved.scores is None) == bool(lead)


def test_a_window_is_asked_only_for_the_rows_that_are_wanted_of_it() -> None:
    layer, frame = AttentionLayer("encoder", 0, 1, 1), Frame(9, 0, 0)
    first, second = frame.windows(4, 2)[:2]
    placed = _Placed(Seen(range(3, 6)), frame, first)
    assert placed.request(layer).rows == range(3, 4) and placed.wants_rows()
    placed.window = second
    assert placed.request(layer).rows == range(2, 4)  # rows 4 and 5 of the whole
    placed.window = frame.windows(4, 2)[2]
    assert not placed.wants_rows()
