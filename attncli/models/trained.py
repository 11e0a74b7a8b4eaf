"""The small trained models that come with attncli, built from its own attention: nothing to download."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Int64
from torch import Tensor

from attncli.attention.operation import AttentionOperation
from attncli.attention.transformer import Shape, Transformer
from attncli.capture.blocks import BlockFeed
from attncli.capture.measures import Measure
from attncli.errors import UsageError
from attncli.labels import safe_label
from attncli.models.shipped import Card, read_card, shipped_folder
from attncli.models.tokens import load_tokenizer, tokens_from_encoding, tokens_from_ids
from attncli.record import KINDS, AttentionLayer, Kind, Observer, Run, SourceInfo, Tokens
from attncli.registry import Entry

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ENTRY = Entry(
    name="trained",
    summary="small trained models that come with attncli: tiny-decoder (the default), tiny-encoder, tiny-translator",
    reference="Vaswani et al. 2017, arXiv 1706.03762",
)

LONGEST = 4096
"""Tokens that a text may have: all pairs of them are in memory at once, for every head of a layer."""

MOST_WRITTEN = 24
"""Tokens after which a translation is broken off."""


class TrainedSource:
    """A shipped model over a text.

    Args:
        name: ``tiny-decoder``, ``tiny-encoder``, ``tiny-translator``; or a folder that `training` wrote.
        pair: The target side of an encoder–decoder, teacher-forced; where None, it writes one itself, always the
            likeliest next token.
        truncate: Whether to cut what is longer than it allows.

    Raises:
        UsageError: The text is empty or too long, or a pair was given to a model that takes one text.
    """

    def __init__(
        self,
        name: str | Path,
        text: str,
        pair: str | None = None,
        *,
        truncate: bool = False,
        verify: bool = True,
    ) -> None:
        folder = name if isinstance(name, Path) else shipped_folder(name)
        assert folder is not None, f"{name} is no shipped model"
        self.verify = verify
        self.measure: Measure | None = None
        self.card, self.model, self.tokenizer = _loaded(folder)
        if pair is not None and not self.card.is_pair:
            raise UsageError(f"{self.card.name} takes one text, and --pair gives another", "leave out --pair")
        self.notes: list[str] = []
        self.tokens = self._cut(self._tokens(text, "the text"), truncate)
        self.ids = _ids(self.tokens)
        self.target_tokens = self._target(pair, truncate) if self.card.is_pair else None
        self._say_unknown(text)

    @property
    def network(self) -> Transformer:
        """What holds all its modules; their names are those of the layers."""
        return self.model

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention that this model has."""
        return tuple(kind for kind in KINDS if self.depth(kind))

    def depth(self, kind: Kind) -> int:
        """Return the number of layers that have this kind of attention."""
        shape = self.model.shape
        if kind == "encoder":
            return shape.encoder_layers
        return shape.decoder_layers if kind == "decoder" or self.card.is_pair else 0

    def axes(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """Return the query and key tokens of a kind of attention."""
        target = self.tokens if self.target_tokens is None else self.target_tokens
        if kind == "encoder":
            return self.tokens, self.tokens
        return target, self.tokens if kind == "cross" else target

    def over(self, tokens: Tokens) -> TrainedSource:
        """Return the same model over other tokens; of an encoder–decoder, the encoder's."""
        other = copy(self)
        other.tokens, other.ids = tokens, _ids(tokens)
        return other

    def reordered(self, order: Sequence[int], target: Sequence[int] | None = None) -> TrainedSource:
        """Return the same model over the same tokens in another order, each side's by itself."""
        other = self.over(_in_order(self.tokens, order))
        if self.target_tokens is not None and target is not None:
            other.target_tokens = _in_order(self.target_tokens, target)
        return other

    @torch.inference_mode()
    def run(self, observers: Sequence[Observer]) -> Run:
        """Run forward once and show the observers what they asked for."""
        emitter = BlockFeed(observers, verify=self.verify, measure=self.measure)

        def watch(name: str, operation: AttentionOperation, output: Tensor) -> None:
            emitter.emit(site_of(name, operation), operation, output, "scratch")

        target = None if self.target_tokens is None else _ids(self.target_tokens)
        self.model(self.ids, target, watch=watch)
        axes = {kind: self.axes(kind) for kind in self.kinds}
        return Run(
            source=SourceInfo(self.card.name, "trained", family="full"),
            attention_layers=tuple(emitter.attention_layers),
            queries={kind: pair[0] for kind, pair in axes.items()},
            keys={kind: pair[1] for kind, pair in axes.items()},
            reports=tuple(emitter.reports),
            notes=tuple(self.notes),
            roles=self.card.roles,
        )

    def _tokens(self, text: str, what: str) -> Tokens:
        tokens = tokens_from_encoding(self.tokenizer, self.tokenizer.encode(text), text=text)
        if all(token.special for token in tokens):
            raise UsageError(f"{what} is empty: there is nothing to attend to")
        return tokens

    def _target(self, pair: str | None, truncate: bool) -> Tokens:
        start: int = self.tokenizer.token_to_id("<s>")  # type: ignore[assignment]  # every card has one
        if pair is None:
            written = self._write(start)
            self.notes.append(
                f'{self.card.name} wrote "{"".join(token.text for token in written[1:])}" itself'
            )
            return written
        first = tokens_from_ids(self.tokenizer, [start])
        rest = (replace(token, position=token.position + 1) for token in self._tokens(pair, "--pair"))
        return self._cut((*first, *rest), truncate)

    @torch.inference_mode()
    def _write(self, start: int) -> Tokens:
        """Let the model write: always the likeliest next token, until it ends."""
        end, written = self.tokenizer.token_to_id("</s>"), [start]
        while len(written) <= MOST_WRITTEN:
            likeliest = int(self.model(self.ids, torch.tensor([written]))[0, -1].argmax())
            if likeliest == end:
                break
            written.append(likeliest)
        return tokens_from_ids(self.tokenizer, written)

    def _cut(self, tokens: Tokens, truncate: bool) -> Tokens:
        if len(tokens) <= LONGEST:
            return tokens
        if not truncate:
            raise UsageError(
                f"the text has {len(tokens):,} tokens, and {self.card.name} takes {LONGEST:,}",
                "--truncate cuts it",
            )
        self.notes.append(f"the text was cut to {LONGEST:,} of its {len(tokens):,} tokens")
        return tokens[:LONGEST]

    def _say_unknown(self, text: str) -> None:
        number = self.tokenizer.token_to_id("<unk>")
        unknown = [text[token.start : token.end] for token in self.tokens if token.id == number]
        if unknown:
            names = ", ".join(safe_label(word) for word in dict.fromkeys(unknown))
            self.notes.append(f"{self.card.name} does not know: {names}")


@lru_cache(maxsize=4)
def _loaded(folder: Path) -> tuple[Card, Transformer, Tokenizer]:
    card = read_card(folder)
    return card, load_transformer(folder, card), load_tokenizer(folder)


def load_transformer(folder: Path, card: Card) -> Transformer:
    """Load a model's weights; they are kept in half precision and used in float32."""
    from safetensors.torch import load_file

    # Not on torch's meta device: its first use imports a thousand modules, more than all else here takes.
    with torch.random.fork_rng(devices=[]):
        model = Transformer(Shape(**card.shape))
    model.load_state_dict(load_file(folder / "model.safetensors"))
    return model.eval()


def site_of(name: str, operation: AttentionOperation) -> AttentionLayer:
    """Return the layer of an attention module, by its name: ``decoder.0.cross``."""
    stack, layer, part = name.split(".")
    kind: Kind = "cross" if part == "cross" else "encoder" if stack == "encoder" else "decoder"
    return AttentionLayer(kind, int(layer), operation.heads, operation.kv_heads, name)


def _in_order(tokens: Tokens, order: Sequence[int]) -> Tokens:
    return tuple(replace(tokens[old], position=position) for position, old in enumerate(order))


def _ids(tokens: Tokens) -> Int64[Tensor, "1 length"]:
    return torch.tensor([[token.id for token in tokens]])
