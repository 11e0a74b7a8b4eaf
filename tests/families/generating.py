"""Lets a family's tiny language model write, and holds its maps against eager's.

Against eager on the same ids at once; and where cached steps give something else than one pass does (a state-space
layer rounds otherwise, a window has no mask, a choice of keys is a near tie), against transformers' own `generate`.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from families.configs import NotBuildable, lm_model
from families.eager import TOLERANCE, compare, twin
from families.folders import TEXT, write_tokenizer
from families.observing import Everything
from families.outcome import Outcome, Wrong

from attncli.errors import AttnCliError
from attncli.models.generation import GeneratedSource, Sampling, write
from attncli.models.loading import Loaded, LoadOptions
from attncli.models.prepared_text import prepare
from attncli.record import Run

NONE = "–"


def generates(family: str) -> str:
    """Say what comes of ``--generate 3``: works, refused, WRONG; or that the family has no such class."""
    try:
        model = lm_model(family)
    except NotBuildable as error:
        return f"not buildable: {error}"
    if model is None or getattr(model, "main_input_name", "input_ids") != "input_ids":
        return NONE
    outcome = Outcome(family, "right")
    try:
        everything = Everything()
        torch.manual_seed(0)
        source = write(loaded := _loaded(family, model), prepare(loaded, TEXT), Sampling(3))
        run = source.run([everything])
        try:
            compare(outcome, model, dict(source.whole.prepared.inputs), everything, run)
        except Wrong as error:
            _compare_steps(model, source, everything, run, error)
            return "right, step by step"
    except Wrong as error:
        return f"WRONG: {error}"
    except AttnCliError as error:
        return "refused: " + error.message.removeprefix(f"--generate: {family} ({family}) ")
    except Exception as error:  # what a user would see as a crash
        return f"CRASH: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
    return "right" if outcome.compared else "works, not compared"


def _compare_steps(
    model: Any, source: GeneratedSource, everything: Everything, run: Run, otherwise: Wrong
) -> None:
    """Hold each step's rows against those of transformers' own `generate`, which may have dropped old keys.

    Raises:
        Wrong: They differ too, or there is nothing to compare with.
    """
    layers = [layer.index for layer in run.attention_layers if layer.kind == "decoder" and not layer.stack]
    prompt, written = source.start, list(source.written)
    if model.config.is_encoder_decoder:
        raise otherwise
    theirs = twin(model).generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=len(written) + 1, do_sample=False,
        min_new_tokens=len(written) + 1, output_attentions=True, return_dict_in_generate=True,
    )  # fmt: skip
    if theirs.sequences[0, prompt.shape[1] : -1].tolist() != written:
        raise otherwise
    start = 0
    for step in theirs.attentions:
        made = [layer for layer in step if layer is not None]
        if len(made) != len(layers):
            raise otherwise
        end = start + made[0].shape[2]
        for layer, weights in zip(layers, made, strict=True):
            ours = everything.weights("decoder", layer)[:, :, start:end, end - weights.shape[-1] : end]
            if not float((ours - weights).abs().max()) <= TOLERANCE:
                raise otherwise
        start = end


def _loaded(family: str, model: Any) -> Loaded:
    from transformers import AutoTokenizer

    with TemporaryDirectory() as folder:
        model.config.save_pretrained(folder)
        write_tokenizer(Path(folder), family)
        return Loaded(family, model, AutoTokenizer.from_pretrained(folder), LoadOptions(head=True), None)
