"""Opens the model that the user named: a pretrained one, one that comes with attncli, or the untrained one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from attncli import registry
from attncli.cli.options import GenerationOptions, ModelOptions, OutputOptions, ScratchOptions
from attncli.cli.output import say
from attncli.cli.progress import progress
from attncli.errors import UsageError
from attncli.inputs.media import check_exists, is_file, medium_of, models_of, refuse_medium
from attncli.labels import safe_label
from attncli.models.shipped import DEFAULT, shipped_models
from attncli.record import Kind, Observer, Run, Tokens

if TYPE_CHECKING:
    from attncli.models.loading import Loaded, LoadOptions


class Opened(Protocol):
    """A source with its text in it."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention it has."""

    def depth(self, kind: Kind) -> int:
        """Return the number of layers with a kind of attention."""

    def axes(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """Return query and key tokens."""

    def run(self, observers: Sequence[Observer]) -> Run:
        """Run forward once."""


def open_source(
    text: str,
    pair: str | None,
    model: ModelOptions,
    scratch: ScratchOptions,
    output: OutputOptions,
    writing: GenerationOptions | None = None,
    stride: int | None = None,
    images: Sequence[str] = (),
    *,
    head: bool = False,
) -> Opened:
    """Open what the user named: a pretrained model, one that comes with attncli, or the untrained one.

    Args:
        images: Names of the pictures that the text is about.
        head: Whether the model is to predict tokens.
        writing: What the model is to write, and whether the text is a message to it.
        stride: By how many tokens windows advance over a text that is longer than the model reads.

    Raises:
        AttnCliError: It is not available, or does not take this text.
    """
    for one in (text, pair):
        refuse_medium(one)
    if is_file(text) and not output.quiet:
        say(f'note: "{safe_label(text)}" is a file, but its name was used as the text; --file reads the file')
    name = model_name(model, scratch, pair)
    if name == "scratch":
        return _open_scratch(text, pair, model, scratch)
    if not text:
        raise UsageError("the text is empty: there is nothing to attend to")
    if name in shipped_models():
        return _open_shipped(name, text, pair, model)
    assert model.model is not None
    check_reads(model, output, text)
    if images:
        with _loading(model, output):
            from attncli.models.image_text import open_image_text

            seed, verify = scratch.seed or 0, not model.no_verify
            return open_image_text(
                model.model, load_options(model), text, images, writing, seed, verify=verify
            )
    if writing is not None and (writing.generate or writing.chat):
        return _open_writer(text, model, scratch.seed or 0, output, writing)
    if stride is not None:
        return _open_strided(text, model, output, stride)
    with _loading(model, output):
        from attncli.models.pretrained import open_model

        return open_model(
            model.model,
            text,
            pair,
            options=replace(load_options(model), head=head),
            truncate=model.truncate,
            verify=not model.no_verify,
            fast=model.fast,
        )


def medium_for(text: str, model: ModelOptions, output: OutputOptions) -> str | None:
    """Return what kind of file a text names that the model is to read; None where it is a text.

    Raises:
        AttnCliError: The file is not there, or the model does not take such a thing, or is not available.
    """
    medium = medium_of(text)
    if medium is None or model.model in (None, "scratch", *shipped_models()):
        return None
    assert model.model is not None
    with _loading(model, output):
        from attncli.models.input_kinds import inputs_of

        takes = inputs_of(model.model, load_options(model))
    if medium in takes.files:
        check_exists(text)
        return medium
    if not is_file(text):
        return None
    who = f"{safe_label(text)} is a {medium}, and {safe_label(model.model)} ({takes.family})"
    if takes.mixed:
        raise UsageError(f"{who} takes it together with a text only", _with_text(text, medium))
    raise UsageError(f"{who} takes {takes}", f"name {models_of(medium)}")


def _with_text(name: str, medium: str) -> str | None:
    """Return the hint that says how a picture goes with a text."""
    return (
        None
        if medium != "picture"
        else f'try: attncli show "What is this?" --image {safe_label(name)} -m NAME'
    )


def check_reads(model: ModelOptions, output: OutputOptions, text: str | None = None) -> None:
    """Refuse a pretrained model that reads no text, before anything of it is loaded but its config.

    Args:
        text: What it is to read, where that is one text; it may be the name of a file that is not there.

    Raises:
        AttnCliError: It takes something else, or is not available.
    """
    assert model.model is not None
    with _loading(model, output):
        from attncli.models.input_kinds import inputs_of

        takes = inputs_of(model.model, load_options(model))
    if takes.text:
        return
    check_exists(text or "")
    name = safe_label(model.model)
    examples = [registry.entries("inputs")[kind].attributes["example"] for kind in takes.files]
    hint = f"try: attncli show {examples[0]} --model {name}" if examples else None
    what = " or ".join(f"a {kind}" for kind in takes.files) or "other inputs"
    raise UsageError(f"this model takes {what}, not a text: {name} ({takes.family})", hint)


def model_name(model: ModelOptions, scratch: ScratchOptions, pair: str | None = None) -> str:
    """Return which model is meant: the one named, the scratch model where its options are used, else the default.

    Raises:
        UsageError: Nothing but ``--heads`` or ``--layers`` asks for the scratch model: one letter more than ``--head``.
    """
    if model.model is not None:
        return model.model
    if (given := scratch.given()) and not set(given) - {"--heads", "--layers"}:
        hint = f"did you mean {given[0].removesuffix('s')}? Or add --model scratch"
        raise UsageError(f"{given[0]} sets the size of the untrained scratch model", hint)
    asked = scratch.given() or pair is not None or scratch.seed is not None
    return "scratch" if asked else DEFAULT


def _open_scratch(text: str, pair: str | None, model: ModelOptions, scratch: ScratchOptions) -> Opened:
    from attncli.models.scratch import ScratchSource

    return ScratchSource(
        text,
        pair,
        layers=scratch.layers or 1,
        heads=scratch.heads or 1,
        d_model=scratch.d_model or 64,
        causal=scratch.causal,
        seed=scratch.seed or 0,
        verify=not model.no_verify,
        variant=scratch.variant,
        settings=tuple(scratch.set or ()),
    )


def _open_shipped(name: str, text: str, pair: str | None, model: ModelOptions) -> Opened:
    from attncli.models.trained import TrainedSource

    return TrainedSource(name, text, pair, truncate=model.truncate, verify=not model.no_verify)


def is_pretrained(model: ModelOptions) -> bool:
    """Return whether a pretrained model was named, and none that comes with attncli."""
    return model.model not in (None, "scratch", *shipped_models())


def load_model(model: ModelOptions, output: OutputOptions, device: str | None = None) -> Loaded:
    """Load the pretrained model that the user named.

    Args:
        device: Where it runs, if not where the user said: on this rank's GPU.
    """
    assert model.model is not None
    options = load_options(model)
    with _loading(model, output):
        from attncli.models.loading import load

        return load(model.model, options if device is None else replace(options, device=device))


def _open_strided(text: str, model: ModelOptions, output: OutputOptions, stride: int) -> Opened:
    """Open a model that reads a long text in windows."""
    from attncli.models.windows import stride_over

    loaded = load_model(model, output)
    return stride_over(loaded, text, stride, verify=not model.no_verify, fast=model.fast)


def _open_writer(
    text: str, model: ModelOptions, seed: int, output: OutputOptions, writing: GenerationOptions
) -> Opened:
    """Open a model that reads a message of a conversation, or goes on writing, or both."""
    assert model.model is not None
    with _loading(model, output):
        from attncli.models.chat import prepare_chat
        from attncli.models.loading import load
        from attncli.models.prepared_text import prepare
        from attncli.models.pretrained import PretrainedSource

        loaded = load(model.model, replace(load_options(model), head=bool(writing.generate)))
        prepared = (
            prepare_chat(loaded, text, writing.system, truncate=model.truncate)
            if writing.chat
            else prepare(loaded, text, truncate=model.truncate)
        )
    if not writing.generate:
        return PretrainedSource(loaded, prepared, verify=not model.no_verify)
    with progress("generating …", output):
        from attncli.models.generation import Sampling, write

        sampling = Sampling(writing.generate, writing.temperature, seed)
        return write(loaded, prepared, sampling, verify=not model.no_verify)


def _loading(model: ModelOptions, output: OutputOptions) -> AbstractContextManager[object]:
    return progress(f"loading {safe_label(model.model or DEFAULT)} …", output)


def load_options(model: ModelOptions) -> LoadOptions:
    """Return the options of loading among those of a model."""
    from attncli.models.loading import LoadOptions

    return LoadOptions(
        revision=model.revision,
        dtype=model.dtype,
        device=model.device,
        attention=model.attention,
        trust_remote_code=model.trust_remote_code,
        allow_pickle=model.allow_pickle,
        offline=model.offline,
        device_map=model.device_map,
        offload_folder=model.offload_folder,
        adapter=not model.no_adapter,
    )
