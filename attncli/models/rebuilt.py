"""Whether transformers reads a tokenizer.json as it stands: seen from the files beside it, without transformers.

Tokens that other files name are added. Some of transformers' classes take no more than the vocabulary from the file and
build the rest themselves; where their way to split a text is not the file's, that is told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.labels import safe_label
from attncli.models.vocabulary import parts

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BUILT = {
    "BertPreTokenizer": "Bert DPRQuestionEncoder Funnel Herbert LayoutLMv2 Lxmert MPNet MobileBert OpenAIGPT Splinter",
    "ByteLevel": "Bart Blenderbot Deberta GPT2 GPTNeoX LED LayoutLMv3 Luke Mvp Roberta Whisper",
    "Metaspace": "Barthez BigBird CodeLlama DebertaV2 LayoutXLM Llama MBart50 Nllb Reformer RemBert SeamlessM4T XGLM",
    "WhitespaceSplit Metaspace": "Albert Camembert Lasr MBart T5 Udop VideoPrism XLMRoberta XLNet",
    "Digits ByteLevel": "Cohere",
    "Split-06dd ByteLevel": "CLIP",
    "Split-1960 ByteLevel": "Qwen2",
    "Split-19d8 ByteLevel": "Qwen3_5",
    "Split-7c4e Digits Split-901a Split-2035 ByteLevel": "Nougat",
    "Split-cb09": "Gemma Siglip2",
}
"""How transformers' classes split a text, whatever the file says; a pattern is known by its digest."""

_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def complete(tokenizer: Tokenizer, folder: Path) -> None:
    """Add the tokens that other files name, as transformers does."""
    from tokenizers import AddedToken

    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    config = _read(folder / "tokenizer_config.json")
    for content, flags in (*_added(folder, config), *_named(config)):
        if content not in known:
            known.add(content)
            tokenizer.add_tokens([AddedToken(content, **flags)])


def note_on_class(tokenizer: Tokenizer, folder: Path) -> str | None:
    """Return which of transformers' classes splits a text in another way than the file; None where none is known to."""
    config = _read(folder / "tokenizer_config.json")
    named = config.get("tokenizer_class") or f"{_read(folder / 'config.json').get('model_type')}Tokenizer"
    name = str(named).removesuffix("Fast").removesuffix("Tokenizer")
    ways = [way for way, names in BUILT.items() if name.lower() in names.lower().split()]
    if not ways or way_to_split(tokenizer) in ways:
        return None
    return (
        f"this is tokenizer.json as it stands; show asks transformers, whose {safe_label(name)}Tokenizer splits a "
        "text in its own way, and may cut this one differently"
    )


def way_to_split(tokenizer: Tokenizer) -> str:
    """Name the parts of a pre-tokenizer."""
    return " ".join(map(_part_name, parts(tokenizer.pre_tokenizer)))


def _part_name(part: Mapping[str, Any]) -> str:
    if part["type"] != "Split":
        return str(part["type"])
    return f"Split-{sha256(json.dumps(part['pattern'], sort_keys=True).encode()).hexdigest()[:4]}"


def _added(folder: Path, config: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, bool]]]:
    by_id = {
        int(number): token if isinstance(token, dict) else {"content": str(token)}
        for number, token in (config.get("added_tokens_decoder") or {}).items()
    }
    for content, number in _read(folder / "added_tokens.json").items():
        by_id.setdefault(int(number), {"content": content})
    for _, token in sorted(by_id.items()):
        flags = {name: value for name, value in token.items() if isinstance(value, bool)}
        yield str(token["content"]), flags


def _named(config: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, bool]]]:
    more = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
    for token in (*map(config.get, _NAMED), *(more.values() if isinstance(more, dict) else more)):
        content = token.get("content") if isinstance(token, dict) else token
        if content:
            yield str(content), {"special": True}


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
