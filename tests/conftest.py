"""What all tests share: where the pretrained models are."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


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
