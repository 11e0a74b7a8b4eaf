"""Loads a Hugging Face model and its tokenizer, and says in one line what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stderr
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from io import StringIO
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any

from attncli.errors import ModelError, UsageError, did_you_mean
from attncli.labels import safe_label
from attncli.models import refusals
from attncli.models.adapters import WITHOUT, Adapter, fetch_adapter, find_adapter
from attncli.models.folder_check import check_folder, check_gguf, check_tokenizer_files
from attncli.models.folders import is_gguf, may_reach_hub, missing_model, resolve_model_folder
from attncli.models.load_options import LoadOptions as LoadOptions
from attncli.models.refusals import Asked, no_head
from attncli.models.towers import class_of, has_towers, mark_as_two_stacks, tower, writes_of_pictures
from attncli.models.vocabulary_check import check_vocabulary
from attncli.record import Kind

DTYPES = ("auto", "float32", "bfloat16", "float16", "float64")
DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")


@dataclass(frozen=True)
class Loaded:
    """A model, ready to run, and its tokenizer (None where the model takes no text).

    Args:
        adapter: The adapter that was applied to it, as the user named it.
        notes: What a reader of its attention must know of the checkpoint, one line each.
    """

    name: str
    model: Any
    tokenizer: Any
    options: LoadOptions
    folder: Path | None
    adapter: Adapter | None = None
    notes: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The model type that transformers knows it by: ``bert``, ``llama``."""
        return str(self.model.config.model_type)

    @cached_property
    def kind(self) -> Kind:
        """The kind of attention of a model with one stack of layers."""
        from attncli.models.direction import kind_of_single_stack

        return kind_of_single_stack(self.model)

    @property
    def device(self) -> Any:
        """The torch device that the model takes its inputs on."""
        spread: Mapping[str, Any] = getattr(self.model, "hf_device_map", {})
        places = [place for place in spread.values() if place != "disk"]
        if self.model.device.type != "meta":
            return self.model.device
        import torch

        return torch.device(places[0] if places else "cpu")

    @property
    def devices(self) -> str:
        """Where the model is, for people: ``cuda:0``, ``cuda:0, cpu, disk``."""
        spread: Mapping[str, Any] = getattr(self.model, "hf_device_map", {})
        names = [f"cuda:{place}" if isinstance(place, int) else str(place) for place in spread.values()]
        return ", ".join(dict.fromkeys(names)) or str(self.model.device)


KEPT: ContextVar[dict[object, Loaded] | None] = ContextVar("KEPT", default=None)
"""Where set, what was loaded is put there, and taken from there when it is asked for again."""


def load(name: str, options: LoadOptions | None = None, *, tokenizer: bool = True) -> Loaded:
    """Load a model, or take it from `KEPT`; see `load_afresh`."""
    kept, place = KEPT.get(), (name, repr(options or LoadOptions()), tokenizer)
    if kept is None:
        return load_afresh(name, options, tokenizer=tokenizer)
    if place not in kept:
        kept[place] = load_afresh(name, options, tokenizer=tokenizer)
    return kept[place]


def load_afresh(name: str, options: LoadOptions | None = None, *, tokenizer: bool = True) -> Loaded:
    """Load a model by folder, by name from the hub's cache, or from the hub.

    Args:
        name: ``./folder``, or ``organisation/name`` on the hub.
        tokenizer: Whether the model's tokenizer is wanted. Of a model with a tower for texts and one for pictures
            (CLIP), it is the first with a tokenizer and the second without.

    Raises:
        ModelError: It is not available: no such folder or name, no weights, no tokenizer, a broken file.
        UsageError: An option does not fit (a dtype or device that does not exist).
    """
    options = options or LoadOptions()
    _check_device_map(options)
    picture, adapter = not tokenizer, _adapter(name, options)
    if adapter is None:
        return _load(name, options, tokenizer, picture)
    if options.adapter:
        adapter.check(options.allow_pickle)
    try:
        needed = tokenizer and not adapter.has_tokenizer
        base = _load(adapter.base, _for_base(adapter, options), needed, picture)
    except ModelError as error:
        if adapter.base == name:
            raise
        raise ModelError(
            f"{safe_label(name)}: an adapter, and its base model cannot be loaded: {error.message}",
            error.hint,
        ) from error
    if tokenizer and adapter.has_tokenizer:
        with _translated(name, options):
            base = replace(base, tokenizer=_load_tokenizer(adapter.folder, options))
    if not options.adapter:
        return base
    return replace(base, adapter=adapter.apply(base.model, allow_pickle=options.allow_pickle))


def _load(name: str, options: LoadOptions, tokenizer: bool, picture: bool) -> Loaded:
    folder = local_folder(name, options, tokenizer)
    _quiet_transformers()
    # Of GGUF files transformers tells the progress, whatever it was told.
    silent = redirect_stderr(StringIO()) if folder is not None and is_gguf(folder) else nullcontext()
    with silent, _translated(name, options):
        made = _load_tokenizer(folder or name, options) if tokenizer else None
        model, notes = _load_model(folder or name, options, picture=picture)
    return Loaded(name, model, made, options, folder, notes=notes)


def tokenizer_of(name: str, options: LoadOptions) -> Any:
    """Load a model's tokenizer alone.

    Raises:
        ModelError: It is not available.
    """
    folder = resolve_model_folder(name, options.revision or "main")
    if folder is None and (options.offline or not may_reach_hub()):
        raise missing_model(name)
    _quiet_transformers()
    with _translated(name, options):
        return _load_tokenizer(folder or name, options)


def config_of(name: str, options: LoadOptions) -> Any:
    """Read a model's config alone; of an adapter, its base model's.

    Raises:
        ModelError: It is not available.
    """
    from transformers import AutoConfig

    _quiet_transformers()
    with _translated(name, options):
        adapter = _adapter(name, options)
        if adapter is not None:
            name, options = adapter.base, _for_base(adapter, options)
        where = local_folder(name, options, False) or name
        return AutoConfig.from_pretrained(_place(where), **_common(where, options))


def _adapter(name: str, options: LoadOptions) -> Adapter | None:
    """Find the adapter that a name stands for, or that lies beside the model of this name."""
    folder = resolve_model_folder(name, options.revision or "main")
    if folder is None and not options.offline and may_reach_hub():
        folder = fetch_adapter(name, options.revision)
    return find_adapter(name, folder)


def _for_base(adapter: Adapter, options: LoadOptions) -> LoadOptions:
    """Return the options that an adapter's base model is loaded with; a revision is that of the adapter."""
    if adapter.is_beside:
        return options
    return replace(options, revision=None if Path(adapter.base).is_dir() else adapter.base_revision)


def local_folder(name: str, options: LoadOptions, tokenizer: bool) -> Path | None:
    """Find the model on this machine; None where the hub must be asked (not cached, or not wholly) and may be.

    Raises:
        ModelError: It is not here, and the hub may not be asked.
    """
    folder = _checked_folder(name, options, tokenizer)
    if folder is None and (options.offline or not may_reach_hub()):
        # Asked anyway, the hub's client would go on trying for a minute.
        raise missing_model(name, "--offline was given" if options.offline else "the hub cannot be reached")
    return folder


def _checked_folder(name: str, options: LoadOptions, tokenizer: bool) -> Path | None:
    folder = resolve_model_folder(name, options.revision or "main")
    if folder is None:
        return None
    if is_gguf(folder):
        check_gguf(name)
    named = Path(name).expanduser().exists()
    if named and options.revision is not None:
        raise UsageError(
            f"--revision {safe_label(options.revision)}: {safe_label(name)} is a folder and has no revisions",
            "leave it out; it is for models on the hub",
        )
    try:
        if not is_gguf(folder):
            check_folder(folder, safe_label(name), allow_pickle=options.allow_pickle, tokenizer=tokenizer)
    except ModelError:
        if named or options.offline:
            raise
        return None
    return folder


def _load_tokenizer(where: str | Path, options: LoadOptions) -> Any:
    from transformers import AutoTokenizer

    try:
        made = AutoTokenizer.from_pretrained(_place(where), **_common(where, options))
    except Exception:  # the tokenizers library raises nothing more special
        if (folder := resolve_model_folder(str(where), options.revision or "main")) is not None:
            check_tokenizer_files(folder)
        raise
    if (folder := resolve_model_folder(str(where), options.revision or "main")) is not None:
        check_vocabulary(made, folder, safe_label(str(where)))
    return made


def _load_model(where: str | Path, options: LoadOptions, *, picture: bool) -> tuple[Any, tuple[str, ...]]:
    """Load a model, and return it with notes on its checkpoint."""
    from transformers import AutoConfig

    from attncli.models.checkpoint import (
        check_filled,
        check_quantisation,
        check_sizes,
        further_layers,
        whole_report,
    )

    keywords = _common(where, options) | {
        "dtype": _dtype(options),
        "use_safetensors": None if options.allow_pickle else True,
        "ignore_mismatched_sizes": True,  # they are in the report then, and refused below
    }
    if options.attention is not None:
        keywords["attn_implementation"] = options.attention
    if options.device_map is not None:
        keywords |= {"device_map": options.device_map, "offload_folder": options.offload_folder}
    config = AutoConfig.from_pretrained(_place(where), **_common(where, options))
    name = safe_label(str(where))
    in_towers = not options.head and has_towers(config) and not writes_of_pictures(config)
    check_quantisation(config, where if isinstance(where, Path) else None, name)
    with whole_report():
        model, report = _model_class(config, options).from_pretrained(
            _place(where), output_loading_info=True, adapter_kwargs=WITHOUT, **keywords
        )
    check_sizes(report["mismatched_keys"], name)
    folder = resolve_model_folder(str(where), options.revision or "main")
    if folder != where:  # it has been downloaded just now
        check_quantisation(config, folder, name)
    if check_filled(model, report, name, folder=folder, head=options.head):
        raise no_head(name)
    more = further_layers(model, report["unexpected_keys"])
    notes = (f"the checkpoint has more layers than config.json names ({min(more)}, …)",) if more else ()
    mark_as_two_stacks(model)
    if in_towers:
        model = tower(model, name, picture=picture)
    return (model if options.device_map is not None else model.to(options.device)).eval(), notes


def _model_class(config: Any, options: LoadOptions) -> Any:
    from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM
    from transformers import AutoModelForImageTextToText as ImageText
    from transformers import AutoModelForSpeechSeq2Seq as Speech

    whole = class_of(config)
    if not options.head or type(config) not in AutoModel._model_mapping:
        return AutoModel if whole is None else whole
    if type(config) in Speech._model_mapping:
        return Speech
    if type(config) in ImageText._model_mapping and not config.is_encoder_decoder:
        return ImageText
    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


def _check_device_map(options: LoadOptions) -> None:
    """Refuse to spread a model where that cannot be done."""
    if options.device_map is None:
        return
    if isinstance(options.device_map, str) and options.device_map not in DEVICE_MAPS:
        hint = did_you_mean(options.device_map, DEVICE_MAPS)
        raise UsageError(f"--device-map {options.device_map}: unknown device map", hint)
    if find_spec("accelerate") is None:
        raise UsageError(
            "--device-map needs accelerate, which is not installed", 'pip install "attncli[big]"'
        )


def _place(where: str | Path) -> str | Path:
    """Return what transformers loads from: a name, or the folder."""
    return Path(where).parent if is_gguf(where) else where


def _common(where: str | Path, options: LoadOptions) -> dict[str, Any]:
    keywords = {
        "revision": options.revision or "main",
        "trust_remote_code": options.trust_remote_code,
        "local_files_only": options.offline,
    }
    return keywords | ({"gguf_file": Path(where).name} if is_gguf(where) else {})


def _dtype(options: LoadOptions) -> Any:
    import torch

    if options.dtype == "auto":
        spread = options.device_map is not None and torch.cuda.is_available()
        return torch.float32 if torch.device(options.device).type == "cpu" and not spread else "auto"
    if options.dtype not in DTYPES:
        raise UsageError(f"--dtype {options.dtype}: unknown type", did_you_mean(options.dtype, DTYPES))
    return getattr(torch, options.dtype)


def _quiet_transformers() -> None:
    """Keep loading bars and reports off stderr; what matters of them we say ourselves."""
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging

    hub_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()
    getLogger("accelerate").setLevel(ERROR)
    logging.disable_progress_bar()


def _translated(name: str, options: LoadOptions) -> AbstractContextManager[None]:
    asked = Asked(options.attention, options.device, options.device_map is not None, options.head)
    return refusals.loading(name, asked)
