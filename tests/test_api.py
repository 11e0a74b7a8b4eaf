import numpy as np
import pytest
import tiny

import attncli
from attncli.errors import UsageError

TEXT = "the animal was too tired ."


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> attncli.Model:
    return attncli.open(str(tiny.write_bert(tmp_path_factory.mktemp("bert"))))


def test_weights_have_named_axes_and_are_those_of_the_command(model, cli, tmp_path) -> None:
    shown = model.show(TEXT, layer=1, head="0,2")
    assert shown.weights.shape == (2, 8, 8) and shown.axes["head"] == ["L1H0", "L1H2"]
    assert shown.axes["query"][1:3] == ["the", "animal"] and shown.allowed.all()
    path = tmp_path / "run.npz"
    cli("show", TEXT, "-m", model.name, "--layer", "1", "--head", "0,2", "-o", str(path))
    with np.load(path) as saved:
        assert (saved["encoder.1"] == shown.weights).all()


def test_a_model_is_loaded_once(model, monkeypatch) -> None:
    from attncli.models import loading

    model.show(TEXT)
    monkeypatch.setattr(loading, "load_afresh", None)
    assert model.find(TEXT, from_="tired", to="animal").rows[0]["place"] >= 1
    assert model.diff(TEXT, "it was too tired .").rows[0]["distance"] > 0
    assert {row["layer"] for row in model.heads(TEXT, by="entropy").rows} == {0, 1}
    assert model.explain(TEXT, query="tired").document["command"] == "explain"


def test_an_answer_is_saved_shown_and_tabled(model, tmp_path) -> None:
    shown = model.show(TEXT, layer=0, head=0)
    for name in ("a.png", "a.html", "a.json", "a.csv"):
        assert shown.save(tmp_path / name).stat().st_size > 100
    assert "srcdoc=" in shown._repr_html_() and "layer 0 head 0" in str(shown)
    assert shown.rows[0].keys() >= {"query", "key", "weight"}
    with pytest.raises(UsageError, match=r"ending '\.xyz'"):
        shown.save(tmp_path / "a.xyz")
    with pytest.raises(UsageError, match="no matrices"):
        _ = model.heads(TEXT).weights


def test_mistakes_are_those_of_the_command_line(model) -> None:
    with pytest.raises(UsageError) as wrong:
        model.show(TEXT, layr=1)
    assert wrong.value.hint == 'did you mean "--layer"?'
    with pytest.raises(UsageError, match="--layer 9: out of range"):
        model.show(TEXT, layer=9)


def test_a_data_frame_needs_a_library_for_it(model, monkeypatch) -> None:
    import sys
    from types import SimpleNamespace

    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UsageError, match="needs pandas or polars"):
        model.heads(TEXT).to_pandas()
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(DataFrame=list))
    assert len(model.heads(TEXT).to_pandas()) == 6


def test_without_a_model_the_shipped_one_answers() -> None:
    assert attncli.show("The cat sat.", layer=0).weights.shape[0] == 4
