"""A sound is read, brought to the model's rate and written down; the weights are the model's own."""

from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from commandline import Cli
from sounds import tone, write_wav

from attncli.errors import ModelError
from attncli.models.loading import LoadOptions, load
from attncli.models.speech import listen, transcribe
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.write_whisper(tmp_path_factory.mktemp("whisper")))


@pytest.fixture
def speech(tmp_path: Path) -> str:
    return str(write_wav(tmp_path / "speech.wav", tone(0.71, 8_000), 8_000))


def test_the_weights_are_those_of_eager_attention_over_the_same_tokens(whisper: str, speech: str) -> None:
    heard = transcribe(load(whisper, LoadOptions(head=True)), Path(speech), tokens=5)
    source = heard.source
    queries, keys = source.axes("cross")
    assert heard.frames == 36 and len(keys) == 100 and keys[35].label == "0.70 s"
    every = parse_selection("all", "layer"), parse_selection("all", "head")
    kept = FullWeights("cross", *every, 2, len(queries), 100)
    source.run([kept])
    model = source.whole.loaded.model
    model.set_attn_implementation("eager")
    with torch.no_grad():
        outputs = model(**source.whole.prepared.inputs, output_attentions=True, use_cache=False)
    for matrix in kept.matrices():
        expected = outputs.cross_attentions[matrix.layer][0, matrix.head, : len(queries)].numpy()
        np.testing.assert_allclose(matrix.values, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("family", "labels"),
    [
        ("wav2vec2", {0: "0.00 s", 34: "0.68 s"}),
        ("hubert", {34: "0.68 s"}),
        ("sew", {1: "0.04 s", 16: "0.64 s"}),
        ("wav2vec2-bert", {34: "0.68 s"}),
        (
            "audio-spectrogram-transformer",
            {0: "[CLS]", 2: "0.00 s 576 Hz", 7: "0.00 s 1803 Hz", 16: "0.40 s 4208 Hz"},
        ),
    ],
)
def test_an_encoder_shows_what_eager_attention_has_over_its_seconds(
    speech: str, tmp_path: Path, family: str, labels: dict[int, str]
) -> None:
    folder = str(tiny.write_sound_model(tmp_path / family, family))
    source = listen(load(folder, tokenizer=False), Path(speech), truncate=True).source
    tokens, _ = source.axes("encoder")
    assert {place: tokens[place].label for place in labels} == labels
    kept = FullWeights(
        "encoder", parse_selection("all", "layer"), parse_selection("all", "head"), 2, *[len(tokens)] * 2
    )
    source.run([kept])
    model = source.loaded.model
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(**source.prepared.inputs, output_attentions=True).attentions
    for matrix in kept.matrices():
        np.testing.assert_allclose(matrix.values, expected[matrix.layer][0, matrix.head].numpy(), atol=1e-6)


def test_columns_end_with_the_sound_unless_all_are_asked_for(cli: Cli, whisper: str, speech: str) -> None:
    common = ("show", speech, "-m", whisper, "--generate", "4", "--layer", "1", "--json")
    heard, every = cli(*common).json, cli(*common, "--key", "all").json
    assert (len(heard["key_tokens"]), len(every["key_tokens"])) == (36, 100)
    assert {m["kind"] for m in heard["attention"]} == {"cross"}
    told = " ".join(heard["notes"])
    assert "resampled from 8,000 to 16,000" in told and "the sound ends at 0.72 s" in told
    assert "silence" not in " ".join(every["notes"])
    whole = np.array(every["attention"][0]["weights"])
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(heard["attention"][0]["weights"], whole[:, :36], atol=1e-7)
    inside = cli(*common, "--kind", "encoder").json["attention"][0]["shape"]
    assert inside == [36, 36] and cli(*common, "--kind", "decoder").code == 0


def test_a_sound_is_drawn_with_its_seconds(cli: Cli, whisper: str, speech: str, tmp_path: Path) -> None:
    common = ("show", speech, "-m", whisper, "--generate", "4", "--layer", "1", "--head", "0")
    assert "╷0.40 s" in cli(*common, "--width", "40").out
    assert cli(*common, "-o", str(tmp_path / "x.svg")).code == 0
    drawn = (tmp_path / "x.svg").read_text()
    assert ">time (s)<" in drawn and ">0.5<" in drawn


def test_what_does_not_go_with_a_sound_is_refused(
    cli: Cli, whisper: str, speech: str, tiny_bert: str, tmp_path: Path
) -> None:
    long = str(write_wav(tmp_path / "long.wav", tone(2.5, 16_000)))
    for arguments, words in (
        ((speech, "-m", whisper, "--pair", "it"), "--pair cannot be used with a sound"),
        ((speech, "-m", whisper, "--stride", "4"), "--stride cannot be used with a sound"),
        ((long, "-m", whisper), "long.wav has 2.5 s"),
        (("the animal", "-m", whisper), "this model takes a sound, not a text"),
        (("--file", long, "-m", whisper), "shows it, with a model of sounds (Whisper, "),
    ):
        result = cli("show", *arguments)
        assert result.code == 2 and words in result.err and len(result.err.splitlines()) <= 3, result
    cut = cli("show", long, "-m", whisper, "--truncate", "--generate", "2", "--json")
    assert any("0.5 s are left out" in note for note in cut.json["notes"])
    # For a model that reads, the name of a file that is not there is a text.
    assert cli("show", "a.wav", "-m", tiny_bert, "--json").code == 0
    refused = cli("show", speech, "-m", tiny_bert)
    assert refused.code == 2 and f"is a sound, and {tiny_bert} (bert) takes texts" in refused.err


@pytest.mark.parametrize("content", [b"", b"no sound at all", b"RIFF\x00\x00\x00\x00WAVE"])
def test_a_file_that_is_no_wav_is_told(cli: Cli, whisper: str, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.wav").write_bytes(content)
    result = cli("show", str(tmp_path / "s.wav"), "-m", whisper)
    assert result.code == 1 and "s.wav: no sound that can be read (" in result.err


@pytest.mark.parametrize("command", [("show",), ("heads",), ("mask",), ("find", "--from", "a", "--to", "b")])
def test_a_sound_that_is_not_there_is_told_as_such(cli: Cli, whisper: str, command: tuple[str, ...]) -> None:
    result = cli(*command, "gone.wav", "-m", whisper)
    assert result.code == 1 and "gone.wav: no such file" in result.err


def test_a_whisper_without_its_preprocessor_is_told(whisper: str, speech: str, tmp_path: Path) -> None:
    for file in Path(whisper).iterdir():
        if file.name != "preprocessor_config.json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ModelError, match=r"no preprocessor_config.json that can be read"):
        transcribe(load(str(tmp_path), LoadOptions(head=True)), Path(speech))
