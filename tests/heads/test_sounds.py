"""A corpus of sounds: each is heard and written down, silence is left out, and heads are ranked over all of them."""

import json
from pathlib import Path

import numpy as np
import pytest
import tiny
from commandline import Cli
from sounds import tone, write_wav

from attncli.models.loading import LoadOptions, load
from attncli.models.speech import transcribe
from attncli.observers.selection import parse_selection
from attncli.observers.weights import FullWeights

ALIGNED = [[0, 1], [1, 0]]


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tiny.write_whisper(tmp_path_factory.mktemp("whisper"))
    settings = json.loads((folder / "generation_config.json").read_text())
    del settings["_from_model_config"]  # such settings are made anew
    (folder / "generation_config.json").write_text(json.dumps(settings | {"alignment_heads": ALIGNED}))
    return str(folder)


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sounds")
    for name, seconds, hertz in (("b.wav", 0.6, 300.0), ("a.wav", 0.9, 500.0)):
        write_wav(folder / name, tone(seconds, 16_000, hertz))
    (folder / "notes.txt").write_text("no sound")
    return folder


def test_monotonicity_of_one_sound_is_the_correlation_of_step_and_mean_place(
    cli: Cli, whisper: str, sounds: Path
) -> None:
    path = sounds / "a.wav"
    found = cli("heads", str(path), "-m", whisper, "--kind", "cross", "--by", "monotonicity", "--json").json
    heard = transcribe(load(whisper, LoadOptions(head=True)), path)
    queries, keys = heard.source.axes("cross")
    kept = FullWeights(
        "cross", parse_selection("all", "layer"), parse_selection("all", "head"), 2, len(queries), 100
    )
    heard.source.run([kept])
    rows = [place for place, token in enumerate(queries) if not token.special]
    ours = {(head["layer"], head["head"]): head["metrics"]["monotonicity"]["mean"] for head in found["heads"]}
    assert heard.frames == 45 and len(keys) == 100 and found["corpus"]["medium"] == "sound"
    for matrix in kept.matrices():
        weights = np.float64(matrix.values[rows, : heard.frames])
        places = weights @ np.arange(heard.frames) / weights.sum(axis=1)
        expected = np.corrcoef(rows, places)[0, 1]
        assert ours[matrix.layer, matrix.head] == pytest.approx(expected, abs=1e-3)


def test_heads_that_the_model_names_have_a_label(cli: Cli, whisper: str, sounds: Path) -> None:
    found = cli("heads", str(sounds / "a.wav"), "-m", whisper, "--kind", "cross", "--json").json
    named = [[h["layer"], h["head"]] for h in found["heads"] if "alignment" in h["labels"]]
    assert sorted(named) == ALIGNED and any("generation_config names" in note for note in found["notes"])
    assert any("the silence after a sound is left out" in note for note in found["notes"])


def test_a_folder_and_a_list_of_the_same_sounds_give_the_same(cli: Cli, whisper: str, sounds: Path) -> None:
    (sounds / "list.txt").write_text("a.wav\nb.wav\n")
    common = ("-m", whisper, "--kind", "cross", "--json")
    folder = cli("heads", str(sounds), *common).json
    listed = cli("heads", "--file", str(sounds / "list.txt"), *common).json
    assert folder["corpus"]["texts"] == 2 and "2 sounds" in folder["title"]
    assert folder["heads"] == listed["heads"]


def test_a_sound_that_cannot_be_read_is_named_and_the_others_count(
    cli: Cli, whisper: str, sounds: Path, tmp_path: Path
) -> None:
    (tmp_path / "list.txt").write_text(f"{sounds / 'a.wav'}\nnone.wav\n{sounds / 'b.wav'}\n")
    result = cli("heads", "--file", str(tmp_path / "list.txt"), "-m", whisper, "--kind", "cross", "--json")
    assert result.code == 1 and "line 2: " in result.err and "none.wav: No such file" in result.err
    assert result.json["corpus"]["texts"] == 2 and result.json["corpus"]["bad_lines"] == 1


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_other_kinds_are_ranked_too(cli: Cli, whisper: str, sounds: Path, kind: str) -> None:
    found = cli("heads", str(sounds), "-m", whisper, "--kind", kind, "--json").json
    assert len(found["heads"]) == 4 and {head["kind"] for head in found["heads"]} == {kind}
    if kind == "encoder":  # 30 and 45 positions of sound; those of silence have no rows
        assert found["corpus"]["rows"] == 75 and found["corpus"]["null_texts"] == 0


def test_an_encoder_of_sounds_is_ranked(cli: Cli, sounds: Path, tmp_path: Path) -> None:
    folder = tiny.write_sound_model(tmp_path, "hubert")
    found = cli("heads", str(sounds), "-m", str(folder), "--by", "previous_token", "--json").json
    assert len(found["heads"]) == 6 and found["corpus"]["rows"] == found["corpus"]["tokens"] == 29 + 44


def test_what_does_not_go_with_sounds_is_refused(
    cli: Cli, whisper: str, sounds: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, code, words in (
        ((str(sounds / "a.wav"), "--pair", "it"), 2, "are for texts"),
        ((str(tmp_path / "empty"),), 1, "there are no sounds in it"),
        (("a text",), 2, "this model takes a sound, not a text"),
        (("gone.wav",), 1, "gone.wav: no such file"),
    ):
        result = cli("heads", *arguments, "-m", whisper)
        assert result.code == code and words in result.err and len(result.err.splitlines()) <= 3, result
