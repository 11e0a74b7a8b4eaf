"""How a Hugging Face model is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load a model.

    Args:
        revision: Branch, tag or commit on the hub.
        dtype: ``float32``, ``bfloat16``, ``float16``, or ``auto``: float32 on a CPU, the checkpoint's own elsewhere.
        device: A torch device; nothing moves by itself.
        attention: transformers' implementation to run (``sdpa``, ``eager``, …); the model's default where None.
        trust_remote_code: Whether code that comes with the model may run.
        allow_pickle: Whether weights may be unpickled, which can run any code.
        offline: Whether the hub must not be asked.
        head: Whether the model is to predict tokens, so that its language-model head is wanted too.
        device_map: Spreads the model over several devices and the disk, by accelerate: ``auto`` or another of
            `DEVICE_MAPS`, or a device for each part's name; `device` is then not used.
        offload_folder: Where parts that are on disk are written.
        adapter: Whether an adapter beside the weights, or in their place, is applied; else its base model is loaded.
    """

    revision: str | None = None
    dtype: str = "auto"
    device: str = "cpu"
    attention: str | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    offline: bool = False
    head: bool = False
    device_map: str | Mapping[str, str | int] | None = None
    offload_folder: str | None = None
    adapter: bool = True
