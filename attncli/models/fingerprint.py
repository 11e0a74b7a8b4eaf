"""Tells checkpoints apart without reading them whole."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

_SAMPLES = 64
_SAMPLE_BYTES = 4096
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth")


def fingerprint(folder: Path | None) -> str | None:
    """Return a hash of a model's weights: of the names, sizes and samples of its files; None where there are none.

    Each file gives its first bytes, where safetensors has the names and shapes of all tensors, and 64 samples spread
    over the rest. Other weights give another hash, except where only bytes between the samples differ.
    """
    if folder is None:
        return None
    files = [folder] if folder.is_file() else sorted(p for p in folder.glob("*") if p.suffix in _WEIGHTS)
    if not files:
        return None
    return _hash(tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files))


@lru_cache(maxsize=16)
def _hash(files: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for name, size, _ in files:
        digest.update(f"{Path(name).name}\0{size}\0".encode())
        with open(name, "rb") as stream:
            for sample in range(_SAMPLES):
                stream.seek(sample * max(size - _SAMPLE_BYTES, 0) // (_SAMPLES - 1))
                digest.update(stream.read(_SAMPLE_BYTES))
    return digest.hexdigest()
