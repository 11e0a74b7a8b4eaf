"""Adapters (LoRA and its like) that lie beside a model's weights, or instead of them: found, applied by peft, told."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attncli.errors import ModelError
from attncli.labels import safe_label

_CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"
_PICKLE = "adapter_model.bin"

WITHOUT = {"subfolder": "no-adapter"}
"""transformers' ``adapter_kwargs`` that keep it from applying an adapter by itself: a folder that is not there."""


@dataclass(frozen=True)
class Adapter:
    """An adapter on this machine.

    Args:
        name: As the user named it.
        folder: Where its files are.
        settings: What its ``adapter_config.json`` says.
        notes: What peft warned of when it applied the adapter.
    """

    name: str
    folder: Path
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def is_beside(self) -> bool:
        """Whether its base model lies in the same folder."""
        return (self.folder / "config.json").is_file() and _has_weights(self.folder)

    @property
    def has_tokenizer(self) -> bool:
        """Whether the tokenizer that it was made with lies beside it, and no base model."""
        files = ("tokenizer.json", "tokenizer_config.json")
        return not self.is_beside and all((self.folder / file).is_file() for file in files)

    @property
    def base_revision(self) -> str | None:
        """The revision of the base model that it was made for."""
        revision = self.settings.get("revision")
        return revision if isinstance(revision, str) else None

    @property
    def base(self) -> str:
        """The model that it was made for: the one in the same folder where there is one, else the one it names.

        Raises:
            ModelError: It names none.
        """
        if self.is_beside:
            return self.name
        named = self.settings.get("base_model_name_or_path")
        if not isinstance(named, str) or not named:
            raise ModelError(
                f"{safe_label(self.name)}: an adapter whose {_CONFIG} does not name its base model",
                "set base_model_name_or_path there",
            )
        beside = self.folder / named
        return str(beside) if not Path(named).exists() and beside.is_dir() else named

    def check(self, allow_pickle: bool) -> None:
        """Refuse an adapter that cannot be applied.

        Raises:
            ModelError: It has no weights, or peft is not installed.
        """
        name = safe_label(self.name)
        if not isinstance(self.settings.get("peft_type"), str):
            raise ModelError(
                f"{name}: its {_CONFIG} has no peft_type, so peft cannot apply it",
                "--no-adapter loads the base model",
            )
        if find_spec("peft") is None:
            raise ModelError(
                f"{name}: an adapter ({self.kind}) is there, and peft, which applies it, is not installed",
                'pip install "attncli[peft]"; --no-adapter loads the base model',
            )
        if not (self.folder / _WEIGHTS).is_file():
            if not (self.folder / _PICKLE).is_file():
                raise ModelError(f"{name}: an adapter without its weights ({_WEIGHTS})")
            if not allow_pickle:
                raise ModelError(
                    f"{name}: its adapter's weights are a pickle ({_PICKLE}), which can run any code when loaded",
                    "--allow-pickle loads it; use it only if you trust the source",
                )

    @property
    def kind(self) -> str:
        """How it changes the model: ``LORA``."""
        return safe_label(str(self.settings.get("peft_type")))

    def apply(self, model: Any, *, allow_pickle: bool) -> Adapter:
        """Apply the adapter to its base model, and merge it into the weights where that can be done.

        Returns:
            The adapter, with what peft warned of.

        Raises:
            ModelError: It does not fit the model.
        """
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                report = model.load_adapter(
                    str(self.folder),
                    peft_config=_settings_for(model, self.folder),
                    use_safetensors=None if allow_pickle else True,
                    ignore_mismatched_sizes=True,  # the report names them
                )
        except KeyError as error:
            raise self._refused(f"peft does not know {error}") from error
        except Exception as error:  # whatever peft makes of a file that somebody else wrote
            raise self._refused(_first_sentence(error)) from error
        if report.mismatched_keys:
            key, got, wanted = min(report.mismatched_keys)
            raise self._refused(f"{key} is {_size(got)} there, the model needs {_size(wanted)}")
        filled = _fill_vectors(model, report.missing_keys, self.folder / _WEIGHTS)
        if lacking := report.missing_keys - filled:
            raise self._refused(f"it does not hold {min(lacking)}")
        taken = {key.removesuffix(".weight") for key in filled}
        unused = [key for key in report.unexpected_keys if self._is_for(model, key)]
        if unused := [key for key in unused if key.removeprefix(f"{model.base_model_prefix}.") not in taken]:
            raise self._refused(f"the model has no place for {min(unused)}")
        if getattr(model, "hf_quantizer", None) is None:
            _merge(model)
        about = (f"peft: {_first_sentence(warning.message)}" for warning in warned)
        return replace(self, notes=tuple(dict.fromkeys(about)))

    def _is_for(self, model: Any, key: str) -> bool:
        """Return whether an adapter's weight is for a part that this model has, not for a task's head."""
        own = key.removeprefix("base_model.model.").removeprefix(f"{model.base_model_prefix}.")
        base = getattr(model, "base_model", model)
        return hasattr(base, own.partition(".")[0])

    def _refused(self, reason: str) -> ModelError:
        return ModelError(
            f"{safe_label(self.name)}: the adapter does not fit its base model: {safe_label(reason)}",
            "--no-adapter loads the base model",
        )


def fetch_adapter(name: str, revision: str | None) -> Path | None:
    """Download the adapter that a name on the hub stands for, and return its folder; None where it is no adapter."""
    from transformers.utils import cached_file, find_adapter_config_file

    path = find_adapter_config_file(name, revision=revision)
    for file in (_WEIGHTS, "tokenizer.json", "tokenizer_config.json") if path is not None else ():
        cached_file(name, file, revision=revision, _raise_exceptions_for_missing_entries=False)
    return None if path is None else Path(path).parent


def find_adapter(name: str, folder: Path | None) -> Adapter | None:
    """Find the adapter in a model's folder.

    Raises:
        ModelError: Its settings cannot be read.
    """
    path = None if folder is None else folder / _CONFIG
    if folder is None or path is None or not path.is_file():
        return None
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{safe_label(name)}: its {_CONFIG} is not JSON ({error})") from error
    if not isinstance(settings, dict):
        raise ModelError(f"{safe_label(name)}: its {_CONFIG} is not a JSON object")
    return Adapter(name, folder, settings)


def _fill_vectors(model: Any, missing: Collection[str], file: Path) -> set[str]:
    """Fill what peft saves without the ending of its name, such as DoRA's magnitudes, and return the names."""
    from safetensors import safe_open

    filled: set[str] = set()
    if not missing or not file.is_file():
        return filled
    with safe_open(file, framework="pt") as opened:
        stored = {
            key.removeprefix("base_model.model.").removeprefix(f"{model.base_model_prefix}."): key
            for key in opened.keys()
        }
        for name in missing:
            key = stored.get(name.removesuffix(".weight").removesuffix(".default"))
            parameter = model.get_parameter(name)
            if key is not None and tuple(opened.get_slice(key).get_shape()) == tuple(parameter.shape):
                parameter.data.copy_(opened.get_tensor(key))
                filled.add(name)
    return filled


def _settings_for(model: Any, folder: Path) -> Any:
    """Read an adapter's settings, with names as they are in a model that was loaded without its head."""
    from peft import PeftConfig

    settings = PeftConfig.from_pretrained(str(folder))
    prefix = re.compile(rf"^(\^?){re.escape(model.base_model_prefix)}\.")
    if hasattr(model, model.base_model_prefix):
        return settings
    for name in ("target_modules", "exclude_modules", "modules_to_save", "rank_pattern", "alpha_pattern"):
        named = getattr(settings, name, None)
        if isinstance(named, dict):
            setattr(settings, name, {prefix.sub(r"\1", module): value for module, value in named.items()})
        elif isinstance(named, (list, set)):
            setattr(settings, name, type(named)(prefix.sub(r"\1", module) for module in named))
    return settings


def _has_weights(folder: Path) -> bool:
    endings = (".safetensors", ".bin", ".safetensors.index.json", ".bin.index.json")
    names = (path.name for path in folder.iterdir())
    return any(name.endswith(endings) and not name.startswith("adapter_") for name in names)


def _merge(model: Any) -> None:
    """Put the adapted weights in the place of the adapted modules, so that the model is a plain one again."""
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import ModulesToSaveWrapper

    for name, module in list(model.named_modules()):
        if isinstance(module, ModulesToSaveWrapper):
            model.set_submodule(name, module.modules_to_save[module.active_adapters[0]])
        elif isinstance(module, BaseTunerLayer):
            try:
                module.merge(safe_merge=True)
            except (NotImplementedError, ValueError, AttributeError):
                continue  # a kind that cannot be merged goes on running beside the weights
            model.set_submodule(name, module.get_base_layer())


def _first_sentence(said: Exception | Warning | str) -> str:
    return " ".join(str(said).split()).partition(". ")[0][:200]


def _size(shape: Any) -> str:
    return "×".join(map(str, shape))
