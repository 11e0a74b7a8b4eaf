from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from render_samples import HOSTILE, grid, mask, table, tokens

from attncli.errors import UsageError
from attncli.labels import visible_controls
from attncli.record import Token
from attncli.render import Options, csv_format, json_format, ndjson, npz, tsv
from attncli.view import Matrix, MatrixGrid

PLAIN = Options()


def document(view: object) -> dict[str, object]:
    return json.loads(json_format.render(view, PLAIN))


def csv_rows(view: object, options: Options = PLAIN) -> list[dict[str, str]]:
    text = csv_format.render(view, options).decode("utf-8", "surrogatepass")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def load_npz(view: object) -> np.lib.npyio.NpzFile:
    return np.load(io.BytesIO(npz.render(view, PLAIN)), allow_pickle=False)


def small(values: list[list[float]], **settings: object) -> MatrixGrid:
    made = grid(["a", "b"], keys=["c", "d", "e"], **settings)
    return MatrixGrid(
        made.header,
        (Matrix(np.array(values, np.float32), kind="cross", layer=4, head=7, kv_head=2),),
        tokens(["a", "b"], first=5),
        tokens(["c", "d", "e"], first=10),
        **settings,
    )


def test_the_json_document_has_the_documented_keys() -> None:
    made = document(grid(["a", "b"], 1, 1))
    assert list(made) == [
        "schema",
        "command",
        "title",
        "unit",
        "source",
        "query_tokens",
        "key_tokens",
        "attention",
        "notes",
        "provenance",
    ]
    assert list(made["attention"][0]) == ["kind", "layer", "head", "shape", "weights"]
    assert list(made["query_tokens"][0]) == [
        "position",
        "id",
        "text",
        "label",
        "special",
        "start",
        "end",
        "sequence",
    ]


def test_json_weights_are_written_in_the_fewest_digits() -> None:
    text = json_format.render(small([[0.1, 0.9, 0], [1e-7, 1, 1 / 3]]), PLAIN).decode()
    assert "[[0.1, 0.9, 0.0], [1e-7, 1.0, 0.33333334]]" in text


def test_undefined_weights_become_null_and_empty() -> None:
    view = small([[np.nan, np.inf, 1], [0, 0, 1]])
    assert document(view)["attention"][0]["weights"][0] == [None, None, 1.0]
    assert [row["weight"] for row in csv_rows(view)][:3] == ["", "", "1.0"]
    lines = ndjson.render(view, PLAIN).splitlines()
    assert json.loads(lines[0])["weight"] is None


def test_the_key_value_head_is_told_where_it_differs() -> None:
    attention = document(small([[1, 0, 0], [0, 1, 0]]))["attention"][0]
    assert (attention["layer"], attention["head"], attention["kv_head"]) == (4, 7, 2)


def test_bytes_are_told_only_where_there_are_any() -> None:
    made = grid(["a", "b"])
    part = Token(0, 1, "\ufffd", "⟨F0·9F⟩", bytes="f09f")
    view = MatrixGrid(made.header, made.matrices, (part, made.query_tokens[1]), made.key_tokens)
    found = document(view)["query_tokens"]
    assert found[0]["bytes"] == "f09f" and "bytes" not in found[1]


def test_a_mask_has_whole_numbers_and_its_facts() -> None:
    attention = document(mask(5, 2))["attention"][0]
    assert attention["allowed"][3] == [0, 0, 1, 1, 0]
    assert "weights" not in attention
    assert attention["density"] == pytest.approx(9 / 25)
    assert attention["keys_per_row"] == [1, 2, 2, 2, 2]
    assert csv_rows(mask(5, 2))[0]["allowed"] == "1"


def test_json_csv_ndjson_and_npz_agree_to_the_last_bit() -> None:
    view = grid(["a", "b", "c"], 2, 3, causal=True)
    from_json = np.array([one["weights"] for one in document(view)["attention"]], np.float32)
    from_csv = np.array([row["weight"] for row in csv_rows(view)], np.float32).reshape(6, 3, 3)
    lines = ndjson.render(view, PLAIN).splitlines()
    from_ndjson = np.array([json.loads(line)["weight"] for line in lines], np.float32).reshape(6, 3, 3)
    archive = load_npz(view)
    from_npz = np.concatenate([archive["decoder.0"], archive["decoder.1"]])
    for values in (from_json, from_csv, from_ndjson, from_npz):
        np.testing.assert_array_equal(values, np.stack([one.values for one in view.matrices]))


def test_the_long_form_carries_true_positions_and_raw_texts() -> None:
    row = csv_rows(small([[1, 0, 0], [0, 0.25, 0.75]]))[5]
    expected = ["cross", "4", "7", "6", "12", "b", "e", "0.75"]
    assert list(row.values()) == expected


def test_top_lists_the_strongest_keys_in_order() -> None:
    view = small([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]], top=2)
    attention = document(view)["attention"][0]
    assert "weights" not in attention
    assert attention["top"][0] == [{"key": 11, "weight": 0.5}, {"key": 12, "weight": 0.3}]
    assert [one["key"] for one in attention["top"][1]] == [10, 11]
    assert [row["key"] for row in csv_rows(view)] == ["11", "12", "10", "11"]


def test_top_leaves_out_what_may_not_attend() -> None:
    view = grid(["a", "b", "c"], causal=True, top=2)
    assert [len(row) for row in document(view)["attention"][0]["top"]] == [1, 2, 2]


def test_npz_names_its_arrays_by_kind_and_layer() -> None:
    archive = load_npz(grid(["a", "b", "c"], 2, 3))
    assert sorted(archive.files) == [
        "encoder.0",
        "encoder.0.heads",
        "encoder.1",
        "encoder.1.heads",
        "key_tokens",
        "meta",
        "query_tokens",
    ]
    assert archive["encoder.1"].shape == (3, 3, 3) and archive["encoder.1"].dtype == np.float32
    assert archive["encoder.1.heads"].tolist() == [0, 1, 2]
    meta = json.loads(str(archive["meta"]))
    assert meta["command"] == "show" and "weights" not in meta["attention"][0]


def test_npz_keeps_what_may_not_attend_apart_from_zeros() -> None:
    archive = load_npz(grid(["a", "b", "c"], 1, 2, causal=True))
    np.testing.assert_array_equal(archive["decoder.0.allowed"][1], np.tri(3, dtype=bool))


def test_npz_of_a_mask_holds_booleans() -> None:
    archive = load_npz(mask(4, 2))
    assert archive["mask"].dtype == np.bool_ and archive["mask"].shape == (1, 4, 4)
    assert archive["mask.heads"].tolist() == [-1]


def test_npz_bytes_do_not_depend_on_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    first = npz.render(grid(["a", "b"]), PLAIN)
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert npz.render(grid(["a", "b"]), PLAIN) == first


def test_npz_has_no_form_for_a_table() -> None:
    with pytest.raises(UsageError, match="npz draws matrices"):
        npz.render(table(), PLAIN)


def test_hostile_texts_come_back_whole_from_json_and_ndjson() -> None:
    view = grid(HOSTILE)
    assert tuple(token["text"] for token in document(view)["key_tokens"]) == HOSTILE
    lines = ndjson.render(view, PLAIN).splitlines()
    assert tuple(json.loads(line)["key_token"] for line in lines[: len(HOSTILE)]) == HOSTILE
    assert json_format.render(view, PLAIN).isascii()


def test_controls_in_csv_and_tsv_are_made_visible_and_all_else_is_whole() -> None:
    found = tuple(row["key_token"] for row in csv_rows(grid(HOSTILE))[: len(HOSTILE)])
    assert found == tuple(map(visible_controls, HOSTILE))
    assert found[0] == "␛[31mred" and found[-2:] == (" the ", "") and found[8] == "⟨202E⟩gnp.exe"
    tabbed = csv.DictReader(
        io.StringIO(tsv.render(grid(HOSTILE), PLAIN).decode(), newline=""), delimiter="\t"
    )
    assert [row["key_token"] for row in tabbed][: len(HOSTILE)] == list(found)


def test_tsv_has_a_line_for_each_weight_and_quotes_a_quotation_mark() -> None:
    lines = tsv.render(grid([*HOSTILE, '"']), PLAIN).decode().split("\n")
    assert {line.count("\t") for line in lines[:-1]} == {7}
    assert len(lines) == (len(HOSTILE) + 1) ** 2 + 2
    assert '\t""""\t' in lines[len(HOSTILE) + 1]


def test_bytes_of_a_character_are_told_apart_in_the_long_form() -> None:
    cut = tuple(
        Token(i, i, "\ufffd", label, bytes=label[1:3].lower()) for i, label in enumerate(["⟨F0⟩", "⟨9F⟩"])
    )
    view = replace(grid(["a", "b"]), query_tokens=cut, key_tokens=cut)
    assert [row["key_token"] for row in csv_rows(view)][:2] == ["⟨F0⟩", "⟨9F⟩"]
    assert json.loads(ndjson.render(view, PLAIN).splitlines()[1])["key_token"] == "⟨9F⟩"


def test_csv_safe_guards_formulas_but_not_numbers() -> None:
    row = csv_rows(grid(["=cmd()", "-1"]), Options(csv_safe=True))[1]
    assert (row["query_token"], row["key_token"]) == ("'=cmd()", "'-1")
    made = table()
    rows = ((("=x"), -0.5, -3, False),)
    guarded = csv_rows(type(made)(made.header, made.columns, rows), Options(csv_safe=True))[0]
    assert list(guarded.values()) == ["'=x", "-0.5", "-3", "false"]


def test_csv_lines_end_as_the_standard_says() -> None:
    text = csv_format.render(table(("a,b", 'say "hi"')), PLAIN)
    assert text.split(b"\r\n")[1:3] == [b'"a,b",0.0,0,true', b'"say ""hi""",1.23456,1,false']


def test_a_table_in_json_has_its_rows_under_their_name() -> None:
    made = document(table(("a", "b")))
    assert made["tokens"][1] == {"text": "b", "entropy": 1.23456, "count": 1, "special": False}
    assert made["vocabulary"] == 30522


def test_numpy_numbers_in_tables_keep_their_short_form() -> None:
    assert json_format.plain(np.float32(0.1)) == 0.1
    assert json_format.plain({"a": np.arange(2), "b": float("nan")}) == {"a": [0, 1], "b": None}
