"""attncli: a command-line microscope for attention.

The names below are the library's front door. They load on first use, so that
``import attncli`` costs nothing and ``attncli --help`` never imports torch.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Attention": "attncli.attention.modules",
    "AttentionProjections": "attncli.attention.modules",
    "MultiHeadAttention": "attncli.attention.modules",
    "causal_attention": "attncli.attention.core",
    "Model": "attncli.api",
    "open": "attncli.api",
    "show": "attncli.api",
    "create_causal_mask": "attncli.attention.masks.causal",
    "scaled_dot_product_attention": "attncli.attention.core",
    "visualize_attention": "attncli.render.picture.figure",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    """Import a public name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'attncli' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
