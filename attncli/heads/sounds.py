"""A corpus of sounds: a model hears one after another, and writes down what is said where it can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from attncli.batch import Axis, Batch, Shuffled
from attncli.cli.progress import progress
from attncli.errors import AttnCliError, CaptureError, ReadError, UsageError
from attncli.heads.single_texts import axes_of, order_of
from attncli.inputs.corpus import BadLine, Line
from attncli.inputs.media import check_exists, medium_of
from attncli.labels import safe_label
from attncli.models.alignment_heads import alignment_heads
from attncli.models.batches import Encoded, ModelBatch, RowRule, Side
from attncli.models.generation import GeneratedSource
from attncli.models.input_kinds import inputs_of
from attncli.models.loading import Loaded, load
from attncli.models.opening import load_options
from attncli.models.pretrained import PretrainedSource
from attncli.models.speech import Heard, listen, transcribe
from attncli.record import Kind, Observer, Run

if TYPE_CHECKING:
    from attncli.cli.options import ModelOptions, OutputOptions, TextInput
    from attncli.heads.options import CorpusOptions, RankingOptions
    from attncli.inputs.corpus import Pair


@dataclass(frozen=True)
class SoundFiles:
    """Sounds by their names."""

    names: tuple[str, ...]

    @property
    def size(self) -> int | None:
        """Bytes of all names."""
        return sum(len(name.encode()) + 1 for name in self.names)

    def read(self) -> Iterator[Pair]:
        """Yield each."""
        for number, name in enumerate(self.names, 1):
            yield Line(number, name), None


@dataclass(frozen=True)
class SoundsRequest:
    """Sounds that are to be heard, in place of texts.

    Args:
        lines: Their names; None where each line of a file is one.
        base: Where the names in a file are looked for, besides the working directory.
        writes: Whether the model writes down what it hears.
        corpus: How they are read: without silence.
        has_head: Whether the model could write them down.
    """

    lines: SoundFiles | None
    base: Path
    writes: bool
    corpus: CorpusOptions
    has_head: bool

    def open(self, model: ModelOptions, output: OutputOptions, device: str, rule: RowRule) -> SoundBySound:
        """Load the model that hears them."""
        assert model.model is not None
        with progress(f"loading {safe_label(model.model)} …", output):
            options = replace(load_options(model), head=self.has_head, device=device)
            loaded = load(model.model, options, tokenizer=self.writes)
        return SoundBySound(
            loaded, rule, self.writes, self.base, truncate=model.truncate, verify=not model.no_verify
        )


def sounds_of(
    text: TextInput,
    ranking: RankingOptions,
    corpus: CorpusOptions,
    model: ModelOptions,
    output: OutputOptions,
) -> SoundsRequest | None:
    """Return what sounds are named, for a model of sounds; None where texts are.

    Raises:
        AttnCliError: The sounds are not there, or an option does not go with them.
    """
    named = text.text if text.file is None else text.file
    listed = text.text in (None, "-")
    files = None if named in (None, "-") else _files(named)
    if (files is None and not listed) or model.model is None:
        return None
    takes = inputs_of(model.model, load_options(model))
    if "sound" not in takes.files:
        return None
    if corpus.pair is not None or corpus.pair_field is not None:
        raise UsageError("--pair and --pair-field are for texts: these are sounds", "leave them out")
    if files == ():
        raise ReadError(f"{safe_label(named)}: there are no sounds in it", "such as speech.wav")
    writes = takes.writes and ranking.kind != "encoder"
    corpus = replace(
        corpus,
        exclude_special=corpus.exclude_special or ranking.kind != "decoder",
        null_texts=corpus.null_texts if writes else 0,
    )
    base = Path(text.file or ".").expanduser().parent
    return SoundsRequest(None if files is None else SoundFiles(files), base, writes, corpus, takes.writes)


def _files(named: str) -> tuple[str, ...] | None:
    """Return the sounds in a folder, or the one that is named; None where a list, or no sound, is."""
    path = Path(named).expanduser()
    if medium_of(named) == "sound":
        check_exists(named)
        return (named,)
    if not path.is_dir():
        return None
    return tuple(sorted(str(one) for one in path.iterdir() if medium_of(one.name) == "sound"))


@dataclass
class SoundBySound:
    """A model that hears one sound at a time.

    Silence with which it fills a sound up counts as special: it is left out as key, and has no rows. The baseline is
    what it wrote with its words in another order, over the same sound.

    Args:
        writes: Whether it writes down what it hears; else its encoder runs alone.
        base: Where the names in a list of sounds are looked for, besides the working directory.
    """

    loaded: Loaded
    rule: RowRule
    writes: bool
    base: Path
    truncate: bool = False
    verify: bool = True
    cut: int = 0
    _kept: dict[int, Heard] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _next: PretrainedSource | None = None

    def __post_init__(self) -> None:
        self.kinds: tuple[Kind, ...] = ("encoder", "decoder", "cross")
        if not self.writes:
            self.kinds = ("encoder",) if self.loaded.model.config.is_encoder_decoder else (self.loaded.kind,)

    @property
    def alignment_heads(self) -> frozenset[tuple[int, int]]:
        """Layer and head of those whose cross-attention follows the sound, as the model itself says."""
        return frozenset(alignment_heads(self.loaded.model.generation_config)) if self.writes else frozenset()

    def depth(self, kind: Kind) -> int:
        """Return the number of layers with a kind of attention."""
        from attncli.capture.layers import Stacks

        return Stacks(self.loaded.model).depth(kind)

    def encode(self, lines: Sequence[Pair], first_ordinal: int) -> list[Encoded | BadLine]:
        """Take the names of sounds; they are read when it is their turn."""
        self._names = {ordinal: line.text for ordinal, (line, _) in enumerate(lines, first_ordinal)}
        one = Side((0,), (False,))
        return [
            Encoded(ordinal, one, None, len(line.text.encode()) + 1, line.number)
            for ordinal, (line, _) in enumerate(lines, first_ordinal)
        ]

    def feed(self, texts: Sequence[Encoded], shuffle: int | None = None) -> ModelBatch:
        """Hear a sound; where a seed is given, what was written is put in another order.

        Raises:
            CaptureError: It cannot be read or heard.
        """
        (encoded,) = texts
        heard = self._kept.pop(encoded.ordinal, None) or self._heard(encoded.ordinal)
        if shuffle is not None:
            self._kept[encoded.ordinal] = heard  # its turn will come again
        source = heard.source.whole if isinstance(heard.source, GeneratedSource) else heard.source
        axes = {kind: _axes(source, kind, heard.frames) for kind in self.kinds}
        batches = {kind: Batch(*pair, self._rows(pair[0], kind)) for kind, pair in axes.items()}
        shuffled: dict[Kind, Shuffled] | None = None
        if shuffle is not None and self.writes:
            order = order_of(axes["decoder"][0], shuffle + encoded.ordinal)
            here = torch.arange(axes["cross"][1].ids.shape[1])[None]
            shuffled = {"decoder": Shuffled(order, order), "cross": Shuffled(order, here)}
            source = _written_in_order(source, order)
        self._next = source
        tokens = sum(axis.ids.shape[1] for axis in {id(axis): axis for axis in axes[self.kinds[-1]]}.values())
        return ModelBatch({}, batches, shuffled, 1, tokens, encoded.size)

    def run(self, feed: ModelBatch, observers: Sequence[Observer]) -> Run:
        """Run over the sound that was taken last."""
        assert self._next is not None
        return self._next.run(observers)

    def _heard(self, ordinal: int) -> Heard:
        path = Path(self._names[ordinal]).expanduser()
        if not path.exists():
            path = self.base / path
        hear = transcribe if self.writes else listen
        try:
            return hear(self.loaded, path, truncate=self.truncate, verify=self.verify)
        except AttnCliError as error:
            raise CaptureError(error.message, error.hint) from error

    def _rows(self, queries: Axis, kind: Kind) -> torch.Tensor:
        return ~queries.special & (torch.arange(queries.ids.shape[1]) >= self.rule.first_for(kind))


def _axes(source: PretrainedSource, kind: Kind, frames: int) -> tuple[Axis, Axis]:
    """Return what metrics know of queries and keys: positions after the sound count as special."""
    queries, keys = axes_of(*source.axes(kind))
    if kind == "decoder" and source.prepared.keys.keys() != {"decoder"}:
        return queries, keys
    silent = keys.special.clone()
    silent[:, frames:] = True
    heard = replace(keys, special=silent)
    return heard if queries is keys else queries, heard


def _written_in_order(source: PretrainedSource, order: torch.Tensor) -> PretrainedSource:
    ids = source.prepared.inputs["decoder_input_ids"]
    inputs = {**source.prepared.inputs, "decoder_input_ids": ids.gather(1, order.to(ids.device))}
    return replace(source, prepared=replace(source.prepared, inputs=inputs))
