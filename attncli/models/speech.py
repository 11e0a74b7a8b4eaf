"""A sound as the input of a model: made ready by its own feature extractor, cut into positions, and written down."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attncli.errors import CaptureError, ModelError, UsageError
from attncli.models.generation import GeneratedSource, Sampling, write
from attncli.models.loading import Loaded
from attncli.models.prepared_text import Prepared, from_inputs, start_token, token_limit
from attncli.models.pretrained import PretrainedSource
from attncli.models.refusals import refused_as
from attncli.models.sound_files import Sound, read_sound
from attncli.record import AttentionLayer, Kind, Request, Token, Tokens, WeightBlock

_PROBE = 46_080
"""Samples: a multiple of the strides that models have, 160, 240, 320, 384, 640, 1,280, …"""

_MOST_TOKENS = 448
"""Tokens that are written at most where the model itself has no end: as many as Whisper's."""


@dataclass(frozen=True)
class Heard:
    """A model with a sound in it.

    Args:
        source: The model over the sound, or over the sound and what it wrote of it.
        frames: How many positions the sound takes; silence fills the others.
        silence: What to say where those are not shown; empty where there are none.
    """

    source: PretrainedSource | GeneratedSource
    frames: int
    silence: str = ""

    @property
    def without_silence(self) -> PretrainedSource | GeneratedSource:
        """Return the source with the note that silence is not shown."""
        whole = self.source.whole if isinstance(self.source, GeneratedSource) else self.source
        notes = (*whole.prepared.notes, self.silence) if self.silence else whole.prepared.notes
        noted = replace(whole, prepared=replace(whole.prepared, notes=notes))
        return replace(self.source, whole=noted) if isinstance(self.source, GeneratedSource) else noted


def listen(loaded: Loaded, path: Path, *, truncate: bool = False, verify: bool = True) -> Heard:
    """Let a model's encoder hear a sound.

    Args:
        truncate: Whether to cut a sound that is too long for the model.

    Raises:
        ReadError: The file is no sound that can be read.
        UsageError: The sound is too long, or too short.
        ModelError: The model does not say how it wants sounds.
    """
    ear = Ear(loaded)
    return ear.hear(read_sound(path), truncate=truncate, verify=verify)


def transcribe(
    loaded: Loaded, path: Path, *, tokens: int | None = None, truncate: bool = False, verify: bool = True
) -> Heard:
    """Let a model write down what is said, greedily.

    Args:
        loaded: The model with its language-model head.
        tokens: How many tokens it writes at most.
        truncate: Whether to cut a sound that is too long for the model.

    Raises:
        AttnCliError: As in `listen`; or the model does not write.
    """
    heard = listen(loaded, path, truncate=truncate)
    assert isinstance(heard.source, PretrainedSource)
    prepared = replace(heard.source.prepared, encoder_only=False)
    prompt = _prompt(loaded, prepared.inputs)
    room = min(token_limit(loaded, target=True), _MOST_TOKENS) - len(prompt)
    made = write(loaded, prepared, Sampling(min(tokens or room, room)), verify=verify, prompt=prompt)
    return replace(heard, source=made)


@dataclass(frozen=True)
class Ear:
    """A model and what makes sounds ready for it."""

    loaded: Loaded
    extractor: Any = field(init=False)

    def __post_init__(self) -> None:
        from transformers import AutoFeatureExtractor

        name = self.loaded.name
        told = f"{name}: no preprocessor_config.json that can be read, so sounds cannot be made ready for it"
        with refused_as(lambda why: ModelError(told, why)), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # AST's own mel filters are too many for its spectrum
            found = AutoFeatureExtractor.from_pretrained(self.loaded.folder or name)
        object.__setattr__(self, "extractor", found)

    @property
    def rate(self) -> int:
        """Samples a second."""
        return int(self.extractor.sampling_rate)

    @property
    def kind(self) -> Kind:
        """The kind of attention of the stack that hears."""
        return "encoder" if self.loaded.model.config.is_encoder_decoder else self.loaded.kind

    def hear(self, sound: Sound, *, truncate: bool, verify: bool) -> Heard:
        """Make a sound ready, with a token for each position of the encoder."""
        resampled = sound.at(self.rate)
        step, most = self._step()
        samples, notes = resampled.samples[:most], resampled.notes
        if most is not None and len(resampled.samples) > most:
            notes = (*notes, self._cut(resampled, most, truncate))
        inputs = self._inputs(samples)
        try:
            count = self._positions(inputs)
        except CaptureError as error:
            if len(samples) >= _PROBE:
                raise
            told = f"{sound.name} has {sound.seconds:.3g} s, which is too short for {self.loaded.name}"
            raise UsageError(f"{told}: {error.message}") from error
        end, frames, silence = len(samples) / self.rate, count, ""
        tokens = self._patches(count)
        if tokens is None:
            tokens = tuple(_token(place, f"{place * step:.2f} s") for place in range(count))
            frames = count if most is None else min(math.ceil(end / step), count)
            after = (
                f"weight on the {(count - frames) * step:.1f} s of silence after it is left out (--key all)"
            )
            silence = f"the sound ends at {frames * step:.2f} s: {after}" if frames < count else ""
        elif most is not None and len(samples) < most:
            notes = (*notes, f"the sound ends at {end:.2f} s: what the model hears after it is silence")
        both = bool(self.loaded.model.config.is_encoder_decoder)
        prepared = Prepared(inputs, {self.kind: tokens}, {self.kind: tokens}, notes, encoder_only=both)
        return Heard(PretrainedSource(self.loaded, prepared, verify), frames, silence)

    def _inputs(self, samples: NDArray[np.float32]) -> dict[str, torch.Tensor]:
        """Return what the model is given of a sound."""
        name, model = self.loaded.name, self.loaded.model
        with refused_as(
            lambda why: ModelError(f"{name}: its feature extractor does not take this sound: {why}")
        ):
            made = self.extractor(samples, sampling_rate=self.rate, return_tensors="pt")
        known = inspect.signature(model.forward).parameters
        return {
            key: value.to(self.loaded.device, model.dtype if value.is_floating_point() else None)
            for key, value in made.items()
            if key in known
        }

    def _positions(self, inputs: Mapping[str, torch.Tensor]) -> int:
        """Run the model as far as its first attention, and return how many positions it makes of a sound."""
        prepared = from_inputs(self.loaded, inputs, {self.kind: (0, 0)})
        both = bool(self.loaded.model.config.is_encoder_decoder)
        seen = _Length(self.kind)
        PretrainedSource(self.loaded, replace(prepared, encoder_only=both), verify=False).run([seen])
        return seen.queries

    def _step(self) -> tuple[float, int | None]:
        """Return the seconds from one position to the next, and how many samples the model hears at most.

        Told apart by two sounds of different lengths. A model that fills or cuts every sound to one length makes as
        many positions of both; where the sound may be of any length, that is None.
        """
        noise = np.random.default_rng(0).normal(0, 0.1, 2 * _PROBE).astype(np.float32)
        first, second = (self._positions(self._inputs(noise[: times * _PROBE])) for times in (1, 2))
        if second > first:
            return round(_PROBE / (second - first)) / self.rate, None
        names = ("n_samples", "nb_max_samples")
        most = next(
            (int(getattr(self.extractor, name)) for name in names if hasattr(self.extractor, name)), None
        )
        if most is None:  # the length is that of the features, of which there are a hundred a second
            most = int(getattr(self.extractor, "max_length", 0)) * self.rate // 100
        if not most:
            raise CaptureError(
                f"{self.loaded.name} ({self.loaded.family}): how much it hears is not to be seen"
            )
        return most / self.rate / first, most

    def _cut(self, sound: Sound, most: int, truncate: bool) -> str:
        """Return the note that a sound is cut.

        Raises:
            UsageError: It is not to be cut.
        """
        if not truncate:
            raise UsageError(
                f"{sound.name} has {sound.seconds:.1f} s; {self.loaded.name} hears at most {most / sound.rate:g} s",
                f"--truncate cuts it to {most / sound.rate:g} s",
            )
        left_out = sound.seconds - most / sound.rate
        return f"cut to the model's {most / sound.rate:g} s: {left_out:.1f} s are left out"

    def _patches(self, count: int) -> Tokens | None:
        """Return the patches of a spectrogram, low frequencies first; None where positions are no patches."""
        from transformers.audio_utils import hertz_to_mel, mel_to_hertz

        config = self.loaded.model.config
        down, across = (getattr(config, f"{what}_stride", None) for what in ("frequency", "time"))
        if not isinstance(down, int) or not isinstance(across, int):
            return None
        size, bins = int(config.patch_size), int(config.num_mel_bins)
        rows, columns = (bins - size) // down + 1, (int(config.max_length) - size) // across + 1
        specials = ("[CLS]", "[DIST]")[: count - rows * columns]
        if len(specials) + rows * columns != count:
            return None
        low, high = (float(hertz_to_mel(hertz, "kaldi")) for hertz in (20.0, self.rate / 2))
        middles = [low + (row * down + (size + 1) / 2) * (high - low) / (bins + 1) for row in range(rows)]
        hertz = [float(mel_to_hertz(mel, "kaldi")) for mel in middles]
        texts = [f"{column * across / 100:.2f} s {one:.0f} Hz" for one in hertz for column in range(columns)]
        first = tuple(replace(_token(place, text), special=True) for place, text in enumerate(specials))
        return (*first, *(_token(place, text) for place, text in enumerate(texts, len(specials))))


class _Length:
    """Notes the number of queries in the first layer, after which the model may stop."""

    def __init__(self, kind: Kind) -> None:
        self.sought: frozenset[tuple[Kind, int]] = frozenset([(kind, 0)])
        self.queries = 0

    def request(self, site: AttentionLayer) -> Request | None:
        """Ask for all rows of one head: of one row the keys may be those of a window only."""
        return Request((0,)) if site.index == 0 else None

    def update(self, block: WeightBlock) -> None:
        """Look how far the rows go."""
        self.queries = max(self.queries, block.rows.stop)


def _token(place: int, text: str) -> Token:
    return Token(place, None, text, text)


def _prompt(loaded: Loaded, inputs: Mapping[str, torch.Tensor]) -> Sequence[int]:
    """Return what the decoder starts from: the language where there are several, to transcribe, without timestamps."""
    settings = loaded.model.generation_config
    start = [start_token(loaded)]
    languages = getattr(settings, "lang_to_id", None)
    if getattr(settings, "is_multilingual", False) and languages:
        with torch.inference_mode():
            first = torch.tensor([start], device=loaded.device)
            logits = loaded.model(**inputs, decoder_input_ids=first).logits[0, -1]
        spoken = max(languages.values(), key=lambda number: float(logits[number]))
        start += [int(spoken), int(settings.task_to_id["transcribe"])]
    without = getattr(settings, "no_timestamps_token_id", None)
    return start if without is None else [*start, int(without)]
