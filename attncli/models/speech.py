"""A sound as the input of a model that transcribes: read, brought to the model's rate, cut into frames."""

from __future__ import annotations

import math
import wave
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attncli.errors import ModelError, ReadError, UsageError
from attncli.labels import safe_label
from attncli.models.generation import GeneratedSource, Sampling, write
from attncli.models.loading import Loaded
from attncli.models.prepared_text import Prepared
from attncli.models.refusals import read_from, refused_as
from attncli.record import Token, Tokens

_FRAME_SAMPLES = 2
"""Steps of the features that make one position of the encoder: its second convolution takes every other."""


@dataclass(frozen=True)
class Sound:
    """One channel of sound, between -1 and 1.

    Args:
        rate: Samples a second.
    """

    samples: NDArray[np.float32]
    rate: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate

    def at(self, rate: int) -> Sound:
        """Return the same sound at another rate, with what both rates can hold of its spectrum."""
        if rate == self.rate:
            return self
        length = round(len(self.samples) * rate / self.rate)
        spectrum = np.fft.rfft(self.samples)[: length // 2 + 1]
        samples = np.fft.irfft(spectrum, length) * (length / len(self.samples))
        return Sound(samples.astype(np.float32), rate)


def read_wav(path: Path) -> Sound:
    """Read a WAV file of 16-bit samples; several channels become their mean.

    Raises:
        ReadError: It cannot be read, or is of another form.
    """
    name = safe_label(str(path))
    hint = "convert it to 16-bit WAV"
    with (
        read_from(path),
        refused_as(lambda why: ReadError(f"{name}: not a WAV file of PCM samples ({why})", hint)),
    ):
        with wave.open(str(path), "rb") as file:
            bits, channels, rate = 8 * file.getsampwidth(), file.getnchannels(), file.getframerate()
            content = file.readframes(file.getnframes())
    if bits != 16:
        raise ReadError(f"{name}: {bits}-bit samples, expected 16-bit PCM", hint)
    if not (channels and rate):
        raise ReadError(f"{name}: {channels} channels of {rate} samples a second", hint)
    samples = np.frombuffer(content[: len(content) // (2 * channels) * 2 * channels], "<i2")
    if not samples.size:
        raise ReadError(f"{name}: it contains no sound")
    return Sound((samples.reshape(-1, channels).mean(axis=1) / 2**15).astype(np.float32), rate)


@dataclass(frozen=True)
class Heard:
    """A model and what it wrote of a sound.

    Args:
        frames: How many of the encoder's positions the sound takes; silence fills the others.
        silence: What to say where those are not shown; empty where there are none.
    """

    source: GeneratedSource
    frames: int
    silence: str = ""

    @property
    def without_silence(self) -> GeneratedSource:
        """Return the source with the note that silence is not shown."""
        whole = self.source.whole
        notes = (*whole.prepared.notes, self.silence) if self.silence else whole.prepared.notes
        return replace(self.source, whole=replace(whole, prepared=replace(whole.prepared, notes=notes)))


def transcribe(
    loaded: Loaded, path: Path, *, tokens: int | None = None, truncate: bool = False, verify: bool = True
) -> Heard:
    """Let a model write down what is said, greedily.

    Args:
        loaded: The model with its language-model head.
        tokens: How many tokens it writes at most.
        truncate: Whether to cut a sound that is too long for the model.

    Raises:
        ReadError: The file is no sound that can be read.
        UsageError: The sound is too long.
    """
    extractor = _extractor(loaded)
    rate, most = int(extractor.sampling_rate), int(extractor.n_samples)
    sound = read_wav(path)
    heard = sound.at(rate)
    if len(heard.samples) > most and not truncate:
        raise UsageError(
            f"{safe_label(path.name)} has {sound.seconds:.1f} s; {loaded.name} hears at most {most / rate:g} s",
            f"--truncate cuts it to {most / rate:g} s",
        )
    features = extractor(heard.samples[:most], sampling_rate=rate, return_tensors="pt")["input_features"]
    step = _FRAME_SAMPLES * int(extractor.hop_length) / rate
    frames = math.ceil(min(len(heard.samples), most) / rate / step)
    keys = _frame_tokens(features.shape[-1] // _FRAME_SAMPLES, step)
    model = loaded.model
    inputs = {"input_features": features.to(loaded.device, model.dtype)}
    prepared = Prepared(inputs, {"encoder": keys}, {"encoder": keys}, _notes(sound, heard, most))
    prompt = _prompt(loaded, inputs)
    room = int(model.config.max_target_positions) - len(prompt)
    made = write(loaded, prepared, Sampling(min(tokens or room, room)), verify=verify, prompt=prompt)
    return Heard(made, frames, _silence(frames * step, most / rate))


def _extractor(loaded: Loaded) -> Any:
    from transformers import WhisperFeatureExtractor

    with refused_as(lambda reason: _unprepared(loaded, reason)):
        return WhisperFeatureExtractor.from_pretrained(loaded.folder or loaded.name)


def _unprepared(loaded: Loaded, reason: str) -> ModelError:
    return ModelError(
        f"{loaded.name}: no readable preprocessor_config.json, so sounds cannot be prepared for it",
        reason,
    )


def _frame_tokens(count: int, step: float) -> Tokens:
    texts = [f"{index * step:.2f} s" for index in range(count)]
    return tuple(Token(index, None, text, text) for index, text in enumerate(texts))


def _silence(end: float, until: float) -> str:
    if end >= until:
        return ""
    after = f"weight on the {until - end:.1f} s of silence after it is left out (--key all)"
    return f"the sound ends at {end:.2f} s: {after}"


def _notes(sound: Sound, heard: Sound, most: int) -> tuple[str, ...]:
    notes = []
    if sound.rate != heard.rate:
        notes.append(f"resampled from {sound.rate:,} to {heard.rate:,} samples a second")
    if len(heard.samples) > most:
        left_out = (len(heard.samples) - most) / heard.rate
        notes.append(f"cut to the model's {most / heard.rate:g} s: {left_out:.1f} s are left out")
    return tuple(notes)


def _prompt(loaded: Loaded, inputs: dict[str, torch.Tensor]) -> Sequence[int]:
    """Return what the decoder starts from: the language where there are several, to transcribe, without timestamps."""
    settings = loaded.model.generation_config
    start = [int(settings.decoder_start_token_id)]
    languages = getattr(settings, "lang_to_id", None)
    if getattr(settings, "is_multilingual", False) and languages:
        with torch.inference_mode():
            first = torch.tensor([start], device=loaded.device)
            logits = loaded.model(**inputs, decoder_input_ids=first).logits[0, -1]
        spoken = max(languages.values(), key=lambda number: float(logits[number]))
        start += [int(spoken), int(settings.task_to_id["transcribe"])]
    without = getattr(settings, "no_timestamps_token_id", None)
    return start if without is None else [*start, int(without)]
