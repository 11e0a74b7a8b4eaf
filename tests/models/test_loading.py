import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiny

from attncli.errors import ModelError, UsageError
from attncli.models.loading import LoadOptions, load


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def copy(bert: Path, tmp_path: Path) -> Path:
    for file in bert.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def failure(folder: Path | str, **options) -> ModelError | UsageError:
    with pytest.raises((ModelError, UsageError)) as caught:
        load(str(folder), LoadOptions(**options))
    assert "\n" not in caught.value.message
    return caught.value


def test_a_folder_is_loaded_with_its_tokenizer(bert: Path) -> None:
    loaded = load(str(bert))
    assert loaded.family == "bert" and not loaded.model.training
    assert loaded.tokenizer("the animal")["input_ids"] == [2, 4, 5, 3]


def test_a_missing_folder_is_told_before_anything_is_asked() -> None:
    assert "the folder ./no-such-folder does not exist" in failure("./no-such-folder").message


def test_a_hub_name_that_cannot_be_had_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    error = failure("nobody/nothing", offline=True)
    assert error.exit_code == 4
    assert "nobody/nothing" in error.message and str(tmp_path) in error.message


def test_a_folder_without_config_is_no_model(tmp_path: Path) -> None:
    assert "no config.json" in failure(tmp_path).message


def test_a_folder_without_weights_is_told(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    assert "no weights" in failure(copy).message


def test_a_folder_without_tokenizer_is_told(copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    (copy / "tokenizer_config.json").unlink()
    assert "no tokenizer" in failure(copy).message


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_truncated_weights_are_told_with_the_file(copy: Path, keep: int) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    error = failure(copy)
    assert "truncated or corrupted" in error.message and "model.safetensors" in error.message


def test_a_broken_config_is_told(copy: Path) -> None:
    (copy / "config.json").write_text("{")
    assert "config.json is not JSON" in failure(copy).message
    (copy / "config.json").write_text("[]")
    assert failure(copy).message.endswith("config.json is not a JSON object")


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{}", '{"a": 1}', '{"added_tokens": []}'])
def test_a_broken_tokenizer_is_told_with_the_file(copy: Path, content: str) -> None:
    (copy / "tokenizer.json").write_text(content)
    error = failure(copy)
    assert error.exit_code == 4
    assert f"{copy / 'tokenizer.json'} is not a readable tokenizer: " in error.message


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
def test_broken_settings_of_a_tokenizer_are_told_with_the_file(copy: Path, name: str) -> None:
    (copy / name).write_text("{")
    assert f"its {name} is not JSON (" in failure(copy).message
    (copy / name).write_text("[]")
    assert failure(copy).message.endswith(f"its {name} is not a JSON object")


def test_a_folder_has_no_revisions(bert: Path) -> None:
    error = failure(bert, revision="v2")
    assert error.exit_code == 2
    assert error.message == f"--revision v2: {bert} is a folder and has no revisions"


def test_pickled_weights_are_refused_unless_allowed(copy: Path) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    error = failure(copy)
    assert "pickle" in error.message and "--allow-pickle" in str(error.hint)
    assert load(str(copy), LoadOptions(allow_pickle=True)).family == "bert"


def test_code_that_comes_with_a_model_never_runs_unasked(copy: Path) -> None:
    config = copy / "config.json"
    text = config.read_text().replace(
        '"model_type": "bert"', '"model_type": "own", "auto_map": {"AutoConfig": "c.C"}'
    )
    config.write_text(text)
    (copy / "c.py").write_text("raise SystemExit('the code ran')")
    error = failure(copy)
    assert "custom code" in error.message and "--trust-remote-code" in str(error.hint)


def test_a_checkpoint_that_lacks_attention_weights_is_refused(copy: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(copy / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if "layer.1.attention" not in name}
    save_file(kept, copy / "model.safetensors", metadata={"format": "pt"})
    assert "the checkpoint lacks" in failure(copy).message


def test_weights_of_another_size_are_named_with_both(copy: Path) -> None:
    config = copy / "config.json"
    config.write_text(
        config.read_text().replace('"max_position_embeddings": 16', '"max_position_embeddings": 8')
    )
    error = failure(copy)
    assert "position_embeddings.weight is 16×24 in the weights, and 8×24 by config.json" in error.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "frobnicator"}, 'does not know its kind of model "frobnicator"'),
        ({"model_type": None}, "does not say which kind of model it is (model_type)"),
        ({"num_attention_heads": 0}, "transformers cannot load it: integer modulo by zero"),
        ({"num_hidden_layers": "two"}, "Field 'num_hidden_layers' expected int, got str"),
        ({"dtype": "float31"}, "transformers cannot load it: module 'torch' has no attribute 'float31'"),
    ],
)
def test_what_is_wrong_with_a_config_is_told(copy: Path, change: dict[str, object], words: str) -> None:
    config = json.loads((copy / "config.json").read_text()) | change
    kept = {name: value for name, value in config.items() if value is not None}
    (copy / "config.json").write_text(json.dumps(kept))
    error = failure(copy)
    assert error.exit_code == 4 and words in error.message


def test_a_package_that_a_model_needs_is_named_with_its_command(copy: Path) -> None:
    if find_spec("timm") is not None:
        pytest.skip("timm is installed")
    (copy / "config.json").write_text('{"architecture": "vit_small_patch16_224", "pretrained_cfg": {}}')
    error = failure(copy)
    assert error.exit_code == 4 and "requires the timm library" in error.message
    assert error.hint == "pip install timm"


def test_a_model_that_automodel_does_not_load_is_told(copy: Path) -> None:
    part = {"model_type": "bert"}
    (copy / "config.json").write_text(
        json.dumps({"model_type": "encoder-decoder", "encoder": part, "decoder": part | {"is_decoder": True}})
    )
    assert "no AutoModel for its EncoderDecoderConfig" in failure(copy).message


def test_a_gguf_file_needs_packages_that_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr("attncli.models.folder_check.find_spec", lambda name: None)
    error = failure(tmp_path / "m.gguf")
    assert error.exit_code == 4 and error.hint == 'pip install "attncli[gguf]"'


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": "float33"}, "--dtype float33"),
        ({"device": "cuda:99"}, "--device"),
        ({"attention": "spda"}, "--attention"),
    ],
)
def test_options_that_do_not_exist_are_usage_errors(bert: Path, options: dict[str, str], words: str) -> None:
    error = failure(bert, **options)
    assert words in error.message and error.exit_code == 2
