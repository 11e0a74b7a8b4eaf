"""Lets a family's tiny language model write, and holds its maps against eager on the same ids."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from families.configs import NotBuildable, lm_model
from families.eager import compare
from families.folders import TEXT, write_tokenizer
from families.observing import Everything
from families.outcome import Outcome, Wrong

from attncli.errors import AttnCliError
from attncli.sources.generation import Sampling, write
from attncli.sources.loading import Loaded, LoadOptions
from attncli.sources.preparing import prepare

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
        compare(outcome, model, dict(source.whole.prepared.inputs), everything, run)
    except Wrong as error:
        return f"WRONG: {error}"
    except AttnCliError as error:
        return "refused: " + error.message.removeprefix(f"--generate: {family} ({family}) ")
    except Exception as error:  # what a user would see as a crash
        return f"CRASH: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
    return "right" if outcome.compared else "works, not compared"


def _loaded(family: str, model: Any) -> Loaded:
    from transformers import AutoTokenizer

    with TemporaryDirectory() as folder:
        model.config.save_pretrained(folder)
        write_tokenizer(Path(folder))
        return Loaded(family, model, AutoTokenizer.from_pretrained(folder), LoadOptions(head=True), None)
