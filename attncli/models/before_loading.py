"""What can be known of a model before anything of it is loaded, from its files alone, without torch or transformers.

Each check raises only what would be raised later too: where a file leaves something open, the loaded model is asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attncli.cli.options import ModelOptions, ScratchOptions
from attncli.errors import UsageError, did_you_mean
from attncli.inputs.media import medium_of, refuse_medium
from attncli.labels import safe_label
from attncli.models.opening import load_options, model_name
from attncli.models.refusals import too_long
from attncli.models.shipped import card, shipped_folder, shipped_models
from attncli.observers.selection import Selection
from attncli.record import KINDS, Tokens

_DEVICE = re.compile(r"(\w+?)(:\d+)?")
_DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "meta")
_LAYERS, _HEADS = re.compile(r"layers?$"), re.compile(r"(^|_)heads?$")
_LENGTHS = ("max_position_embeddings", "n_positions")
_ENDLESS = 10**9
"""From here on a tokenizer's limit means that it has none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a command is going to ask of a model.

    Args:
        text: The one text that it reads; None where there are several, or that is not a text.
        selections: Layers and heads.
        names: What ``--query`` and ``--key`` name.
        find: More to look up among the text's tokens.
        whole: Whether the text must fit into the model as it is.
    """

    text: str | None = None
    pair: str | None = None
    kind: str | None = None
    selections: Sequence[Selection] = ()
    names: Sequence[str | None] = ()
    find: Callable[[Tokens], object] | None = None
    whole: bool = True


def check_before_loading(model: ModelOptions, wanted: Wanted, scratch: ScratchOptions | None = None) -> None:
    """Refuse what cannot be answered, as far as that is known already.

    Args:
        scratch: Options that may ask for the untrained model.

    Raises:
        AttnCliError: The model is not there or not whole, or it has no such kind, layer, head, token or device.
    """
    for one in (wanted.text, wanted.pair):
        refuse_medium(one)
    if wanted.kind not in (None, *KINDS):
        raise UsageError(f"--kind {wanted.kind}: unknown kind", did_you_mean(str(wanted.kind), KINDS))
    name = model_name(model, scratch or ScratchOptions(), wanted.pair)
    if name == "scratch":
        return
    if name in shipped_models():
        _check_shipped(name, wanted)
        return

    from attncli.models.adapters import find_adapter
    from attncli.models.folders import is_gguf, resolve_model_folder
    from attncli.models.loading import DTYPES, local_folder

    if model.dtype not in DTYPES:
        raise UsageError(f"--dtype {model.dtype}: unknown type", did_you_mean(model.dtype, DTYPES))
    _check_device(model.device)
    options = load_options(model)
    if find_adapter(name, resolve_model_folder(name, options.revision or "main")) is not None:
        return  # what it is applied to may lie elsewhere
    folder = local_folder(name, options, False)
    if folder is None or is_gguf(folder):
        return
    config = _read(folder / "config.json")
    if any(isinstance(value, dict) and "model_type" in value for value in config.values()):
        return  # a model made of several: which of them is shown, its class knows
    _check_kind(config, wanted)
    _check_selections(wanted, _most(config, _LAYERS), _most(config, _HEADS))
    two_texts = wanted.pair is not None and config.get("is_encoder_decoder")
    reads = wanted.text and medium_of(wanted.text) is None
    if reads and not two_texts and (folder / "tokenizer.json").is_file():
        _check_text(folder, config, name, wanted)


def _check_shipped(name: str, wanted: Wanted) -> None:
    shape = card(name).shape
    _check_selections(wanted, max(shape["encoder_layers"], shape["decoder_layers"]), shape["heads"])
    if wanted.text and not card(name).is_pair:
        folder = shipped_folder(name)
        assert folder is not None
        _check_names(_tokens(folder, wanted), wanted)


def _check_selections(wanted: Wanted, layers: int | None, heads: int | None) -> None:
    for selection in wanted.selections:
        count = layers if selection.what == "layer" else heads
        if count is not None:
            selection.resolve(count)


def _check_device(device: str) -> None:
    """Refuse a device that torch does not know, or that it was built without."""
    found = _DEVICE.fullmatch(device)
    if found is None or found[1] not in _DEVICES:
        raise UsageError(f"--device {device}: unknown device", did_you_mean(device, _DEVICES[:3]))
    spec = find_spec("torch")
    if found[1] != "cuda" or spec is None or spec.origin is None:
        return
    built = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    if all(re.search(rf"^{way}\b.*= None$", built, re.MULTILINE) for way in ("cuda", "hip")):
        raise UsageError(f"--device {device}: the installed torch was built without CUDA")


def _check_kind(config: Mapping[str, Any], wanted: Wanted) -> None:
    two_stacks = config.get("is_encoder_decoder")
    crossing = any("cross" in key for key, value in config.items() if value)
    if wanted.kind == "cross" and not two_stacks and not crossing:
        raise UsageError(
            "--kind cross: there is no cross-attention here",
            "of an encoder–decoder, --pair TEXT gives the target side",
        )
    if wanted.kind in ("decoder", "cross") and two_stacks and wanted.text and not wanted.pair:
        raise UsageError(
            f"--kind {wanted.kind}: there is only encoder attention here",
            "of an encoder–decoder, --pair TEXT gives the target side",
        )


def _most(config: Mapping[str, Any], called: re.Pattern[str]) -> int | None:
    """Return the largest of some numbers in a config: it may say how many there are in several ways."""
    numbers = [value for key, value in config.items() if called.search(key) and type(value) is int]
    lists = [value for key, value in config.items() if called.search(key) and isinstance(value, list)]
    stacks_differ = bool(config.get("is_encoder_decoder")) and len(set(numbers)) > 1
    return max(numbers) if numbers and not lists and not stacks_differ else None


def _check_text(folder: Path, config: Mapping[str, Any], name: str, wanted: Wanted) -> None:
    tokens = _tokens(folder, wanted)
    own = _read(folder / "tokenizer_config.json").get("model_max_length")
    limits = [value for value in (own, *map(config.get, _LENGTHS)) if type(value) is int and value > 0]
    limit = min(limits, default=_ENDLESS)
    from_padding = bool(config.get("pad_token_id"))  # positions may begin after it: how many, the model tells
    if wanted.whole and tokens and len(tokens) > limit and not from_padding:
        strides = wanted.pair is None and not config.get("is_encoder_decoder")
        raise too_long(safe_label(name), len(tokens), limit, strides=strides)
    _check_names(tokens, wanted)


def _check_names(tokens: Tokens, wanted: Wanted) -> None:
    """Refuse names of tokens that are not there; positions are left to the model's own tokenizer."""
    from attncli.inputs.token_selection import pick

    if not tokens:
        return
    for spec in wanted.names:
        if spec is not None and any(map(str.isalpha, spec)):
            pick(tokens, spec)
    if wanted.find is not None:
        wanted.find(tokens)


def _tokens(folder: Path, wanted: Wanted) -> Tokens:
    """Return the tokens of the text; none where transformers may cut it in another way than the file says."""
    from attncli.models.rebuilt import complete, note_on_class
    from attncli.models.tokens import load_tokenizer, tokens_from_encoding

    assert wanted.text is not None
    tokenizer = load_tokenizer(folder)
    complete(tokenizer, folder)
    if note_on_class(tokenizer, folder) is not None:
        return ()
    try:
        encoding = tokenizer.encode(wanted.text, wanted.pair)
    except Exception:  # what the library raises has no common type; the loaded model's tokenizer will tell
        return ()
    return tokens_from_encoding(tokenizer, encoding, text=wanted.text, pair=wanted.pair)


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
