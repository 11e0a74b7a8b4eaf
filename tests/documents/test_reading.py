"""A saved run read back is the view it was written from; whatever else a file holds is told in one line."""

import io
import json
import zipfile
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from render_samples import ANIMAL, HOSTILE, PROVENANCE, grid, header, mask, table

from attncli.documents.numbers import filled
from attncli.documents.reading import load_run, read_run
from attncli.errors import ReadError, TooLargeError
from attncli.record import Provenance, SourceInfo, Token
from attncli.render import Options, json_format, npz
from attncli.view import Matrix, MatrixGrid


def written(view: Any, form: Any) -> bytes:
    return form.render(view, Options())


def read(content: bytes) -> MatrixGrid:
    return read_run(io.BytesIO(content), "run")


def same(a: MatrixGrid, b: MatrixGrid) -> None:
    names = ("kind", "layer", "head", "kv_head", "label")
    for mine, theirs in zip(a.matrices, b.matrices, strict=True):
        np.testing.assert_array_equal(mine.values, theirs.values)
        assert [getattr(mine, n) for n in names] == [getattr(theirs, n) for n in names]
        assert (mine.allowed is None) == (theirs.allowed is None)
        np.testing.assert_array_equal(mine.allowed, theirs.allowed)
    assert (a.header, a.unit, a.top, a.facts) == (b.header, b.unit, b.top, b.facts)
    shown = [
        (t.position, t.id, t.text, t.label, t.special, t.segment) for t in (*a.query_tokens, *a.key_tokens)
    ]
    assert shown == [
        (t.position, t.id, t.text, t.label, t.special, t.segment) for t in (*b.query_tokens, *b.key_tokens)
    ]


def variants() -> MatrixGrid:
    values = np.array([[0.5, -2.25, 0], [1e-7, 3, 1], [0, 0, 7]], np.float32)
    matrices = tuple(
        Matrix(values * n, values != 0, kind="encoder", label=name)
        for n, name in ((1, "full"), (2, "linear"))
    )
    made = grid(("a", "b", "c"))
    facts = tuple(
        {"relative_error": error, "kl_bits": bits, "max_abs_error": 0.5}
        for error, bits in ((0.0, None), (0.125, 0.1))
    )
    head = replace(header("two variants", "compare"), source=SourceInfo("scratch", "scratch"))
    return MatrixGrid(head, matrices, made.query_tokens, made.key_tokens, "signed", None, facts)


VIEWS = {
    "encoder": grid(),
    "decoder": grid(layers=2, heads=3, causal=True),
    "cross": grid(("a", "b"), keys=ANIMAL[:5], heads=2),
    "hostile": grid(HOSTILE),
    "mask": replace(
        mask(9, 4), facts=({"density": 0.5, "keys_per_row": {"min": 1, "median": 3.5, "max": 4}},)
    ),
    "compare": variants(),
}


@pytest.mark.parametrize("form", [npz, json_format], ids=["npz", "json"])
@pytest.mark.parametrize("name", VIEWS)
def test_what_was_written_comes_back(name: str, form: Any) -> None:
    same(read(written(VIEWS[name], form)), VIEWS[name])


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 7))
@settings(max_examples=40, deadline=None)
def test_any_weights_and_masks_survive_json_bit_for_bit(seed: int, rows: int, keys: int) -> None:
    random = np.random.default_rng(seed)
    values = random.random((rows, keys)).astype(np.float32) ** 20
    allowed = random.random((rows, keys)) < 0.6
    values[~allowed] = 0
    made = grid(ANIMAL[:rows], keys=ANIMAL[:keys])
    one = MatrixGrid(
        made.header, (Matrix(values, allowed, "cross", 3, 1),), made.query_tokens, made.key_tokens
    )
    back = read(written(one, json_format)).matrices[0]
    np.testing.assert_array_equal(back.values, values)
    assert back.allowed is None if allowed.all() else (back.allowed == allowed).all()


def test_undefined_weights_stay_undefined() -> None:
    made = grid(ANIMAL[:3])
    made.matrices[0].values[1] = np.nan
    for form in (npz, json_format):
        values = read(written(made, form)).matrices[0].values
        assert np.isnan(values[1]).all() and not np.isnan(values[[0, 2]]).any()


def test_of_a_document_with_the_strongest_keys_the_others_are_undefined() -> None:
    made = grid(ANIMAL[:5], causal=True, top=2)
    back = read(written(made, json_format))
    assert back.top == 2 and written(back, json_format) == written(made, json_format)
    assert back.matrices[0].listed is not None and back.matrices[0].values.size == 0
    whole = filled(back.matrices[0])
    known = ~np.isnan(whole.values) & np.tri(5, dtype=bool)
    assert known.sum(axis=1).tolist() == [1, 2, 2, 2, 2]
    np.testing.assert_array_equal(whole.values[known], made.matrices[0].values[known])
    np.testing.assert_array_equal(whole.allowed, made.matrices[0].allowed)


def test_a_map_too_large_to_fill_is_refused_with_the_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    back = read(written(grid(ANIMAL[:5], causal=True, top=2), json_format))
    monkeypatch.setattr("attncli.memory.UNASKED", 0)
    monkeypatch.setattr("attncli.memory.available_bytes", lambda: 100)
    with pytest.raises(TooLargeError, match=r"a map of 5×5: 125 B needed; 100 B are free"):
        filled(back.matrices[0])


def test_the_provenance_of_a_run_that_was_drawn_again_is_kept_whole() -> None:
    made = grid(header=replace(header(), provenance=Provenance("9", argv=("render",), original=PROVENANCE)))
    assert read(written(made, json_format)).header.provenance.original == PROVENANCE


def test_raw_forms_and_parts_of_a_text_are_saved() -> None:
    made = grid(("a", "b"))
    token = Token(0, 7, " the", "·the", piece="Ġthe", bytes="f0", sequence=1, segment="generated")
    both = MatrixGrid(made.header, made.matrices, (token, token), (token, token))
    assert read(written(both, json_format)).query_tokens[0] == token


def archive(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def changed(**changes: Any) -> bytes:
    """A saved run with some arrays other than they should be; None leaves one out."""
    arrays = npz.arrays(grid(ANIMAL[:4], heads=2, causal=True)) | {
        k.replace("__", "."): v for k, v in changes.items()
    }
    return archive(**{name: array for name, array in arrays.items() if array is not None})


def document(**changes: Any) -> bytes:
    made = json.loads(written(grid(ANIMAL[:2]), json_format))
    for path, value in changes.items():
        place: Any = made
        *steps, last = [int(step) if step.isdigit() else step for step in path.split("__")]
        for step in steps:
            place = place[step]
        place[last] = value
    return json.dumps(made).encode()


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("unpickled",))


PICKLED = np.array([Bomb()], dtype=object)
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "neither a JSON document nor an .npz archive"),
    "text": (b"\xff\xfe hello", "neither a JSON document"),
    "deep": (b"[" * 200_000, "neither a JSON document"),
    "other json": (b'{"a": 1}', "not attncli's"),
    "list": (b"[1, 2]", "not attncli's"),
    "table": (written(table(), json_format), "an answer of attncli tokens, which has nothing to draw"),
    "future": (document(schema=2), r"written by a later attncli \(schema 2; this one reads 1\)"),
    "other npz": (archive(a=np.zeros(3)), "no array meta"),
    "no weights": (changed(decoder__0=None), "no array decoder.0"),
    "pickle": (changed(decoder__0=PICKLED), "pickled objects"),
    "pickled meta": (archive(meta=PICKLED), "pickled objects"),
    "meta": (changed(meta=np.zeros(2)), "meta is no text"),
    "shape": (changed(decoder__0=np.zeros((2, 4, 5), np.float32)), r"shape \(2, 4, 5\), .* make \(2, 4, 4\)"),
    "heads": (changed(decoder__0=np.zeros((3, 4, 4), np.float32)), "shape"),
    "mask shape": (changed(decoder__0__allowed=np.ones((2, 4), bool)), "decoder.0.allowed has the shape"),
    "words": (changed(decoder__0=np.full((2, 4, 4), "a")), "holds <U1, expected numbers"),
    "no weights at all": (changed(decoder__0=np.full((2, 4, 4), 9, np.float32)), "expected weights from 0 to 1"),
    "infinite": (changed(decoder__0=np.full((2, 4, 4), np.inf, np.float32)), "infinite"),
    "zip": (b"PK\x03\x04 nothing more", "no readable .npz archive: truncated or damaged"),
    "ragged": (document(attention__0__weights=[[0.5], [0.5, 0.5]]), "no table of numbers"),
    "small": (document(attention__0__weights=[[1.0]]), r"shape \[1, 1\], the tokens are 2 queries and 2 keys"),
    "word": (document(attention__0__weights=[["a", 1], [0, 1]]), r"\[0\]\[0\]: expected number .*, got text"),
    "no number": (document(attention__0__weights=7), "expected list, got whole number"),
    "ranges": (document(attention__0__allowed_keys=[[[0, 5]], []]), r"allowed_keys\[0\] goes beyond the 2 keys"),
    "kind": (document(attention__0__kind="sideways"), r"attention\[0\].kind: unknown word 'sideways'"),
    "layer": (document(attention__0__layer=-1), "expected whole number >= 0"),
    "unit": (document(unit="bits"), "unit: unknown word 'bits'"),
    "token": (document(query_tokens__1__text=5), r"query_tokens\[1\].text: expected text, got whole number"),
    "position": (document(query_tokens__1__position=True), "position: expected whole number, got true or false"),
    "tokens": (document(query_tokens=[1, 2]), r"query_tokens\[0\]: expected object"),
    "provenance": (document(provenance={}), "provenance.attncli is missing"),
    "nothing": (document(attention=[]), "nothing to draw"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_saved_run_is_told_in_one_line(name: str) -> None:
    content, words = BAD[name]
    with pytest.raises(ReadError, match=words) as caught:
        read(content)
    assert "\n" not in caught.value.message and caught.value.hint


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_file_is_read_or_refused_but_never_a_bug_of_ours(data: st.DataObject) -> None:
    whole = written(grid(ANIMAL[:3], causal=True), data.draw(st.sampled_from([npz, json_format])))
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for _ in range(data.draw(st.integers(0, 3))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(read(bytes(damaged)), MatrixGrid)
    except ReadError:
        pass


def test_a_compressed_archive_is_read_too() -> None:
    made, stream = grid(ANIMAL[:4]), io.BytesIO()
    np.savez_compressed(stream, **npz.arrays(made))
    assert zipfile.ZipFile(io.BytesIO(stream.getvalue())).infolist()[0].compress_type == zipfile.ZIP_DEFLATED
    same(read(stream.getvalue()), made)


@pytest.mark.parametrize("path", ["/no/such/run.npz", "/", "~nobody-here/run.npz", "a\0b"])
def test_a_file_that_cannot_be_opened_is_told(path: str) -> None:
    with pytest.raises(ReadError):
        load_run(path)
