"""The heads that a model itself names as those whose cross-attention follows a sound: ``--head aligned``."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from attncli.errors import UsageError
from attncli.labels import safe_label
from attncli.models.folders import resolve_model_folder
from attncli.models.loading import LoadOptions

ALIGNED = "aligned"


def alignment_heads(settings: Any) -> tuple[tuple[int, int], ...]:
    """Return layer and head of each, as generation settings have them; none where they name none."""
    named = getattr(settings, "alignment_heads", None) or ()
    return tuple((int(layer), int(head)) for layer, head in named)


def spelled_out(selection: str | None, name: str | None, options: LoadOptions) -> str | None:
    """Return a selection of heads with the model's own names in the place of ``aligned``: ``L2H0,L3H5``.

    Args:
        selection: As it was typed: ``aligned``, ``aligned:mean``, or something else, which is returned as it is.
        name: The model.

    Raises:
        UsageError: The model names none.
    """
    words, colon, suffix = (selection or "").strip().partition(":")
    if words != ALIGNED:
        return selection
    found = () if name is None else alignment_heads(_settings(name, options))
    if not found:
        raise UsageError(
            f"--head {ALIGNED}: {safe_label(name or 'this model')} names no alignment heads",
            "they stand in the generation_config.json of a Whisper",
        )
    return ",".join(f"L{layer}H{head}" for layer, head in found) + colon + suffix


def _settings(name: str, options: LoadOptions) -> Any:
    """Read how a model generates by itself; None where it does not say."""
    from transformers import GenerationConfig

    folder = resolve_model_folder(name, options.revision or "main")
    common = {"revision": options.revision or "main", "local_files_only": options.offline}
    with suppress(OSError):
        return GenerationConfig.from_pretrained(folder or name, **common)
    return None
