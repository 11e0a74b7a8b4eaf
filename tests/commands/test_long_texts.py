import json

import jsonschema
import numpy as np
import pytest
import tiny
from commandline import Cli

from attncli.models.tokens import words_of_text
from attncli.observers import weights
from attncli.record import Provenance
from attncli.render.pooling import fit_to_draw
from attncli.view import Header, Matrix, MatrixGrid

LONG = " ".join(["the animal was too tired ."] * 100)  # 600 words


def test_a_long_text_is_pooled_by_itself_for_a_terminal_and_says_so(cli: Cli) -> None:
    result = cli("show", LONG, "-m", "scratch")
    assert result.code == 0 and "show 600×600" in result.out
    assert "pooled by max: 512×512 cells show 600×600 tokens" in " ".join(result.out.split())


def test_data_formats_have_all_weights_of_a_long_text(cli: Cli, tmp_path) -> None:
    assert cli("show", LONG, "-m", "scratch", "-o", str(tmp_path / "x.npz")).code == 0
    with np.load(tmp_path / "x.npz", allow_pickle=False) as saved:
        assert saved["encoder.0"].shape == (1, 600, 600)


def test_a_pooled_map_in_json_says_what_its_cells_are_and_fits_the_schema(cli: Cli) -> None:
    document = cli("show", LONG, "-m", "scratch", "--causal", "--pool", "mean", "--json").json
    jsonschema.Draft202012Validator(cli("schema", "show").json).validate(document)
    assert document["pooled"] == {"how": "mean", "queries": 600, "keys": 600}
    assert [token["position"] for token in document["query_tokens"][:4]] == [0, 1, 2, 3]
    assert document["query_tokens"][-1]["position"] == 598


def test_a_pooled_maximum_is_the_maximum_of_the_full_weights(cli: Cli) -> None:
    pooled = np.array(
        cli("show", LONG, "-m", "scratch", "--pool", "max", "--json", "--yes-large").json["attention"][0][
            "weights"
        ]
    )
    full = np.array(
        cli("show", LONG, "-m", "scratch", "--json", "--yes-large").json["attention"][0]["weights"]
    )
    edges = [cell * 600 // 512 for cell in range(512)]
    expected = np.maximum.reduceat(np.maximum.reduceat(full, edges, axis=0), edges, axis=1)
    np.testing.assert_allclose(pooled, expected, atol=1e-6)


def test_rows_zoom_in_at_full_resolution(cli: Cli) -> None:
    document = cli("show", LONG, "-m", "scratch", "--rows", "100-120", "--json").json
    assert [token["position"] for token in document["query_tokens"]] == list(range(100, 121))
    assert document["attention"][0]["shape"] == [21, 600]


def test_rows_are_positions_and_pooling_is_of_whole_maps(cli: Cli) -> None:
    assert "--rows tired: not positions" in cli("show", "a tired b", "--rows", "tired").err
    assert "--query and --rows were both given" in cli("show", "a b", "--rows", "0", "--query", "a").err
    assert "--pool shows a whole map" in cli("show", "a b", "--rows", "0", "--pool", "max").err
    assert cli("show", "a b", "--pool", "min").code == 2


def test_a_mean_over_layers_is_pooled_by_mean(cli: Cli) -> None:
    common = ("show", LONG, "-m", "scratch", "--layers", "2", "--layer", "mean")
    assert "pooled by mean, then by max: 37×74 cells show 600×600" in " ".join(cli(*common).out.split())
    assert cli(*common, "--pool", "max").code == 2


def test_word_pieces_are_merged_and_rows_still_sum_to_one(cli: Cli, tiny_bert: str) -> None:
    document = cli("show", "the animals was", "-m", tiny_bert, "--words", "--json").json
    assert [token["label"] for token in document["key_tokens"]] == ["[CLS]", "the", "animals", "was", "[SEP]"]
    weights = np.array(document["attention"][0]["weights"])
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    assert any("word pieces merged" in note for note in document["notes"])


def test_a_picture_of_a_long_text_names_round_positions(cli: Cli, tmp_path) -> None:
    assert cli("show", LONG, "-m", "scratch", "-o", str(tmp_path / "x.svg")).code == 0
    picture = (tmp_path / "x.svg").read_text()
    assert ">100<" in picture and ">500<" in picture and json.dumps("pooled by max")[1:-1] in picture


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Collect the shapes of the matrices that Matplotlib is given."""
    from matplotlib.axes import Axes

    shapes, paint = [], Axes.imshow
    monkeypatch.setattr(
        Axes, "imshow", lambda axes, x, **how: shapes.append(x.shape) or paint(axes, x, **how)
    )
    return shapes


def test_on_every_way_to_a_picture_maps_are_pooled_before_they_are_drawn(
    cli: Cli, tmp_path, painted: list[tuple[int, ...]]
) -> None:
    png, npz = str(tmp_path / "x.png"), str(tmp_path / "x.npz")
    for arguments in (
        ("show", LONG, "-m", "scratch", "-o", png, "-o", npz),
        ("render", npz, "-o", png),
        ("render", npz, "--top", "3", "-o", png, "-o", str(tmp_path / "x.csv")),
        ("show", LONG, "-m", "scratch", "--top", "3", "-o", png, "-o", str(tmp_path / "x.csv")),
        ("show", LONG, "-m", "scratch", "--rows", "20-579", "-o", png),
        ("show", LONG, "-m", "scratch", "--words", "-o", png),
        ("mask", "causal", "-n", "600", "-o", png, "-o", npz),
    ):
        assert cli(*arguments).code == 0
        assert painted == [(512, 512)], arguments
        painted.clear()


def test_many_long_maps_are_pooled_and_a_short_axis_stays_whole(
    cli: Cli, tmp_path, painted: list[tuple[int, ...]]
) -> None:
    picture = ("-o", str(tmp_path / "x.png"), "-o", str(tmp_path / "x.npz"))
    assert cli("show", LONG, "-m", "scratch", "--heads", "2", "--rows", "3-9", *picture).code == 0
    assert len(painted) == 2 and {(rows, columns <= 512) for rows, columns in painted} == {(7, True)}


def test_a_long_axis_is_pooled_beside_a_short_one_whose_tokens_stay() -> None:
    few, many = words_of_text("a b c"), words_of_text(" ".join(f"w{n}" for n in range(700)))
    values = np.zeros((3, 700), np.float32)
    values[1, 699] = 0.5
    header = Header(command="show", title="", provenance=Provenance("0"))
    drawn = fit_to_draw(MatrixGrid(header, (Matrix(values),), few, many))
    assert drawn.query_tokens == few and len(drawn.key_tokens) == 512
    assert (
        np.argwhere(drawn.matrices[0].values).tolist() == [[1, 511]] and drawn.key_tokens[-1].label == "698"
    )
    assert drawn.header.notes == (
        "pooled by max: 3×512 cells show 3×700 tokens; a label is its cell's first position",
    )
    assert fit_to_draw(MatrixGrid(header, (Matrix(values[:, :512]),), few, many[:512])).header.notes == ()


def test_a_picture_beside_a_list_needs_no_whole_map_and_changes_neither(
    cli: Cli, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, whole = [], weights.FullWeights
    monkeypatch.setattr(
        weights, "FullWeights", lambda *args, **named: kept.append(args[6:8]) or whole(*args, **named)
    )
    common = ("show", LONG, "-m", "scratch", "--top", "3")
    assert cli(*common, "-o", str(tmp_path / "x.svg"), "-o", str(tmp_path / "x.csv")).code == 0
    assert kept == [(None, [0])]
    assert (tmp_path / "x.csv").read_bytes() == cli(*common, "-f", "csv").out.encode()
    assert "pooled by max: 512×512 cells show 600×600 tokens" in (tmp_path / "x.svg").read_text()


WINDOWED = " ".join(["the animals was too tired ."] * 5)  # 37 tokens for a model that reads 16


def test_a_text_beyond_the_models_window_is_offered_both_ways_out(cli: Cli, tiny_bert: str) -> None:
    result = cli("show", WINDOWED, "-m", tiny_bert)
    assert result.code == 2 and "--truncate cuts it to 16" in result.err and "--stride 8" in result.err


def test_windows_are_one_map_in_every_form_and_a_note_says_how(cli: Cli, tiny_bert: str, tmp_path) -> None:
    common = ("show", WINDOWED, "-m", tiny_bert, "--stride", "8")
    document = cli(*common, "--json", "-o", str(tmp_path / "x.npz"), "-o", "-").json
    jsonschema.Draft202012Validator(cli("schema", "show").json).validate(document)
    whole = np.array(document["attention"][2]["weights"])
    assert whole.shape == (37, 37) and [t["position"] for t in document["key_tokens"]] == list(range(37))
    assert document["attention"][2]["allowed_keys"][20] == [[0, 0], [9, 22], [36, 36]]
    assert any("4 windows of up to 16 tokens that advance by 8" in note for note in document["notes"])
    with np.load(tmp_path / "x.npz", allow_pickle=False) as saved:
        np.testing.assert_array_equal(saved["encoder.0"][2], whole.astype(np.float32))
    part = cli(*common, "--rows", "20-22", "--json").json["attention"][2]["weights"]
    np.testing.assert_allclose(part, whole[20:23], atol=1e-7)
    words = cli(*common, "--words", "--json").json["attention"][2]
    np.testing.assert_allclose(np.sum(words["weights"], axis=1), 1.0, atol=1e-5)
    top = cli(*common, "--top", "2", "--json").json["attention"][2]["top"][20]
    assert [entry["key"] for entry in top] == np.argsort(-whole[20], kind="stable")[:2].tolist()


def test_the_mask_of_windows_is_shown(cli: Cli, tiny_bert: str) -> None:
    shown = cli("mask", "-m", tiny_bert, WINDOWED, "--stride", "8", "--json").json["attention"][0]
    assert np.flatnonzero(shown["allowed"][20]).tolist() == [0, *range(9, 23), 36]


def test_windows_go_with_one_text_and_a_pretrained_model(cli: Cli, tiny_bert: str, tiny_marian: str) -> None:
    for arguments, words in (
        (("-m", tiny_bert, "--stride", "8", "--truncate"), "--stride and --truncate were both given"),
        (("-m", tiny_bert, "--stride", "8", "--pair", "it"), "--stride and --pair were both given"),
        (("-m", tiny_bert, "--stride", "8", "--chat"), "--stride and --chat were both given"),
        (("-m", tiny_bert, "--stride", "0"), "must be at least 1"),
        (("-m", tiny_marian, "--stride", "8"), "is an encoder–decoder, which reads its text at once"),
        (("--stride", "8"), "--stride needs a pretrained model"),
    ):
        result = cli("show", WINDOWED, *arguments)
        assert result.code == 2 and words in result.err and len(result.err.splitlines()) <= 3, result
    assert "--stride needs --model" in cli("mask", "causal", "-n", "4", "--stride", "2").err


def test_the_mask_of_a_long_decoders_text_is_whole(cli: Cli, tmp_path) -> None:
    folder = str(tiny.write_llama(tmp_path, max_position_embeddings=1000))
    result = cli("mask", "-m", folder, LONG, "-o", str(tmp_path / "m.npz"))
    assert result.code == 0, result
    with np.load(tmp_path / "m.npz", allow_pickle=False) as saved:
        np.testing.assert_array_equal(saved["decoder"][0], np.tri(600, dtype=bool))
