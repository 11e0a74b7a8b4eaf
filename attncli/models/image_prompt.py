"""A model's own processor of texts with pictures, and the text as it wants it: with a mark for each picture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from attncli.errors import CaptureError, ModelError, UsageError
from attncli.labels import safe_label
from attncli.models.folder_check import read_json
from attncli.models.loading import Loaded
from attncli.models.refusals import refused_as


def load_processor(loaded: Loaded) -> Any:
    """Load a model's processor.

    Raises:
        ModelError: There is none, or it needs what is not installed.
    """
    from transformers import AutoProcessor

    where, options = (
        loaded.folder or loaded.name,
        {
            "trust_remote_code": loaded.options.trust_remote_code,
            "revision": loaded.options.revision or "main",
            "local_files_only": loaded.options.offline,
        },
    )
    with refused_as(
        lambda why: ModelError(f"{loaded.name}: its processor cannot be loaded: {why}", _hint(why))
    ):
        try:
            made = AutoProcessor.from_pretrained(where, **options)
        except (ImportError, OSError):  # a part for videos is not needed, nor the torchvision that it needs
            pictures_only = _without_videos(where)
            if pictures_only is None:
                raise
            made = pictures_only.from_pretrained(where, **options)
    if not (hasattr(made, "image_processor") and hasattr(made, "tokenizer")):
        raise ModelError(
            f"{loaded.name}: no processor for pictures with texts there, only a {type(made).__name__}",
            "its folder lacks processor_config.json or preprocessor_config.json",
        )
    return made


def _hint(reason: str) -> str | None:
    found = re.search(r"torchvision|num2words", reason, re.IGNORECASE)
    return None if found is None else f"pip install {found[0].lower()} (or attncli[pictures])"


def _without_videos(where: str | Path) -> Any:
    """Return the class of a model's processor without its part for videos; None where it has no such part."""
    import transformers
    from transformers.utils import cached_file

    files = ("processor_config.json", "preprocessor_config.json", "tokenizer_config.json")
    paths = [cached_file(where, file, _raise_exceptions_for_missing_entries=False) for file in files]
    named = [read_json(Path(path), str(where)).get("processor_class") for path in paths if path is not None]
    known: Any = getattr(transformers, next((str(one) for one in named if one), ""), None)
    parts: list[str] = [] if known is None else known.get_attributes()
    if "video_processor" not in parts:
        return None
    parts.remove("video_processor")
    return type(known.__name__, (known,), {"get_attributes": classmethod(lambda cls: parts)})


def mark_of(loaded: Loaded, processor: Any) -> str:
    """Return what stands for a picture in a text."""
    for holder in (processor, processor.tokenizer):
        mark = getattr(holder, "image_token", None)
        if mark is not None:
            return str(mark)
    number = image_id(loaded, processor)
    return str(processor.tokenizer.convert_ids_to_tokens(number))


def image_id(loaded: Loaded, processor: Any) -> int:
    """Return the id of the tokens that pictures are put in the place of."""
    config = loaded.model.config
    for holder in (config, processor):
        for name in ("image_token_id", "image_token_index"):
            if isinstance(number := getattr(holder, name, None), int):
                return number
    raise CaptureError(
        f"{loaded.name} ({loaded.family}): which of its tokens are a picture's is not to be seen"
    )


def write_prompt(
    loaded: Loaded, processor: Any, text: str, mark: str, pictures: int, *, chat: bool, system: str | None
) -> tuple[str, str]:
    """Write the text as the model wants it, with a mark for each picture; return it, and how it was done."""
    marks = text.count(mark)
    if marks not in (0, pictures):
        raise UsageError(
            f"the text has {marks} {safe_label(mark)} marks for {pictures} "
            f"{'picture' if pictures == 1 else 'pictures'}",
            "give --image once for each mark, or leave the marks out",
        )
    if marks and not chat:
        return text, "the pictures stand where the text has them"
    written = _by_template(processor, _content(text, mark, pictures), system)
    if written is not None and written.count(mark) == pictures:
        return written, "the model's chat template has written the text and placed the pictures"
    if chat:
        raise UsageError(
            f"--chat: {loaded.name} has no chat template that takes pictures", "leave --chat out"
        )
    return _framed(
        loaded, processor, mark
    ) * pictures + text, "no chat template: the pictures stand before the text"


def _framed(loaded: Loaded, processor: Any, mark: str) -> str:
    """Return a picture's mark between those of its start and end, where the text needs them (Qwen2-VL)."""
    ends = (getattr(loaded.model.config, f"vision_{end}_token_id", None) for end in ("start", "end"))
    pieces = [
        processor.tokenizer.convert_ids_to_tokens(end) if isinstance(end, int) else None for end in ends
    ]
    return f"{pieces[0]}{mark}{pieces[1]}" if all(pieces) else mark


def _content(text: str, mark: str, pictures: int) -> list[dict[str, str]]:
    """Return a message's content: text and pictures in their order, the pictures first where it does not say."""
    parts = text.split(mark) if mark in text else [*[""] * pictures, text]
    found: list[dict[str, str]] = []
    for number, part in enumerate(parts):
        found += [{"type": "image"}] if number else []
        found += [{"type": "text", "text": part}] if part else []
    return found


def _by_template(processor: Any, content: list[dict[str, str]], system: str | None) -> str | None:
    from jinja2 import TemplateError

    if not (getattr(processor, "chat_template", None) or getattr(processor.tokenizer, "chat_template", None)):
        return None
    before = [] if system is None else [{"role": "system", "content": [{"type": "text", "text": system}]}]
    try:
        written = processor.apply_chat_template(
            [*before, {"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
    except (TemplateError, ValueError, TypeError, KeyError):
        return None
    return str(written)
