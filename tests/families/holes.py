"""Takes one weight of each kind out of a family's checkpoint, one at a time, and loads it as the command does."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from families.observing import Everything, source_of
from safetensors.torch import load_file, save_file
from torch import Tensor

from attncli.errors import AttnCliError
from attncli.models.loading import load

MOST = 60
SAME = 1e-6

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def holes(model: Any, inputs: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """Say of each kind of weight what comes of its absence.

    Returns:
        The names by what came: ``refused`` with exit code 4, ``unchanged`` maps, other maps in silence (``silent``),
        or something else (``failed``, with the error).
    """
    _shake(model)
    came: dict[str, list[str]] = {"refused": [], "unchanged": [], "silent": [], "failed": []}
    with TemporaryDirectory() as named:
        folder = Path(named)
        model.save_pretrained(folder)
        file = folder / "model.safetensors"
        weights = load_file(file)
        whole = _maps(folder, inputs)
        for kind, name in _kinds(weights).items():
            rest = {other: tensor for other, tensor in weights.items() if other != name}
            save_file(rest, file, metadata={"format": "pt"})
            verdict, why = _verdict(folder, inputs, whole)
            came[verdict].append(f"{kind}{why}")
    return came


def _verdict(folder: Path, inputs: Mapping[str, Tensor], whole: Mapping[Any, Tensor]) -> tuple[str, str]:
    try:
        maps = _maps(folder, inputs)
    except AttnCliError as error:
        return (
            ("refused", "")
            if error.exit_code == 4
            else ("failed", f" ({error.exit_code}: {error.message[:60]})")
        )
    except Exception as error:  # what a user would see as a crash
        return "failed", f" ({type(error).__name__}: {' '.join(str(error).split())[:60]})"
    same = maps.keys() == whole.keys() and all(_close(maps[place], whole[place]) for place in maps)
    return ("unchanged", "") if same else ("silent", "")


def _close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(((one - other).nan_to_num().abs() <= SAME).all())


def _maps(folder: Path, inputs: Mapping[str, Tensor]) -> dict[Any, Tensor]:
    loaded = load(str(folder), tokenizer=False)
    everything = Everything()
    torch.manual_seed(0)
    source_of(loaded.model, inputs).run([everything])
    return {place: everything.weights(*place) for place in everything.kept}


def _kinds(weights: Mapping[str, Tensor]) -> dict[str, str]:
    """Give one weight of each kind: the first of those whose names differ in numbers alone."""
    kinds: dict[str, str] = {}
    for name in sorted(weights):
        kinds.setdefault(_NUMBER.sub("*", name), name)
    step = -(-len(kinds) // MOST)  # of very many, every second or third
    return dict(list(kinds.items())[::step])


def _shake(model: Any) -> None:
    """Move what families start with ones or zeros: a norm that is missing is drawn so, and would not be missed.

    What a family says it computes itself (sinusoids, constants) is put back to what it computes.
    """
    generator = torch.Generator().manual_seed(3)
    computed = getattr(model, "_keys_to_ignore_on_load_missing", None) or ()
    fresh = dict(type(model)._from_config(copy.deepcopy(model.config)).named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            full = f"{model.base_model_prefix}.{name}"
            if any(re.search(pattern, name) or re.search(pattern, full) for pattern in computed):
                parameter.copy_(fresh[name])
            elif parameter.dim() == 1 and parameter.is_floating_point():
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
