"""The heads that a model itself names as those whose cross-attention follows a sound: ``--head aligned``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, overload

from attncli.errors import UsageError
from attncli.labels import safe_label
from attncli.models.folders import resolve_model_folder

if TYPE_CHECKING:
    from attncli.cli.options import ModelOptions

ALIGNED = "aligned"


def alignment_heads(settings: Any) -> tuple[tuple[int, int], ...]:
    """Return layer and head of each, as generation settings have them; none where they name none."""
    named = getattr(settings, "alignment_heads", None) or ()
    return tuple((int(layer), int(head)) for layer, head in named)


@overload
def spelled_out(selection: str, model: ModelOptions) -> str: ...


@overload
def spelled_out(selection: str | None, model: ModelOptions) -> str | None: ...


def spelled_out(selection: str | None, model: ModelOptions) -> str | None:
    """Return a selection of heads with the names that the model has for them in the place of ``aligned``.

    Args:
        selection: As it was typed: ``aligned``, ``aligned:mean``, or something else, which is returned as it is.

    Raises:
        UsageError: The model names none.
    """
    words, colon, suffix = (selection or "").strip().partition(":")
    if words != ALIGNED:
        return selection
    found = () if model.model is None else alignment_heads(_settings(model.model, model))
    if not found:
        name = safe_label(model.model or "this model")
        raise UsageError(
            f"--head {ALIGNED}: {name} names no alignment heads",
            "generation_config.json of a Whisper has them",
        )
    return ",".join(f"L{layer}H{head}" for layer, head in found) + colon + suffix


def _settings(name: str, model: ModelOptions) -> Any:
    """Read how a model generates by itself; None where it does not say."""
    from transformers import GenerationConfig

    revision = model.revision or "main"
    with suppress(OSError):
        folder = resolve_model_folder(name, revision)
        return GenerationConfig.from_pretrained(
            folder or name, revision=revision, local_files_only=model.offline
        )
    return None
