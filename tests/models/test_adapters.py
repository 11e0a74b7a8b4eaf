import json
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from commandline import Cli
from safetensors.torch import load_file, save_file

from attncli.errors import ModelError
from attncli.models.loading import LoadOptions, load
from attncli.models.pretrained import open_model

RANK, ALPHA = 2, 16
NAMES = [f"layers.{layer}.self_attn.{name}" for layer in range(3) for name in ("q_proj", "k_proj")]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tiny.write_llama(tmp_path / "base")


def write_adapter(
    folder: Path, base: Path | str, change: dict[str, Any] | None = None, width: int = 32
) -> Path:
    """Write a LoRA for the queries and keys of a tiny Llama."""
    folder.mkdir(exist_ok=True)
    settings = {"peft_type": "LORA", "base_model_name_or_path": str(base), "r": RANK, "lora_alpha": ALPHA,
                "target_modules": ["q_proj", "k_proj"], "inference_mode": True}  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(settings | (change or {})))
    generator = torch.Generator().manual_seed(1)
    weights = {}
    for name in NAMES:
        rows = 32 if "q_proj" in name else 16
        weights[f"base_model.model.{name}.lora_A.weight"] = torch.randn(RANK, width, generator=generator)
        weights[f"base_model.model.{name}.lora_B.weight"] = torch.randn(rows, RANK, generator=generator)
    save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    return folder


def failure(folder: Path, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load(str(folder), LoadOptions(**options), tokenizer=False)
    assert caught.value.exit_code == 4
    return caught.value


def test_without_peft_the_command_that_installs_it_is_told(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attncli.models.adapters.find_spec", lambda name: None)
    error = failure(write_adapter(base, base))
    assert "an adapter (LORA) is there" in error.message
    assert 'pip install "attncli[peft]"' in str(error.hint) and "--no-adapter" in str(error.hint)


def test_no_adapter_looks_at_the_base(base: Path, tmp_path: Path) -> None:
    own = load_file(base / "model.safetensors")["layers.0.self_attn.q_proj.weight"]
    for folder in (write_adapter(tmp_path / "adapter", base), write_adapter(base, base)):
        loaded = load(str(folder), LoadOptions(adapter=False), tokenizer=False)
        assert torch.equal(loaded.model.layers[0].self_attn.q_proj.weight, own) and loaded.adapter is None


def test_an_adapter_without_its_base_names_both(tmp_path: Path) -> None:
    error = failure(write_adapter(tmp_path / "adapter", "./nowhere"), adapter=False)
    assert (
        "an adapter, and its base model cannot be loaded: the folder ./nowhere does not exist"
        in error.message
    )
    unnamed = failure(write_adapter(tmp_path / "other", "", {"base_model_name_or_path": None}), adapter=False)
    assert "does not name its base model" in unnamed.message


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_broken_config_of_an_adapter_is_told(base: Path, content: str) -> None:
    (base / "adapter_config.json").write_text(content)
    assert "adapter_config.json is not" in failure(base).message


def test_an_adapter_of_another_library_is_told(base: Path) -> None:
    (base / "adapter_config.json").write_text("{}")
    assert "has no peft_type" in failure(base).message


def test_an_adapter_is_applied_and_told(base: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from attncli.maps.views import source_title

    source = open_model(str(write_adapter(tmp_path / "lora", base)), "the animal")
    whole = load_file(base / "model.safetensors")
    lora = load_file(tmp_path / "lora" / "adapter_model.safetensors")
    for name in NAMES:
        a, b = (lora[f"base_model.model.{name}.lora_{side}.weight"] for side in "AB")
        wanted = whole[f"{name}.weight"] + ALPHA / RANK * b @ a
        torch.testing.assert_close(source.loaded.model.get_parameter(f"{name}.weight").detach(), wanted)
    run = source.run([])
    assert (run.source.name, run.source.adapter) == (str(base), str(tmp_path / "lora"))
    assert "the adapter (LORA) is applied: --no-adapter leaves it out" in run.notes
    assert source_title(run.source) == "base with adapter lora"


def test_an_adapter_beside_its_base_is_applied_too(base: Path) -> None:
    pytest.importorskip("peft")
    own = load_file(base / "model.safetensors")["layers.0.self_attn.q_proj.weight"]
    loaded = load(str(write_adapter(base, "./elsewhere")))
    assert not torch.equal(loaded.model.layers[0].self_attn.q_proj.weight, own)


@pytest.mark.parametrize(
    ("change", "width", "words"),
    [
        ({}, 48, "is 2×48 there, the model needs 2×32"),
        (
            {"target_modules": ["q_proj", "k_proj", "v_proj"]},
            32,
            "it does not hold layers.0.self_attn.v_proj.lora_",
        ),
        ({"target_modules": ["q_proj"]}, 32, "the model has no place for layers.0.self_attn.k_proj.lora_A"),
        ({"target_modules": ["nothing"]}, 32, "not found in the base model"),
        ({"peft_type": "UNHEARD_OF"}, 32, "peft does not know 'UNHEARD_OF'"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(
    base: Path, tmp_path: Path, change: dict[str, Any], width: int, words: str
) -> None:
    pytest.importorskip("peft")
    error = failure(write_adapter(tmp_path / "adapter", base, change, width))
    assert "the adapter does not fit its base model: " in error.message and words in error.message


def test_modules_named_from_a_model_with_its_head_are_found(base: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    change = {
        "target_modules": [f"model.{name}" for name in NAMES],
        "alpha_pattern": {"^model.layers.1.self_attn.q_proj": 0},
    }
    weights = load_file(base / "model.safetensors")
    model = load(str(write_adapter(tmp_path / "adapter", base, change)), tokenizer=False).model
    changed = {
        name
        for name in NAMES
        if not torch.equal(model.get_parameter(f"{name}.weight"), weights[f"{name}.weight"])
    }
    assert set(NAMES) - changed == {"layers.1.self_attn.q_proj"}


def test_magnitudes_of_a_dora_are_applied(base: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    folder = write_adapter(tmp_path / "adapter", base, {"use_dora": True})
    file = folder / "adapter_model.safetensors"
    sizes = {name: torch.full((32 if "q_proj" in name else 16,), 3.0) for name in NAMES}
    magnitudes = {f"base_model.model.{name}.lora_magnitude_vector": size for name, size in sizes.items()}
    save_file(load_file(file) | magnitudes, file, metadata={"format": "pt"})
    model = load(str(folder), tokenizer=False).model
    for name in NAMES:
        rows = model.get_parameter(f"{name}.weight").detach().norm(dim=1)
        torch.testing.assert_close(rows, sizes[name])


def test_a_saved_run_keeps_the_adapter(base: Path, tmp_path: Path, cli: Cli) -> None:
    pytest.importorskip("peft")
    folder, saved = write_adapter(tmp_path / "lora", base), tmp_path / "run.json"
    assert cli("show", "the animal", "-m", str(folder), "-o", str(saved)).code == 0
    made = cli("render", str(saved), "--json").json
    assert made["source"]["adapter"] == str(folder) and made["title"].startswith("base with adapter lora")
    assert made["provenance"]["original"]["peft"]
