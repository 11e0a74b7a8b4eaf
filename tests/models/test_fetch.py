import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def fetch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with downloads and conversions that only leave traces."""
    spec = importlib.util.spec_from_file_location("fetch_models", Path(__file__).parent / "fetch.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def convert(name: str, packages: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "config.json").write_text(name)

    monkeypatch.setattr(module, "download", lambda names, packages: packages.mkdir())
    monkeypatch.setattr(module, "convert", convert)
    return module


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_all_models_are_written_and_nothing_else(fetch: ModuleType, tmp_path: Path) -> None:
    fetch.fetch(tmp_path / "out")
    assert names(tmp_path / "out") == sorted(fetch.WHEELS)


def test_what_stands_is_left_alone(
    fetch: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "smollm2-135m").mkdir()
    (tmp_path / "smollm2-135m" / "config.json").write_text("mine")
    fetch.fetch(tmp_path)
    assert (tmp_path / "smollm2-135m" / "config.json").read_text() == "mine"
    monkeypatch.setattr(fetch, "download", lambda *arguments: pytest.fail("asked the network again"))
    fetch.fetch(tmp_path)


def test_a_conversion_that_breaks_off_leaves_no_folder_and_a_reason(
    fetch: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(name: str, packages: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "config.json").write_text("half")
        raise SystemExit(f"{name} could not be converted")

    monkeypatch.setattr(fetch, "convert", break_off)
    monkeypatch.setattr(sys, "argv", ["fetch.py", str(tmp_path)])
    with pytest.raises(SystemExit) as caught:
        fetch.main()
    assert caught.value.code == 1
    assert names(tmp_path) == [fetch.FAILURE]
    assert (tmp_path / fetch.FAILURE).read_text() == "all-minilm-l6-v2 could not be converted\n"


def test_a_model_that_another_run_put_there_first_is_kept(fetch: ModuleType, tmp_path: Path) -> None:
    for name in ("ours", "place"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(name)
    fetch.put(tmp_path / "ours", tmp_path / "place")
    assert (tmp_path / "place" / "config.json").read_text() == "place"


def test_pips_own_reason_is_told(fetch: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "WARNING: Retrying\nERROR: Could not find a version\nERROR: No matching distribution\n"
    done = subprocess.CompletedProcess([], 1, "", said)
    monkeypatch.undo()
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: done)
    with pytest.raises(SystemExit, match=r"could not download annalog==1\.0\.6: ERROR: No matching"):
        fetch.download(["annalog-marian"], tmp_path)


def test_the_cache_is_outside_the_checkout_unless_named(
    fetch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNCLI_TEST_MODELS", "/somewhere/models")
    assert fetch.default_folder() == Path("/somewhere/models")
    monkeypatch.delenv("ATTNCLI_TEST_MODELS")
    monkeypatch.setenv("HOME", "/home/ada")
    assert fetch.default_folder() == Path("/home/ada/.cache/attncli-test-models")
