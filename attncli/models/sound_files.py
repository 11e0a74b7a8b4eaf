"""A sound file, read: decoded, mixed to one channel, checked, and brought to a model's rate."""

from __future__ import annotations

import wave
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attncli.errors import ReadError
from attncli.labels import safe_label
from attncli.models.refusals import read_from

_INSTALL = 'pip install "attncli[audio]"'


@dataclass(frozen=True)
class Sound:
    """One channel of sound, between -1 and 1.

    Args:
        name: The file's, for messages.
        rate: Samples a second.
        notes: What was done to it, one line each.
    """

    name: str
    samples: NDArray[np.float32]
    rate: int
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate

    def at(self, rate: int) -> Sound:
        """Return the same sound at another rate.

        Raises:
            ReadError: soxr, which resamples, is not installed.
        """
        if rate == self.rate:
            return self
        change = f"resampled from {self.rate:,} to {rate:,} samples a second"
        if find_spec("soxr") is None:
            raise ReadError(f"{self.name}: to be {change}, it needs soxr, which is not installed", _INSTALL)
        import soxr

        samples = soxr.resample(self.samples, self.rate, rate)
        return Sound(self.name, samples.astype(np.float32), rate, (*self.notes, change))


def read_sound(path: Path) -> Sound:
    """Read a sound file; several channels become their mean.

    WAV files of 16-bit samples are read by Python itself, all others by soundfile.

    Raises:
        ReadError: It cannot be read, or there is no sound in it.
    """
    name = safe_label(str(path))
    with read_from(path):
        samples, rate = _plain_wav(path) or _decoded(path, name)
    if not samples.size:
        raise ReadError(f"{name}: there is no sound in it")
    if not np.isfinite(samples).all():
        raise ReadError(f"{name}: some of its samples are no numbers (NaN or infinite)")
    channels = samples.shape[1]
    notes = (f"its {channels} channels were mixed to one",) if channels > 1 else ()
    return Sound(name, samples.mean(axis=1, dtype=np.float32), rate, notes)


def _plain_wav(path: Path) -> tuple[NDArray[np.float32], int] | None:
    """Return the samples ``(time, channels)`` and the rate of a WAV file of 16-bit samples; None of other files."""
    try:
        with wave.open(str(path), "rb") as file:
            channels, rate, width = file.getnchannels(), file.getframerate(), file.getsampwidth()
            if width != 2 or not rate:
                return None
            content = file.readframes(file.getnframes())
    except (wave.Error, EOFError):
        return None
    samples = np.frombuffer(content[: len(content) // (2 * channels) * 2 * channels], "<i2")
    return (samples.reshape(-1, channels) / 2**15).astype(np.float32), rate


def _decoded(path: Path, name: str) -> tuple[NDArray[np.float32], int]:
    """Return the samples ``(time, channels)`` and the rate of a file in any form that libsndfile reads."""
    if find_spec("soundfile") is None:
        told = "no WAV file of 16-bit samples, and soundfile, which reads others, is not installed"
        raise ReadError(f"{name}: {told}", _INSTALL)
    import soundfile

    try:
        with path.open("rb") as file:
            samples, rate = soundfile.read(file, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        why = error.error_string.rstrip(".")
        raise ReadError(
            f"{name}: no sound that can be read ({why})", "convert it to WAV, FLAC or MP3"
        ) from error
    return samples, int(rate)
