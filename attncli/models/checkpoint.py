"""Whether a checkpoint fills its model: transformers' loading report, read before it is silenced.

Random numbers in a weight that attention depends on make wrong maps that look right. So each weight that the checkpoint
lacks must be shown to have no influence on attention (`sources/influence.py`), and what the checkpoint holds and the
model does not take must not belong to the parts that attention is computed by: scales, unmerged adapters, biases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from attncli.errors import ModelError
from attncli.labels import safe_label
from attncli.models.influence import influential

_PACKED = ("I8", "U8", "I16", "U16", "I32", "U32", "F4", "F6_E2M3", "F6_E3M2", "F8_E8M0")
"""Number formats of safetensors that hold quantised weights, and nothing that can be cast to a float as it is."""

_ADAPTER_WORDS = ("lora_", "base_layer", "modules_to_save")
_SCALE_WORDS = (
    "scale",
    "qweight",
    "qzeros",
    "g_idx",
    "packed",
    "absmax",
    "quant",
    "scb",
    "zero_point",
    "codebook",
)
_NEVER = -1e3
"""A scalar below this stands for minus infinity in a mask; no scale is."""


def check_quantisation(config: Any, folder: Path | None, name: str) -> None:
    """Refuse quantised weights that nobody would turn back into numbers.

    Args:
        config: The model's config.
        folder: Where its weights are, if they are on this machine.

    Raises:
        ModelError: The config names a method that transformers does not know, or the weights are quantised and no
            method is named.
    """
    settings = _quantisation(config)
    if settings is None:
        packed = None if folder is None else next(_packed_keys(folder), None)
        if packed is not None:
            raise ModelError(
                f"{name}: its weights are quantised ({packed[0]} is {packed[1]}) and its config.json does not say how",
                "save it dequantised, or with the quantization_config that it was made with",
            )
        return
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING as known

    method = settings.get("quant_method")
    if settings.get("load_in_8bit") or settings.get("load_in_4bit"):
        return
    if method not in known:
        told = "no quant_method" if method is None else f"quant_method {safe_label(str(method))}"
        raise ModelError(
            f"{name}: its weights are quantised with {told}, which the installed transformers cannot load",
            f"save it dequantised, or quantised by one of: {', '.join(sorted(map(str, known)))}",
        )


def check_sizes(mismatched: Iterable[tuple[str, Iterable[int], Iterable[int]]], where: str) -> None:
    """Refuse weights of other sizes than config.json says.

    Raises:
        ModelError: There are some.
    """
    for key, stored, wanted in sorted(mismatched, key=lambda one: one[0]):
        sizes = ["×".join(map(str, shape)) for shape in (stored, wanted)]
        raise ModelError(
            f"{where}: {safe_label(key)} is {sizes[0]} in the weights, and {sizes[1]} by config.json",
            "its config.json and its weights do not match",
        )


@contextmanager
def whole_report() -> Iterator[None]:
    """Let transformers' report name every missing weight, also those that the model's class would leave out of it."""
    from transformers import PreTrainedModel

    adjust = PreTrainedModel._adjust_missing_and_unexpected_keys

    def adjust_unexpected_only(model: Any, *arguments: Any) -> None:
        ignored, model._keys_to_ignore_on_load_missing = model._keys_to_ignore_on_load_missing, None
        try:
            adjust(model, *arguments)
        finally:
            model._keys_to_ignore_on_load_missing = ignored

    PreTrainedModel._adjust_missing_and_unexpected_keys = adjust_unexpected_only
    try:
        yield
    finally:
        PreTrainedModel._adjust_missing_and_unexpected_keys = adjust


def check_filled(
    model: Any, report: Mapping[str, Any], name: str, *, folder: Path | None, head: bool
) -> list[str]:
    """Refuse a model whose attention would run on random numbers.

    Args:
        report: What transformers' ``from_pretrained`` tells with ``output_loading_info``.
        folder: Where the weights are, if they are on this machine.
        head: Whether the model's predictions are wanted too.

    Returns:
        The missing weights that only predictions depend on; empty without `head`.

    Raises:
        ModelError: Attention depends on a weight that is missing, or on what the checkpoint holds in another form.
    """
    lacking = influential(model, report["missing_keys"], head=head)
    ignored = sorted(report["unexpected_keys"])
    base = f"{model.base_model_prefix}."
    if head and lacking and not any(key.startswith(base) for key in lacking):
        return lacking
    if lacking:
        hint = _remedy(ignored) or "its config.json and its weights do not match"
        raise ModelError(
            f"{name}: the checkpoint lacks {len(lacking)} of the model's weights ({_listed(lacking)})", hint
        )
    if getattr(model, "hf_quantizer", None) is not None:
        return []  # it has taken what it needs; what is left are scales for caches and activations
    needed = [key for key in ignored if _belongs_to_a_part(model, key)]
    if needed:
        stored = _tensors(folder, needed)
        needed = [key for key in needed if not _is_computed(stored.get(key))]
        needed = [key for key in needed if not _is_output_table(model, stored.get(key))]
    if needed:
        raise ModelError(
            f"{name}: the model does not take {len(needed)} of the checkpoint's weights ({_listed(needed)})",
            _remedy(needed) or "its config.json and its weights do not match",
        )
    return []


def further_layers(model: Any, unexpected: Collection[str]) -> set[str]:
    """Return the layers of the checkpoint that the model does not have, ``layers.2``: its config names fewer."""
    found = set()
    for key in unexpected:
        module: Any = getattr(model, "base_model", model)
        path: list[str] = []
        for part in key.removeprefix(f"{model.base_model_prefix}.").split("."):
            path.append(part)
            below = getattr(module, part, None)
            if not isinstance(below, nn.Module):
                if isinstance(module, nn.ModuleList) and part.isdecimal():
                    found.add(safe_label(".".join(path)))
                break
            module = below
    return found


def _quantisation(config: Any) -> Mapping[str, Any] | None:
    """Return a config's settings of quantisation, its text model's where it has none itself."""
    for part in (config, config.get_text_config(decoder=True)):
        settings = getattr(part, "quantization_config", None)
        if settings is not None:
            return settings if isinstance(settings, Mapping) else dict(settings.to_dict())
    return None


def _packed_keys(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and formats of tensors in a number format that only quantised weights have."""
    for key, file in _files_by_key(folder).items():
        part = file.get_slice(key)
        shape = part.get_shape()
        formats = (*_PACKED, "I64") if key.endswith("weight") else _PACKED
        if part.get_dtype() in formats and len(shape) > 1 and not _is_computed(file.get_tensor(key)):
            yield safe_label(key), part.get_dtype()


def _files_by_key(folder: Path) -> dict[str, Any]:
    from safetensors import safe_open

    files = [safe_open(path, framework="pt") for path in sorted(folder.glob("*.safetensors"))]
    return {str(key): file for file in files for key in file.keys()}  # type: ignore[no-untyped-call]


def _tensors(folder: Path | None, keys: Collection[str]) -> dict[str, Tensor]:
    """Read tensors by the name that transformers reports, which may lack the prefix that the file has."""
    files = {} if folder is None else _files_by_key(folder)
    found = {}
    for key in keys:
        stored = next((name for name in files if name == key or name.endswith(f".{key}")), None)
        if stored is not None:
            found[key] = files[stored].get_tensor(stored)
    return found


def _belongs_to_a_part(model: Any, key: str) -> bool:
    """Return whether a weight that the model does not take lies in a part that the model has.

    A task's head lies beside these parts: nothing of its path is in the model. So do further layers (a model that was
    cut, a predictor of further tokens). A buffer that the model computes is not needed from the file, nor is what
    hidden patches are replaced with in training.
    """
    *path, own = key.removeprefix(f"{model.base_model_prefix}.").split(".")
    root: nn.Module = getattr(model, "base_model", model)
    module = root
    for part in path:
        below = getattr(module, part, None)
        if not isinstance(below, nn.Module):
            break
        module = below
    if module is root or isinstance(module, nn.ModuleList):
        return False
    return own not in module._buffers and own != "mask_token"


def _is_output_table(model: Any, tensor: Tensor | None) -> bool:
    """Return whether a tensor gives each token of the vocabulary its score, as a language-model head does.

    Checkpoints of text models with a vision tower may hold it inside their text part, where it is no longer.
    """
    table = getattr(model.get_input_embeddings(), "weight", None)
    return tensor is not None and table is not None and tensor.shape == table.shape


def _is_computed(tensor: Tensor | None) -> bool:
    """Return whether a tensor's numbers are those that models compute themselves.

    Masks of zeros and ones, positions, inverse frequencies of a rotation, minus infinity, a counter.
    """
    if tensor is None:
        return False
    if tensor.numel() == 1:
        return not tensor.is_floating_point() or float(tensor) < _NEVER
    if not tensor.is_floating_point():
        flat = tensor.flatten().long()
        return bool((flat <= 1).all() and (flat >= 0).all()) or bool((flat.diff() == 1).all())
    numbers = tensor.float()
    if tensor.dim() == 1:
        return bool(numbers[0] == 1 and (numbers > 0).all() and (numbers.diff() < 0).all())
    square = tensor.dim() == 4 and tensor.shape[-1] == tensor.shape[-2]
    return square and bool((numbers == numbers.new_ones(numbers.shape).tril()).all())


def _remedy(keys: Collection[str]) -> str | None:
    """Return what to do about tensors that the model does not take, where their names tell what they are."""
    if (key := _first_with(_ADAPTER_WORDS, keys)) is not None:
        return f"it holds an adapter that is not merged ({key}): merge_and_unload() of peft, and save again"
    if (key := _first_with(_SCALE_WORDS, keys)) is not None:
        return f"it is quantised and no method is named ({key}): save it dequantised, or with quantization_config"
    return None


def _first_with(words: Collection[str], keys: Collection[str]) -> str | None:
    return next((safe_label(key) for key in sorted(keys) if any(word in key.lower() for word in words)), None)


def _listed(keys: Collection[str]) -> str:
    shown = sorted(map(safe_label, keys))
    return ", ".join([*shown[:3], "…"] if len(shown) > 3 else shown)
