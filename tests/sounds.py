"""Sounds for tests: tones, written as WAV files."""

import wave
from pathlib import Path

import numpy as np


def write_wav(path: Path, samples: np.ndarray, rate: int = 16_000, *, width: int = 2) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(
            (samples * 2**15).astype("<i2").tobytes() if width == 2 else bytes(samples.size * width)
        )
    return path


def tone(seconds: float, rate: int, hertz: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)
