"""Which of a model's weights its attention depends on, found by changing them and looking."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor, nn

from attncli.capture.module_stack import ATTENTION_CLASS
from attncli.models.towers import main_input

_TOKENS = 8
_SAMPLES = 8000
_NUMBER = re.compile(r"\.\d+\.")


def influential(model: Any, keys: Collection[str], *, head: bool) -> list[str]:
    """Return those of a model's weights that its attention depends on, or may depend on.

    A weight inside a layer of a stack that attends always counts. Any other is filled with other numbers while the
    model reads a small input: it has no influence where its module ran and the output of every attention module stayed
    the same to the bit. What the model computes itself, such as tables of positions, does not count.

    Args:
        keys: Names of parameters and buffers.
        head: Whether what the model predicts counts too.
    """
    containers = attention_containers(model)
    learned = {key: tensor for key in keys if (tensor := _learned(model, key)) is not None}
    inside = {key for key in learned if in_a_layer(key, containers)}
    outside = {key: tensor for key, tensor in learned.items() if key not in inside}
    if not outside:
        return sorted(inside)
    return sorted(inside | _found_by_trying(model, outside, head))


def attention_containers(model: nn.Module) -> frozenset[str]:
    """Return the paths of the lists whose numbered layers attend: ``encoder.layer``."""
    paths = (name for name, module in model.named_modules() if ATTENTION_CLASS.search(type(module).__name__))
    numbers = ((path, _NUMBER.search(f"{path}.")) for path in paths)
    return frozenset(path[: number.start()] for path, number in numbers if number is not None)


def in_a_layer(key: str, containers: Collection[str]) -> bool:
    """Return whether a name lies in one of the numbered layers of some lists."""
    number = _NUMBER.search(key)
    return number is not None and key[: number.start()] in containers


def _learned(model: Any, key: str) -> Tensor | None:
    """Return a parameter, or a buffer that waits to be filled; None for what the model computes itself.

    A buffer of whole numbers is an index or a counter; one whose numbers are all the same holds nothing yet.
    """
    path, _, own = key.rpartition(".")
    module: nn.Module = model.get_submodule(path)
    parameter = module._parameters.get(own)
    if parameter is not None:
        return (
            None if _is_left_out_of_files(model, key) and _is_computed(model, module, own) else parameter.data
        )
    buffer = module._buffers.get(own)
    if buffer is None or not buffer.is_floating_point() or bool((buffer != buffer.flatten()[0]).any()):
        return None
    return buffer


def _is_left_out_of_files(model: Any, key: str) -> bool:
    """Return whether a class of the model's family declares that its checkpoints lack a weight."""
    classes = vars(sys.modules[type(model).__module__]).values()
    lists = ("_keys_to_ignore_on_load_missing", "_keys_to_ignore_on_save")
    patterns = {pattern for kind in classes for name in lists for pattern in getattr(kind, name, None) or ()}
    prefixed = f"{model.base_model_prefix}.{key}"
    return any(re.search(pattern, key) or re.search(pattern, prefixed) for pattern in patterns)


def _is_computed(model: Any, module: nn.Module, own: str) -> bool:
    """Return whether a parameter comes out the same, and is no constant, when its module is initialised again."""
    again = deepcopy(module)
    for tensor in again.parameters(recurse=False):
        tensor.data.zero_()
        tensor._is_hf_initialized = False  # type: ignore[attr-defined]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        model._init_weights(again)
    made, present = again._parameters[own], module._parameters[own]
    assert made is not None and present is not None
    return torch.equal(made, present) and bool((made != made.flatten()[0]).any())


def _found_by_trying(model: Any, tensors: Mapping[str, Tensor], head: bool) -> set[str]:
    """Return the weights whose change is seen in attention; all of them where that cannot be tried."""
    if any(tensor.is_meta for tensor in tensors.values()):
        return set(tensors)
    groups: defaultdict[str, dict[str, Tensor]] = defaultdict(dict)
    for key, tensor in tensors.items():
        groups[re.sub(r"\d+", "*", key.rpartition(".")[0])][key] = tensor
    for inputs in small_inputs(model):
        try:
            before, ran = _outputs(model, inputs, head)
        except Exception:  # an input that this model does not take fails anywhere in its own code
            continue
        idle = {key for key in tensors if key.rpartition(".")[0] not in ran}
        if not before:
            break
        if _changes(model, inputs, head, tensors, before):
            moved = [group for group in groups.values() if _changes(model, inputs, head, group, before)]
            return idle.union(*moved) if moved else set(tensors)
        return idle
    return set(tensors)


def _changes(
    model: Any, inputs: Mapping[str, Tensor], head: bool, tensors: Mapping[str, Tensor], before: list[bytes]
) -> bool:
    with _filled_otherwise(tensors.values()):
        try:
            return _outputs(model, inputs, head)[0] != before
        except Exception:  # with such numbers the model does not even run
            return True


@contextmanager
def _filled_otherwise(tensors: Collection[Tensor]) -> Iterator[None]:
    kept = [tensor.clone() for tensor in tensors]
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for tensor in tensors:
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
        try:
            yield
        finally:
            for tensor, numbers in zip(tensors, kept, strict=True):
                tensor.copy_(numbers)


def _outputs(model: Any, inputs: Mapping[str, Tensor], head: bool) -> tuple[list[bytes], set[str]]:
    """Run a model, and return a digest of each attention module's output and the names of the modules that ran."""
    digests: list[bytes] = []
    ran: set[str] = {""}

    def hook(name: str, attends: bool) -> Callable[..., None]:
        def after(module: nn.Module, args: Any, output: Any) -> None:
            ran.add(name)
            if attends:
                digests.extend(_digests(output))

        return after

    with ExitStack() as undo, torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for name, module in model.named_modules():
            attends = ATTENTION_CLASS.search(type(module).__name__) is not None
            undo.callback(module.register_forward_hook(hook(name, attends)).remove)
        output = model(**inputs)
        if digests and head:
            digests.extend(_digests(output.logits))
    return digests, ran


def _digests(output: Any) -> Iterator[bytes]:
    if isinstance(output, Tensor):
        yield blake2b(output.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()).digest()
    elif isinstance(output, (tuple, list)):
        for part in output:
            yield from _digests(part)
    elif isinstance(output, Mapping):
        yield from _digests(tuple(output.values()))


def small_inputs(model: Any) -> Iterator[dict[str, Tensor]]:
    """Yield small inputs that a model's forward pass may take, the likeliest first."""
    main = main_input(model)
    config = model.config.get_text_config()
    vocabulary = int(getattr(config, "vocab_size", None) or _TOKENS)
    ids = (torch.arange(_TOKENS) + 5)[None] % vocabulary
    others: dict[str, Tensor] = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    made = {"input_ids": _only(ids), "input_values": _sounds, "audio_values": _sounds}
    make = made.get(main, _features if main.startswith("input_features") else _pictures)
    for tensor in make(model):
        for extra in (others, {}, {"input_ids": ids}):
            inputs = {main: tensor, **extra}
            yield {name: _to(model, part) for name, part in inputs.items()}


def _only(tensor: Tensor) -> Callable[[Any], Iterator[Tensor]]:
    return lambda model: iter([tensor])


def _to(model: Any, tensor: Tensor) -> Tensor:
    device = next((p.device for p in model.parameters() if not p.is_meta), None)
    return tensor.to(device=device, dtype=model.dtype if tensor.is_floating_point() else None)


def _noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


def _pictures(model: Any) -> Iterator[Tensor]:
    config = model.config
    for name in ("vision_config", "backbone_config"):
        config = getattr(config, name, None) or config
    size = getattr(config, "image_size", None) or 64
    height, width = (size, size) if isinstance(size, int) else tuple(size)[:2]
    channels = getattr(config, "num_channels", None)
    channels = channels if isinstance(channels, int) else 3
    yield _noise(1, channels, height, width)
    frames = getattr(config, "num_frames", None)
    if isinstance(frames, int):
        yield _noise(1, frames, channels, height, width)


def _sounds(model: Any) -> Iterator[Tensor]:
    yield _noise(1, _SAMPLES)
    yield _noise(1, 1, _SAMPLES)


def _features(model: Any) -> Iterator[Tensor]:
    config = model.config
    for name in ("audio_config", "encoder_config"):
        config = getattr(config, name, None) or config
    names = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "n_mels")
    bins = next((value for name in names if isinstance(value := getattr(config, name, None), int)), 80)
    length = getattr(config, "max_source_positions", None) or getattr(config, "max_length", None) or 64
    yield _noise(1, bins, 2 * length)
    yield _noise(1, length, bins)
    yield _noise(1, 64, bins)
