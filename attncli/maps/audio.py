"""A sound instead of a text: what `attncli show speech.wav` does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.cli.options import GenerationOptions, ModelOptions, OutputOptions
from attncli.cli.progress import progress
from attncli.cli.rules import Rule, check_rules
from attncli.errors import UsageError
from attncli.labels import safe_label
from attncli.maps import OpenedInput
from attncli.models.input_kinds import inputs_of
from attncli.models.opening import load_options
from attncli.registry import Entry

if TYPE_CHECKING:
    from attncli.maps.options import ShowOptions
    from attncli.models.speech import Heard


ENTRY = Entry(
    name="sound",
    summary="a sound: what a model hears in it, or writes down of it",
    attributes={
        "suffixes": (".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac"),
        "models": "Whisper, wav2vec2, HuBERT, AST, …",
        "example": "speech.wav",
        "takes": ("input_features", "input_values", "audio_values"),
    },
)


RULE = Rule("--pair --stride --chat --temperature", excludes="@sound", hint="it is for texts: leave it out")


def open_input(
    path: str,
    choice: ShowOptions,
    model: ModelOptions,
    output: OutputOptions,
    writing: GenerationOptions,
    formats: Collection[str],
) -> OpenedInput:
    """Open a sound's transcription; the columns that are shown end with the sound.

    Raises:
        AttnCliError: The sound cannot be read, or an option does not go with it.
    """
    assert model.model is not None
    check_rules((RULE,), "@sound")
    with progress(f"loading {safe_label(model.model)} …", output):
        from attncli.models.loading import load

        options = load_options(model)
        takes = inputs_of(model.model, options)
        writes = takes.writes and (choice.kind != "encoder" or writing.generate is not None)
        loaded = load(model.model, replace(options, head=takes.writes), tokenizer=writes)
    if writing.generate and not writes:
        raise UsageError(
            f"--generate: {loaded.name} ({takes.family}) writes nothing of a sound", "leave it out"
        )
    with progress("listening …", output):
        from attncli.models.speech import listen, transcribe

        checks = {"truncate": model.truncate, "verify": not model.no_verify}
        heard = (
            transcribe(loaded, Path(path), tokens=writing.generate, **checks)
            if writes
            else listen(loaded, Path(path), **checks)
        )
    part = _heard_part(choice, heard)
    return OpenedInput(heard.without_silence if part is not choice and part.key else heard.source, part)


def _heard_part(choice: ShowOptions, heard: Heard) -> ShowOptions:
    """Leave out the silence after the sound, unless something else is asked for."""
    if choice.key == "all":
        return replace(choice, key=None)
    if choice.key is not None or choice.kind == "decoder" or choice.words or choice.pool is not None:
        return choice
    if not heard.silence:
        return choice
    sound, rows = f"0-{heard.frames - 1}", choice.rows
    only_encoder = choice.kind == "encoder" or heard.source.kinds == ("encoder",)
    if only_encoder and rows is None and choice.query is None:
        rows = sound
    return replace(choice, key=sound, rows=rows)
