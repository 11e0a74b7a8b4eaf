"""What all tests share: where the pretrained models are, tiny ones, and how to run a command line."""

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
from commandline import Cli, Result
from hypothesis import settings

os.environ.setdefault("SOURCE_DATE_EPOCH", "1800000000")  # answers say when they were made

# The same examples each time, so that a run says something of the change and not of chance; and no deadline, since
# machines are busy. `pytest --hypothesis-profile=search` looks further.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=2000, deadline=None)
settings.load_profile("same")


def models_folder() -> Path:
    named = os.environ.get("ATTNCLI_TEST_MODELS")
    return Path(named) if named else Path.home() / ".cache" / "attncli-test-models"


@pytest.fixture(scope="session")
def model_folder() -> Callable[[str], Path]:
    """Give a function that finds a pretrained model's folder by name, or skips the test and says why."""

    def find(name: str) -> Path:
        folder = models_folder() / name
        if not (folder / "config.json").is_file():
            note = models_folder() / "why-not.txt"
            reason = (
                note.read_text(encoding="utf-8").strip() if note.is_file() else "run tests/models/fetch.py"
            )
            pytest.skip(f"no model {name}: {reason}")
        return folder

    return find


@pytest.fixture
def cli(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Give a function that runs a command line in this process: ``cli("show", "a b", stdin=b"…")``."""
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, stdin: bytes | None = None) -> Result:
        from attncli.cli.main import main

        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin or b""), encoding="utf-8"))
        capfdbinary.readouterr()
        code = main(arguments)
        out, err = capfdbinary.readouterr()
        return Result(code, out.decode("utf-8", "surrogateescape"), err.decode("utf-8"))

    return run


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.write_bert(tmp_path_factory.mktemp("tiny-bert")))


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.write_llama(tmp_path_factory.mktemp("tiny-llama")))


@pytest.fixture(scope="session")
def tiny_marian(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.write_marian(tmp_path_factory.mktemp("tiny-marian")))
