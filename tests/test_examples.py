"""Every example of every command's help is run as it stands, on real models."""

import json
import shlex
import wave
from pathlib import Path

import pytest
import tiny
import tiny_image_text
from commandline import Cli
from PIL import Image

from attncli.cli.main import _module, command_names

MODELS = ("all-minilm-l6-v2", "smollm2-135m", "annalog-marian", "whisper-tiny-en")
LONG = ("attncli bench --seq-len", "attncli bench --variants sliding", "--examples verb-object")
EXAMPLES = [example for name in command_names() for example in _module(name).EXAMPLES]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, model_folder) -> Path:
    """A folder in which the examples' files lie."""
    folder = tmp_path_factory.mktemp("desk")
    for name in MODELS:
        (folder / name).symlink_to(model_folder(name))
    tiny.write_vit(folder / "dinov2-small", "dinov2", patch_size=4)
    tiny_image_text.write_image_text(folder / "llava", "llava")
    Image.linear_gradient("L").save(folder / "photo.jpg")
    sentences = ["The animal was too tired.", "It was the best of times.", "She read the letter twice."]
    for name in ("corpus.txt", "new.txt", "book.txt"):
        (folder / name).write_text("\n".join(sentences))
    pair = {"text": "The dog slept.", "from": [8, 13], "to": [4, 7]}
    (folder / "pairs.jsonl").write_text(f"{json.dumps(pair | {'target': 'CCO'})}\n")
    (folder / "gold.txt").write_text("C C O ||| C C O ||| 0-0 1-1 2-2\n")
    with wave.open(str(folder / "speech.wav"), "wb") as sound:
        sound.setparams((1, 2, 16000, 0, "NONE", ""))
        sound.writeframes(bytes(16000 * 2))
    return folder


def run(cli: Cli, line: str) -> None:
    said, _, command = line.rpartition(" | ")
    result = cli(*shlex.split(command)[1:], stdin=shlex.split(said)[1].encode() if said else None)
    assert result.code == 0, f"{line}\n{result.err}"
    assert result.out or " -o " in line, line


@pytest.mark.models
@pytest.mark.parametrize("example", [one for one in EXAMPLES if not any(long in one for long in LONG)])
def test_the_example_runs(example: str, desk: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    if "run.npz" in example or "run.json" in example:
        shown = ("It was tired.", "-m", "./all-minilm-l6-v2", "-q")
        run(cli, shlex.join(["attncli", "show", *shown, "-o", "run.npz", "-o", "run.json"]))
    if "old.json" in example and "heads" in example:
        run(cli, "attncli heads --file corpus.txt -m ./all-minilm-l6-v2 -q -o old.json")
    if "heads.json" in example:
        run(cli, "attncli heads --file corpus.txt -m ./all-minilm-l6-v2 -q -o heads.json")
    if "bench.json" in example or "--baseline" in example:
        run(
            cli,
            "attncli bench -n 32,64,128 --variants flash --backward --max-time 5 -q -o bench.json -o old.json",
        )
        example = example.replace("--fail-over 1.2", "-n 32,64,128 --max-time 5 --fail-over 1000")
    run(cli, example)
