"""Any Hugging Face model as a source of attention: it runs once, at its own speed, and is watched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from attncli.capture.blocks import BLOCK_BYTES, OWN_FORWARD, BlockFeed
from attncli.capture.forward_pass import Enough, Watch
from attncli.capture.layers import Stacks, layer_classes, without_softmax
from attncli.capture.measures import Measure
from attncli.errors import CaptureError
from attncli.labels import in_ranges, safe_label
from attncli.models.fingerprint import fingerprint
from attncli.models.loading import Loaded, LoadOptions, load
from attncli.models.loops import layers_run, loops
from attncli.models.prepared_text import Prepared, prepare
from attncli.record import KINDS, Kind, Observer, Run, SourceInfo, Tokens
from attncli.registry import Entry
from attncli.view import Picture

ENTRY = Entry(
    name="pretrained",
    summary="any Hugging Face model, by folder, cache or hub name (--model); runs its own fast attention, watched",
)


@dataclass
class PretrainedSource:
    """One model and what to run it on.

    Args:
        verify: Whether a failed self-check is an error.
        stack: Which row of layers to show, by the name that ``Run.attention_layers`` gives it: the text model's own
            where empty.
        block_bytes: How large a block of weights may be that observers are shown.
        fast: Whether layers whose own kernel is slow on a long text (soft-cap, sink, window) run our own exact block
            forward instead: observing no longer leaves the model's output bit for bit the same.
        measure: What observers see in place of the weights.
    """

    loaded: Loaded
    prepared: Prepared
    verify: bool = True
    stack: str = ""
    block_bytes: int = BLOCK_BYTES
    fast: bool = False
    measure: Measure | None = None
    _ran: dict[Kind, int] = field(default_factory=dict)

    @cached_property
    def stacks(self) -> Stacks:
        """The rows of layers that the model is made of."""
        return Stacks(self.loaded.model)

    @property
    def network(self) -> nn.Module:
        """The model."""
        network: nn.Module = self.loaded.model
        return network

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention that this pass will have."""
        return tuple(kind for kind in KINDS if kind in self.prepared.queries)

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Each view of each picture that the text has."""
        return self.prepared.pictures

    def depth(self, kind: Kind) -> int:
        """Return the number of layers of the stack that has this kind of attention; those that loop count each time."""
        depth = self.stacks.depth(kind)
        return max(depth, self._looped(kind)) if loops(self.loaded.model.config) else depth

    def _looped(self, kind: Kind) -> int:
        if kind not in self._ran:
            self._ran[kind] = layers_run(self.loaded.model, self.stacks, kind)
        return self._ran[kind]

    def axes(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """Return the query and key tokens of a kind of attention."""
        return self.prepared.queries[kind], self.prepared.keys[kind]

    @torch.inference_mode()
    def run(self, observers: Sequence[Observer]) -> Run:
        """Run forward once and show the observers what they asked for.

        Raises:
            CaptureError: The model's attention cannot be seen, or a self-check failed.
            UsageError: An observer asked for what is not there.
        """
        axes = {kind: self.axes(kind) for kind in self.kinds}
        lengths = {kind: (len(queries), len(keys)) for kind, (queries, keys) in axes.items()}
        emitter = BlockFeed(
            observers,
            self.verify,
            self.block_bytes,
            axes=None if self.stack else lengths,
            stack=self.stack,
            measure=self.measure,
        )
        model = self.loaded.model
        watch = Watch(
            model,
            emitter,
            self.kinds,
            _batch(self.prepared.inputs),
            stacks=self.stacks,
            fast=self.fast,
            may_stop=not hasattr(model, "hf_device_map"),  # accelerate wants to clear up after each module
        )
        with watch.watching(), without_cache(model), suppress(Enough):
            self._forward(model)
        if not any(layer.stack == self.stack for layer in emitter.attention_layers):
            raise self._nothing_seen(emitter)
        return self.result(emitter, self.prepared.notes)

    def _nothing_seen(self, emitter: BlockFeed) -> CaptureError:
        family, stacks = self.loaded.family, sorted({layer.stack for layer in emitter.attention_layers})
        if self.stack or stacks:
            return CaptureError(
                f"{family}: no attention was seen in {self.stack or 'its main stack'}",
                f"there is some in: {', '.join(stacks) or 'none'}",
            )
        made_of = ", ".join(list(layer_classes(self.loaded.model))[:3])
        return CaptureError(
            f"{family}: no softmax over the tokens was found in its layers ({made_of}): there are no weights"
        )

    def _what_was_seen(self, emitter: BlockFeed) -> list[str]:
        """Return which layers of a hybrid model have no softmax attention, and whose weights are the model's own."""
        notes = []
        if any(report.capture == "eager" and report.output_error is None for report in emitter.reports):
            notes.append(
                f"{self.loaded.family} computes attention in a way of its own: the weights are those of its softmax"
            )
        if self.fast:
            notes.append(_what_ran_fast(emitter))
        for kind in () if self.stack or emitter.stopped else self.kinds:
            without = self._instead(emitter, kind)
            if without and len(without) < self.depth(kind):
                notes.append(f"{kind} layers without softmax attention: {_by_what(without)}")
        return notes

    def _instead(self, emitter: BlockFeed, kind: Kind) -> dict[int, str]:
        """Return the layers of the main stack without attention of a kind, and what they have in its place."""
        without = without_softmax(emitter.attention_layers, kind, self.depth(kind))
        return {layer: self.stacks.what_is_in(self.network, kind, layer) for layer in without}

    @torch.inference_mode()
    def output(self) -> Any:
        """Run forward once, unobserved.

        Raises:
            CaptureError: The model does not take this input.
        """
        return self._forward(self.loaded.model)

    def _forward(self, model: Any, **options: Any) -> Any:
        module = model.get_encoder() if self.prepared.encoder_only else model
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)  # some hide patches at random: the same ones each time
                return module(**self.prepared.inputs, **options)
        except torch.OutOfMemoryError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError, AssertionError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise CaptureError(f"{self.loaded.family} does not run on this input: {reason}") from error

    def result(self, emitter: BlockFeed, notes: Sequence[str]) -> Run:
        """Return what a run has shown to an emitter."""
        notes = [*self.loaded.notes, *notes, *self._what_was_seen(emitter)]
        model, options, adapter = self.loaded.model, self.loaded.options, self.loaded.adapter
        captures = {report.capture for report in emitter.reports}
        info = SourceInfo(
            name=self.loaded.name,
            kind="pretrained",
            family=self.loaded.family,
            revision=options.revision,
            adapter=None if adapter is None else adapter.name,
            dtype=str(model.dtype).removeprefix("torch."),
            device=self.loaded.devices,
            capture="eager" if captures == {"eager"} else "interface",
            weights=fingerprint(self.loaded.folder),
        )
        if adapter is not None:
            notes += [f"the adapter ({adapter.kind}) is applied: --no-adapter leaves it out", *adapter.notes]
        if not self.verify:
            notes = [*notes, "unverified: the self-checks were switched off (--no-verify)"]
        layers, reports = tuple(emitter.attention_layers), tuple(emitter.reports)
        queries, keys = self.prepared.queries, self.prepared.keys
        instead = {
            (kind, layer): what
            for kind in (() if self.stack or emitter.stopped else self.kinds)
            for layer, what in self._instead(emitter, kind).items()
        }
        stopped = emitter.stopped
        return Run(info, layers, queries, keys, reports, tuple(notes), stopped=stopped, instead=instead)


def _by_what(layers: Mapping[int, str]) -> str:
    """Write layers by what they are: ``0-2, 4 (linear attention)``."""
    groups: dict[str, list[int]] = {}
    for layer, what in layers.items():
        groups.setdefault(what, []).append(layer)
    return "; ".join(f"{in_ranges(group)} ({safe_label(what)})" for what, group in groups.items())


def _what_ran_fast(emitter: BlockFeed) -> str:
    fast = [report for report in emitter.reports if report.capture == OWN_FORWARD]
    if not fast:
        return "--fast changed nothing: no layer has a soft-cap, a sink or a window that makes it slow at this length"
    worst = max(report.output_error or 0.0 for report in fast)
    return (
        f"{len(fast)} of {len(emitter.attention_layers)} attention operations ran attncli's own block forward "
        f"(--fast); their output is the model's within {worst:.1g} of its largest value"
    )


def open_model(
    name: str,
    text: str,
    pair: str | None = None,
    *,
    options: LoadOptions | None = None,
    truncate: bool = False,
    verify: bool = True,
    fast: bool = False,
) -> PretrainedSource:
    """Load a model and make a text ready for it.

    Args:
        text: What the model reads.
        pair: A second sentence, or the target text of an encoder–decoder.
        truncate: Whether to cut what is longer than the model allows.
        fast: See `PretrainedSource`.

    Raises:
        ModelError: The model is not available.
        UsageError: The text is empty or too long, or the model takes no text.
    """
    loaded = load(name, options)
    return PretrainedSource(loaded, prepare(loaded, text, pair, truncate=truncate), verify, fast=fast)


@contextmanager
def without_cache(model: Any) -> Iterator[None]:
    """Keep no keys and values for tokens to come: nothing comes after a single pass, and they outweigh our answers.

    Encoder–decoders stay as they are: some pass their encoder's output on by the cache.
    """
    if model.config.is_encoder_decoder:
        yield
        return
    configs = {id(config): config for config in (model.config, model.config.get_text_config())}
    before = [
        (config, config.use_cache) for config in configs.values() if getattr(config, "use_cache", False)
    ]
    for config, _ in before:
        config.use_cache = False
    try:
        yield
    finally:
        for config, used in before:
            config.use_cache = used


def _batch(inputs: Mapping[str, Tensor]) -> int:
    if "input_ids" not in inputs and any(name.endswith("grid_thw") for name in inputs):
        return 1  # the patches of all pictures stand in one row
    return next((tensor.shape[0] for tensor in inputs.values() if tensor.dim() > 1), 1)
