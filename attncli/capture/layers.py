"""Tells which attention operation of a model a call belongs to: stack, kind, true layer index, heads.

A *stack* is a row of layers: ``encoder.layer.0``, ``encoder.layer.1``, …. Many models have several: a vision tower
beside the text model, a decoder over an encoder. For each kind of attention one stack is the main one, that of the
text model; its layers have an empty stack name. Layers of the others carry the name of theirs, so that two layers 0 of
one model are never taken for each other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from attncli.capture.module_stack import ATTENTION_CLASS
from attncli.errors import CaptureError
from attncli.record import AttentionLayer, Kind

_CROSS = re.compile(
    r"cross_?att|crossattention|encoder_?attn|encoder_?attention|enc_?dec_?att|encoder_decoder_att",
    re.IGNORECASE,
)
_DECODER = re.compile(r"(^|[._])decoder(\.|$)")
_SIDE = re.compile(r"(?<![^._])(en|de)coder(?=\.|$)")
_TOWER = re.compile(r"vision|visual|image|audio|speech|pixel", re.IGNORECASE)
_SOFTMAX_TYPES = ("full_attention", "sliding_attention", "chunked_attention")
_NUMBER = re.compile(r"(?:^|(?<=\.))\d+(?=\.|$)")


def depth(config: Any, kind: Kind) -> int:
    """Return the number of layers of the stack that has a kind of attention, by a model's config.

    Raises:
        CaptureError: The config does not say.
    """
    found = _depth(config, kind)
    if found is None:
        raise CaptureError(f"{config.model_type}: its config does not say how many layers it has")
    return found


def _config_of(config: Any, kind: Kind) -> tuple[Any, bool]:
    """Return the config of the stack that has a kind of attention, and whether it is also the other stack's."""
    side = "encoder" if kind == "encoder" else "decoder"
    two_stacks = bool(getattr(config, "is_encoder_decoder", False))
    if two_stacks and hasattr(getattr(config, side, None), "model_type"):
        config, two_stacks = getattr(config, side), False  # composed of two models with a config each
    if not two_stacks:
        config = config.get_text_config(decoder=kind == "decoder")
    elif not hasattr(config, "num_hidden_layers"):
        config = config.get_text_config()
    return config, two_stacks


def _depth(config: Any, kind: Kind) -> int | None:
    side = "encoder" if kind == "encoder" else "decoder"
    config, two_stacks = _config_of(config, kind)
    names = (f"{side}_layers", f"num_{side}_layers", f"{side}_num_hidden_layers") if two_stacks else ()
    for name in (*names, "num_hidden_layers", "num_layers", "n_layer", "n_layers"):
        value = getattr(config, name, None)
        if isinstance(value, int):
            return value
    return None


@dataclass(frozen=True)
class _Place:
    """A module's path taken apart: ``encoder.layer.3.attention`` has the prefix ``encoder.layer``, numbers (3,)."""

    prefix: str
    suffix: str
    template: str
    numbers: tuple[int, ...]


def _place(name: str) -> _Place:
    numbers = tuple(int(number) for number in _NUMBER.findall(name))
    template = _NUMBER.sub("*", name)
    prefix, _, suffix = template.partition(".*" if not template.startswith("*") else "*")
    return _Place(prefix, suffix, template, numbers)


def _holders(name: str) -> Iterator[str]:
    """Yield the paths of the modules that a module lies in."""
    while name := name.rpartition(".")[0]:
        yield name


class Stacks:
    """The rows of layers of a model, read off its module names once.

    Attributes:
        names: The paths of every module by its id; those that are shared have several.
        watched: The modules whose executions matter: those that contain others, and attention modules.
    """

    def __init__(self, model: nn.Module) -> None:
        self._config: Any = model.config
        self.two_stacks = bool(getattr(model.config, "is_encoder_decoder", False))
        self._siblings: defaultdict[str, set[tuple[int, ...]]] = defaultdict(set)
        self._attention: dict[str, _Place] = {}
        self._places: dict[str, _Place] = {}
        self._depths: dict[Kind, int] = {}
        self.names: dict[int, list[str]] = {}
        for name, module in model.named_modules(remove_duplicate=False):
            self.names.setdefault(id(module), []).append(name)
            place = self.place(name)
            self._siblings[place.template].add(place.numbers)
            if ATTENTION_CLASS.search(type(module).__name__):
                self._attention[name] = place
        # T5's layers are attention modules within attention modules: the number of a part is not the layer's.
        for name in {outer for inner in self._attention for outer in _holders(inner)}:
            self._attention.pop(name, None)
        self.watched = [
            module
            for module in model.modules()
            if ATTENTION_CLASS.search(type(module).__name__) or next(module.children(), None) is not None
        ]
        self._layers: dict[_Place, int] = {}
        self._main: dict[Kind, frozenset[str]] = {}
        self.root = self._main_root(model)

    def _main_root(self, model: nn.Module) -> str:
        """Return the path of the part that reads the text: the smallest one that holds its embedding and attention."""
        path = _embedding_path(model)
        while path and not any(name.startswith(f"{path}.") for name in self._attention):
            path = path.rpartition(".")[0]
        side = _SIDE.search(path) if self.two_stacks else None
        return path if side is None else str(path[: side.start()].rpartition(".")[0])

    def place(self, name: str) -> _Place:
        """Take a module's path apart, each once."""
        if name not in self._places:
            self._places[name] = _place(name)
        return self._places[name]

    def in_root(self, name: str) -> bool:
        """Return whether a module belongs to the part of the model that reads the text."""
        return not self.root or name == self.root or name.startswith(f"{self.root}.")

    def kind_by_name(self, name: str) -> Kind | None:
        """Return the kind that a module's name tells; None where only its mask can."""
        if _CROSS.search(name):
            return "cross"
        if not self.two_stacks:
            return None
        return "decoder" if _DECODER.search(name) else "encoder"

    def main_prefixes(self, kind: Kind) -> frozenset[str]:
        """Return the paths of the main stack's layers for a kind; none where no layers are numbered.

        There are several where two rows of layers run in turns, more often than there are layers (HRM).
        """
        if kind not in self._main:
            self._main[kind] = self._find_main_prefixes(kind)
        return self._main[kind]

    def _find_main_prefixes(self, kind: Kind) -> frozenset[str]:
        counts: dict[str, set[int]] = {}
        for name, place in self._attention.items():
            by_name = self.kind_by_name(name)
            if place.numbers and self.in_root(name) and (by_name is None or by_name == kind):
                counts.setdefault(place.prefix, set()).add(self.layer(place))
        if len(counts) > 1 and any(not _TOWER.search(prefix) for prefix in counts):
            counts = {prefix: layers for prefix, layers in counts.items() if not _TOWER.search(prefix)}
        if not counts:
            return frozenset()
        wanted = _depth(self._config, kind)
        if wanted is not None and len(counts) > 1 and wanted > sum(map(len, counts.values())):
            return frozenset(counts)
        fitting = [prefix for prefix, layers in counts.items() if wanted in (len(layers), max(layers) + 1)]
        return frozenset([fitting[0] if fitting else max(counts, key=lambda prefix: len(counts[prefix]))])

    def layer(self, place: _Place) -> int:
        """Return a layer's index: its first number, or its rank where layers are numbered by stage and block."""
        if place not in self._layers:
            self._layers[place] = self._find_layer(place)
        return self._layers[place]

    def _find_layer(self, place: _Place) -> int:
        siblings = self._siblings[place.template] | {place.numbers}
        if len({numbers[0] for numbers in siblings}) == len(siblings):
            return place.numbers[0]
        return sorted(siblings).index(place.numbers)

    def depth(self, kind: Kind) -> int:
        """Return the number of layers of the main stack of a kind.

        Raises:
            CaptureError: Neither the config nor the modules tell.
        """
        if kind not in self._depths:
            self._depths[kind] = self._find_depth(kind)
        return self._depths[kind]

    def what_is_in(self, model: nn.Module, kind: Kind, layer: int) -> str:
        """Return what a layer without attention is: by its type in the config, or else the class of its module."""
        config = _config_of(self._config, kind)[0]
        types = getattr(config, "layers_block_type", None) or getattr(config, "layer_types", None) or ()
        if layer < len(types) and not _is_attention(str(types[layer])):
            return str(types[layer]).replace("_", " ")
        for prefix in self.main_prefixes(kind):
            if f"{prefix}.{layer}" in self._places:
                return type(model.get_submodule(f"{prefix}.{layer}")).__name__
        return "no attention"

    def _find_depth(self, kind: Kind) -> int:
        main = self.main_prefixes(kind)
        layers = [self.layer(place) for place in self._attention.values() if place.prefix in main]
        by_config = _depth(self._config, kind)
        if by_config is None and not layers:
            raise CaptureError(f"{self._config.model_type}: how many layers it has is not to be seen")
        return max(by_config or 0, max(layers, default=-1) + 1)


def _is_attention(layer_type: str) -> bool:
    """Return whether what a config calls a layer's type is softmax attention."""
    return layer_type in ("attention", "hybrid") or layer_type.endswith(_SOFTMAX_TYPES)


def _embedding_path(model: nn.Module) -> str:
    """Return the path of the table that token ids are looked up in, or of what stands in its place."""
    try:
        embedding: object = model.get_input_embeddings()  # type: ignore[operator]
    except (NotImplementedError, AttributeError, TypeError):
        embedding = None
    paths = {id(module): name for name, module in model.named_modules()}
    if not isinstance(embedding, nn.Embedding):
        tables = (name for name, module in model.named_modules() if isinstance(module, nn.Embedding))
        named = next((name for name in tables if re.match(r"(text|language)_?model\.", name)), None)
        if named is not None:
            return str(named)
    return str(paths.get(id(embedding), ""))


class LayerNamer:
    """Names attention operations in the order in which they run.

    A module that runs again in the same pass is shared by several layers (ALBERT, looped models): from then on the
    layers of its stack are counted.

    Args:
        kinds: The kinds of attention that this pass has. Where it is one, the main stack has that.
    """

    def __init__(self, stacks: Stacks, kinds: Sequence[Kind] = ()) -> None:
        self.stacks = stacks
        self._only = kinds[0] if len(kinds) == 1 else None
        self._main = {
            kind: self.stacks.main_prefixes(kind) for kind in kinds or ("encoder", "decoder", "cross")
        }
        self._ran: dict[tuple[str, Kind], list[tuple[str, int]]] = {}
        self._counted: set[tuple[str, Kind]] = set()

    def attention_layer(
        self,
        name: str,
        module: nn.Module,
        heads: int,
        kv_heads: int,
        *,
        cross: bool,
        causal: Callable[[], bool],
    ) -> AttentionLayer:
        """Name one operation.

        Args:
            name: The module's path, as reached.
            cross: Whether its keys come from elsewhere, as far as the call shows.
            causal: Tells whether it hides the future; asked only where nothing else tells the kind.
        """
        place = self.stacks.place(name)
        kind = self._kind(name, place, cross, causal)
        stack = self._stack(name, place, kind)
        layer = self._own_layer(module, place)
        ran = self._ran.setdefault((stack, kind), [])
        if stack == "" and len(self._main.get(kind, ())) > 1:
            self._counted.add((stack, kind))
        elif any(other != place.template and index == layer for other, index in ran):
            # Two attentions side by side in one layer, as over time and over space.
            stack = f"{stack}{place.prefix}.{place.suffix.strip('.')}"
            ran = self._ran.setdefault((stack, kind), [])
        if (place.template, layer) in ran:
            self._counted.add((stack, kind))
        if (stack, kind) in self._counted:
            layer = len(ran)
        ran.append((place.template, layer))
        return AttentionLayer(kind, layer, heads, kv_heads, name, stack)

    def stack_of(self, name: str) -> str:
        """Return the name of the stack that a module belongs to, whatever its kind of attention."""
        place = self.stacks.place(name)
        by_name = self.stacks.kind_by_name(name) or self._only
        for kind in self._main:
            if by_name in (None, kind) and self._stack(name, place, kind) == "":
                return ""
        return place.prefix or name

    def _kind(self, name: str, place: _Place, cross: bool, causal: Callable[[], bool]) -> Kind:
        by_name = self.stacks.kind_by_name(name)
        if cross or by_name == "cross":
            return "cross"
        if self._only not in (None, "cross") and self._stack(name, place, self._only) == "":
            return self._only
        return by_name or ("decoder" if causal() else "encoder")

    def _stack(self, name: str, place: _Place, kind: Kind) -> str:
        own = place.prefix or name
        if not self.stacks.in_root(name):
            return own
        main = self._main.get(self._only if self._only and kind != "cross" else kind)
        if not main or not place.numbers or place.prefix in main:
            return ""
        return own

    def _own_layer(self, module: nn.Module, place: _Place) -> int:
        if place.numbers:
            return self.stacks.layer(place)
        index = getattr(module, "layer_idx", None)
        return index if isinstance(index, int) else 0


def without_softmax(seen: Sequence[AttentionLayer], kind: Kind, layers: int) -> list[int]:
    """Return the layers of the main stack of a kind that no attention was seen in."""
    attending = {layer.index for layer in seen if layer.kind == kind and not layer.stack}
    return sorted(set(range(layers)) - attending)


def layer_classes(model: nn.Module) -> Iterator[str]:
    """Name the classes of a model's numbered layers, each once: what it has in attention's place."""
    seen = set()
    for name, module in model.named_modules():
        kind = type(module).__name__
        if _NUMBER.search(name.rpartition(".")[2]) and kind not in seen:
            seen.add(kind)
            yield kind
