"""No token reaches a terminal, or what reads a text format, as a command: every command, every text format."""

import os
import re
import sys
from pathlib import Path

import pytest
import tiny
from commandline import Cli
from tokenizers import Tokenizer, models, pre_tokenizers

from attncli import registry
from attncli.cli.main import command_names

HOSTILE = (
    "\x1b]52;c;eA==\x07",
    "\x1b[2J",
    "\x9b31m",
    "\x00",
    "\x7f",
    "\u202egnp",
    "\u2066x\u2069",
    "\u200fx\u061c",
    "a\nb\r",
    "\tc",
    "\u2028d\u2029",
    "\x85",
    '"',
)
TEXT = " ".join(HOSTILE)
STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
LINE_ENDS = re.compile("\r?\n")

COMMANDS = {
    "show": ("show", TEXT),
    "show words": ("show", TEXT, "--words"),
    "show top": ("show", TEXT, "--top", "3"),
    "show scratch": ("show", TEXT, "-m", "scratch"),
    "show tiny": ("show", TEXT, "-m", "tiny-translator", "--kind", "cross"),
    "mask": ("mask", TEXT),
    "heads": ("heads", TEXT),
    "find": ("find", TEXT, "--from", HOSTILE[9].strip() + ":2", "--to", HOSTILE[0]),
    "explain": ("explain", TEXT, "--layer", "1", "--head", "0", "--query", "7"),
    "diff": ("diff", TEXT, TEXT[1:]),
    "diff maps": ("diff", TEXT, TEXT[1:], "--maps", "1"),
    "compare": ("compare", TEXT),
    "tokens": ("tokens", TEXT),
    "tokens words": ("tokens", TEXT, "-m", "scratch"),
    "render": ("render", "run.json"),
    "mistake": ("show", TEXT, "--query", TEXT[::-1]),
    "no such model": ("show", TEXT, "-m", "./" + HOSTILE[0]),
}
OWN_MODEL = ("compare", "render")  # take no --model
NO_TOKENS = {"bench", "completion", "doctor", "list", "schema"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder whose vocabulary is the hostile tokens."""
    folder = tiny.write_llama(tmp_path_factory.mktemp("hostile"))
    made = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(["[UNK]", *HOSTILE])}, unk_token="[UNK]")
    )
    made.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    made.save(str(folder / "tokenizer.json"))
    return folder


def text_formats() -> list[str]:
    return [name for name, entry in registry.entries("formats").items() if not entry.attributes["binary"]]


def test_every_command_is_tried_or_shows_no_token() -> None:
    assert {arguments[0] for arguments in COMMANDS.values()} | NO_TOKENS == set(command_names())


@pytest.mark.parametrize("name", COMMANDS)
def test_no_byte_of_a_token_is_a_command(cli: Cli, model: Path, name: str, monkeypatch) -> None:
    monkeypatch.chdir(model)
    command = COMMANDS[name]
    if command[0] == "render":
        assert cli("show", TEXT, "-m", str(model), "-o", "run.json").code == 0
    if command[0] not in OWN_MODEL and "-m" not in command:
        command = (*command, "-m", str(model))
    written = 0
    for form in ("auto", *text_formats()):
        for width in ((), ("--width", "60")):
            result = cli(*command, "-f", form, "--color", "never", *width)
            assert result.code in (0, 2, 4), result.err
            written += result.code == 0
            text = LINE_ENDS.sub("\n", result.out)
            found = (
                STEERING.search(text)
                or STEERING.search(LINE_ENDS.sub("\n", result.err))
                or re.search("\r", text)
            )
            assert found is None, (form, text[max(0, found.start() - 40) : found.end() + 10])
            if form in ("json", "ndjson"):
                assert text.isascii()
    assert written or name in ("mistake", "no such model")


def test_exact_text_stays_in_json(cli: Cli, model: Path) -> None:
    tokens = cli("show", TEXT, "-m", str(model), "--json").json["query_tokens"]
    assert [token["text"] for token in tokens] == list(HOSTILE)


@pytest.mark.parametrize("form", ["csv", "tsv", "table", "auto"])
def test_nor_on_a_terminal(model: Path, form: str) -> None:
    arguments = [
        "-m",
        "attncli",
        "tokens",
        TEXT.replace("\x00", ""),
        "-m",
        str(model),
        "-f",
        form,
        "--color",
        "never",
    ]
    seen = _on_a_terminal(arguments)
    assert STEERING.search(seen) is None and "␛]52;c;eA==␇" in seen


def _on_a_terminal(arguments: list[str]) -> str:
    import pexpect

    environment = os.environ | {"TERM": "xterm-256color"}
    child = pexpect.spawn(sys.executable, arguments, encoding="utf-8", env=environment, dimensions=(24, 200))
    child.expect(pexpect.EOF)
    assert child.before is not None
    return child.before
