from pathlib import Path

import pytest

from attncli.errors import ModelError, UsageError
from attncli.models.folders import cached_models, fetch_file, hub_cache, missing_model, resolve_model_folder

VARIABLES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HF_HUB_OFFLINE")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the machine, and a home of our own."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def cache_model(name: str, commit: str = "c0ffee") -> Path:
    """Lay out a model as huggingface_hub does."""
    folder = hub_cache() / f"models--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    return snapshot


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "{home}/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x", "HF_HOME": "~/hf"}, "{home}/hf/hub"),
        ({"HF_HOME": "/hf", "HF_HUB_CACHE": "$HOME/c"}, "{home}/c"),
        ({"HF_HOME": "/hf", "HUGGINGFACE_HUB_CACHE": "/old"}, "/old"),
        ({"HF_HUB_CACHE": "", "HF_HOME": "/hf"}, "/hf/hub"),
    ],
)
def test_the_cache_is_where_the_hubs_client_keeps_it(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert hub_cache() == Path(expected.format(home=tmp_path))


def test_a_cached_model_is_found_by_name_revision_and_commit() -> None:
    snapshot = cache_model("org/tiny-bert")
    assert resolve_model_folder("org/tiny-bert") == snapshot
    assert resolve_model_folder("org/tiny-bert", "c0ffee") == snapshot
    assert resolve_model_folder("org/tiny-bert", "v2") is None
    assert resolve_model_folder("org/other") is None


def test_cached_models_are_named_as_on_the_hub_and_only_whole_ones() -> None:
    cache_model("org/tiny-bert")
    cache_model("gpt2")
    (hub_cache() / "models--half--done").mkdir()
    (hub_cache() / "datasets--org--texts").mkdir()
    assert cached_models() == ["gpt2", "org/tiny-bert"]


def test_without_a_cache_there_are_no_models() -> None:
    assert cached_models() == []


def test_a_folder_goes_before_a_name_of_the_hub(tmp_path: Path) -> None:
    cache_model("org/tiny")
    (tmp_path / "org" / "tiny").mkdir(parents=True)
    assert resolve_model_folder("org/tiny") == Path("org/tiny")


@pytest.mark.parametrize("name", ["./all-minilm", "all/mini/lm", "~/all-minilm", "models/minilm"])
def test_a_mistyped_folder_is_no_model_of_the_hub(name: str, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    with pytest.raises(ModelError, match=r"the folder .* does not exist"):
        resolve_model_folder(name)


def test_a_mistyped_folder_is_told_its_nearest_neighbour(tmp_path: Path) -> None:
    (tmp_path / "all-minilm-l6-v2").mkdir()
    with pytest.raises(ModelError) as caught:
        resolve_model_folder("./all-minilm-l6-v3")
    assert caught.value.hint == 'did you mean "all-minilm-l6-v2"?'
    assert caught.value.exit_code == 4


def test_a_folder_in_no_folder_says_which_is_missing() -> None:
    with pytest.raises(ModelError) as caught:
        resolve_model_folder("./nowhere/minilm")
    assert caught.value.hint == "nor does nowhere"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"")
    with pytest.raises(ModelError, match="is a file"):
        resolve_model_folder("model.bin")


@pytest.mark.parametrize(
    ("name", "reason"), [("x" * 5000, "File name too long"), ("~no-such-user/x", "home directory")]
)
def test_a_folder_that_cannot_be_looked_at_is_a_model_error(name: str, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        resolve_model_folder(name)


def test_a_model_that_is_not_here_is_answered_with_one_that_is() -> None:
    assert missing_model("gpt3").hint == "give a folder, or the name of a model that can be downloaded"
    cache_model("gpt2")
    assert missing_model("gpt3").hint == 'did you mean "gpt2"?'


def test_nothing_is_fetched_when_the_hub_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(
        ModelError, match=r"model gpt2: no such folder, not in .*, and the hub cannot be reached"
    ):
        fetch_file("gpt2", "tokenizer.json")


def test_a_hub_that_does_not_answer_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_name(*arguments: object) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", no_name)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelError, match="the hub cannot be reached"):
        fetch_file("gpt2", "tokenizer.json")


def test_an_older_sentence_transformers_folder_leads_to_the_model_inside(tmp_path: Path) -> None:
    (tmp_path / "st" / "0_Transformer").mkdir(parents=True)
    modules = tmp_path / "st" / "modules.json"
    modules.write_text('[{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]')
    assert resolve_model_folder("./st") == Path("st/0_Transformer")
    modules.write_text('[{"path": "../elsewhere", "type": "sentence_transformers.models.Transformer"}]')
    (tmp_path / "elsewhere").mkdir()
    assert resolve_model_folder("./st") == Path("st")
    modules.write_text('{"path": 3}')
    with pytest.raises(ModelError, match=r"modules.json cannot be read as a list of modules"):
        resolve_model_folder("./st")


def test_a_gguf_file_is_a_model_without_a_folder(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    assert resolve_model_folder("./m.gguf") == Path("m.gguf")


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_told_as_such(name: str) -> None:
    with pytest.raises(UsageError, match="the model's name is empty"):
        resolve_model_folder(name)
