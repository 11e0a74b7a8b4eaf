"""A model that is partly on disk, by accelerate, gives the weights that it gives in memory."""

from pathlib import Path

import numpy as np
import pytest
import tiny
from commandline import Cli

from attncli.errors import UsageError
from attncli.models.generation import Sampling, write
from attncli.models.loading import Loaded, LoadOptions, load
from attncli.models.prepared_text import prepare
from attncli.models.pretrained import PretrainedSource
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights

TEXT = "the animal was too tired ."
ON_DISK = {"embed_tokens": "disk", "layers.0": "cpu", "layers.1": "disk", "layers.2": "cpu",
           "norm": "cpu", "rotary_emb": "cpu"}  # fmt: skip


def weights(source) -> np.ndarray:
    (kind,) = source.kinds
    size = len(source.axes(kind)[0])
    every = parse_selection("all", "layer"), parse_selection("all", "head")
    kept = FullWeights(kind, *every, source.depth(kind), size, size)
    source.run([kept])
    return np.stack([matrix.values for matrix in kept.matrices()])


def of(loaded: Loaded) -> PretrainedSource:
    return PretrainedSource(loaded, prepare(loaded, TEXT))


@pytest.fixture
def spread(tiny_llama: str, tmp_path: Path) -> Loaded:
    return load(tiny_llama, LoadOptions(device_map=ON_DISK, offload_folder=str(tmp_path)))


def test_weights_of_a_model_partly_on_disk_are_the_same(
    spread: Loaded, tiny_llama: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert caplog.text == ""
    np.testing.assert_array_equal(weights(of(spread)), weights(of(load(tiny_llama))))
    # Its layers are really not in memory.
    assert {p.device.type for p in spread.model.layers[1].parameters()} == {"meta"}


def test_where_the_model_is_is_told(spread: Loaded) -> None:
    assert (spread.devices, spread.device.type, spread.model.device.type) == ("disk, cpu", "cpu", "meta")


def test_a_model_partly_on_disk_generates(tmp_path: Path) -> None:
    from transformers import LlamaForCausalLM

    folder = tiny.write_llama(tmp_path / "m")
    LlamaForCausalLM.from_pretrained(folder).save_pretrained(folder)
    head = {f"model.{name}": place for name, place in ON_DISK.items()} | {"lm_head": "disk"}
    options = LoadOptions(device_map=head, offload_folder=str(tmp_path), head=True)
    found = []
    for loaded in (load(str(folder), options), load(str(folder), LoadOptions(head=True))):
        source = write(loaded, prepare(loaded, TEXT), Sampling(3))
        found.append((source.written, weights(source)))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_the_command_line_spreads_a_model(cli: Cli, tiny_llama: str) -> None:
    document = cli("show", TEXT, "-m", tiny_llama, "--device-map", "auto", "--json", "-q").json
    alone = cli("show", TEXT, "-m", tiny_llama, "--json", "-q").json
    assert document["attention"] == alone["attention"] and document["source"]["device"] == "cpu"


def test_what_does_not_go_together_and_a_missing_library_are_told(
    cli: Cli, tiny_llama: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for options, words in (
        (("--device-map", "atuo"), "--device-map atuo: unknown device map"),
        (("--device-map", "auto", "--device", "cuda"), "--device and --device-map were both given"),
        (("--offload-folder", "x"), "--offload-folder needs --device-map"),
    ):
        told = cli("show", TEXT, "-m", tiny_llama, *options)
        assert told.code == 2 and words in told.err
    monkeypatch.setattr("attncli.models.loading.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs accelerate, which is not installed") as caught:
        load(tiny_llama, LoadOptions(device_map="auto"))
    assert caught.value.exit_code == 2 and "attncli[big]" in str(caught.value.hint)
