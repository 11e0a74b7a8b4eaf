"""Types ``attncli show`` for a family's tiny model in a folder, and holds what it prints against the library."""

from __future__ import annotations

import inspect
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from families.configs import accepts, lm_model
from families.eager import TOLERANCE, compare
from families.folders import PAIR, NoProcessor, medium, write_folder
from families.observing import Everything, source_of
from families.outcome import Outcome, Wrong
from PIL import Image
from torch import Tensor

from attncli.capture.layers import Stacks
from attncli.cli.main import main
from attncli.errors import AttnCliError
from attncli.models.towers import has_towers, tower
from attncli.record import Kind

Maps = Mapping[tuple[Kind, int], Tensor]


class Refused(Exception):
    """The command ended with an error; its first line says why."""


def typed(family: str, model: Any) -> str:
    """Say what the command makes of a family's folder: right, refused, wrong, crash, or no processor."""
    try:
        return _typed(family, model)
    except (NoProcessor, Refused) as reason:
        return str(reason) if isinstance(reason, Refused) else f"no processor: {reason}"
    except Wrong as error:
        return f"WRONG: {error}"
    except AttnCliError as error:
        return f"WRONG: the command shows what the library refuses: {error.message}"


def _typed(family: str, model: Any) -> str:
    takes = medium(model)
    head = lm_model(family) if takes == "sound" else None
    whole = model if head is None else head
    model = whole  # what is shown of a sound is what is written down
    with TemporaryDirectory() as named:
        folder = Path(named)
        what = write_folder(whole, folder)
        documents = list(_documents(what, folder, model, takes, head is not None))
        if has_towers(model.config):
            model = tower(model, family, picture=takes == "picture")
        if takes == "sound" and head is None and getattr(model.config, "is_encoder_decoder", False):
            model = model.get_encoder()
        inputs = _inputs(model, takes, Path(what), folder, documents)
    everything = Everything()
    torch.manual_seed(0)
    run = source_of(model, inputs).run([everything])
    compare(Outcome(family, "right"), model, inputs, everything, run)
    for document in documents:
        _same(document, everything)
    return "right"


def _documents(what: str, folder: Path, model: Any, takes: str, writes: bool) -> Iterator[Any]:
    """Show a model whole, or a layer at a time where their sizes differ."""
    for extra in _questions(model, takes, writes):
        try:
            yield show(what, folder, *extra)
        except Refused as reason:
            if "several sizes" not in str(reason):
                raise
            layers = range(Stacks(model).depth("encoder"))
            parts = [show(what, folder, *extra, "--layer", str(layer)) for layer in layers]
            yield parts[0] | {"attention": [one for part in parts for one in part["attention"]]}


def _questions(model: Any, takes: str, writes: bool) -> Iterator[Sequence[str]]:
    """Give what is typed after the folder: nothing, and for models of two stacks what shows each kind."""
    both = bool(getattr(model.config, "is_encoder_decoder", False))
    yield ("--key", "all") if takes == "sound" else ()
    if both and (takes == "text" or writes):
        for kind in ("encoder", "decoder", "cross"):
            yield ("--key", "all", "--kind", kind) if takes == "sound" else ("--pair", PAIR, "--kind", kind)


def show(what: str, folder: Path, *extra: str) -> Any:
    with _streams() as (out, err):
        code = main(["show", what, "-m", str(folder), "--json", *extra])
    said = err.getvalue().partition("error: ")[2].partition("\n")[0].replace(str(folder), "FOLDER")
    if code == 70 or (code and not said):
        raise Refused(f"CRASH ({code}): {said}")
    if code:
        raise Refused(f"refused ({code}): {said}")
    return json.loads(out.buffer.getvalue())


@contextmanager
def _streams() -> Iterator[tuple[io.TextIOWrapper, io.StringIO]]:
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield out, err
    finally:
        sys.stdin = stdin


def _inputs(model: Any, takes: str, what: Path, folder: Path, documents: Sequence[Any]) -> dict[str, Tensor]:
    """Make again what the command gave the model: the ids it tells, or the processor's numbers."""
    ids = {doc["attention"][0]["kind"]: _ids(doc["query_tokens"]) for doc in documents if doc["attention"]}
    inputs = {"decoder_input_ids": ids["decoder"]} if "decoder" in ids and len(documents) > 1 else {}
    if takes == "text":
        read = ids.get("encoder", ids.get("decoder"))
        return inputs | {"input_ids": read, "attention_mask": torch.ones_like(read)}
    return inputs | (_looked_at(model, what, folder) if takes == "picture" else _heard(model, what, folder))


def _ids(tokens: Sequence[Mapping[str, Any]]) -> Tensor:
    return torch.tensor([[token["id"] if token["id"] is not None else 0 for token in tokens]])


def _looked_at(model: Any, picture: Path, folder: Path) -> dict[str, Tensor]:
    from transformers import AutoImageProcessor

    made = AutoImageProcessor.from_pretrained(folder)(Image.open(picture), return_tensors="pt")
    known = list(inspect.signature(model.forward).parameters)
    if "image_grid_thw" in made:  # the patches stand in one row
        grid = next(name for name in known if name.endswith("grid_thw"))
        return {known[0]: made["pixel_values"], grid: made["image_grid_thw"]} | (
            {"merge_sizes": made["image_merge_sizes"]} if "merge_sizes" in known else {}
        )
    inputs = {name: made[name] for name in made if name == "pixel_values" or name in known}
    if "spatial_shapes" in inputs:  # what comes after the patches is padding
        count = int(inputs["spatial_shapes"].prod())
        inputs = {name: value if value.shape[-1] == 2 else value[:, :count] for name, value in inputs.items()}
    return inputs


def _heard(model: Any, sound: Path, folder: Path) -> dict[str, Tensor]:
    import wave

    import numpy as np
    from transformers import AutoFeatureExtractor

    with wave.open(str(sound), "rb") as file:
        rate, samples = file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), "<i2")
    extractor = AutoFeatureExtractor.from_pretrained(folder)
    made = extractor((samples / 32768).astype(np.float32), sampling_rate=rate, return_tensors="pt")
    return {name: value for name, value in made.items() if accepts(model, name)}


def _same(document: Any, everything: Everything) -> None:
    """Hold a document's maps against the library's: all layers, all heads.

    Raises:
        Wrong: They differ.
    """
    shown: dict[tuple[Kind, int], list[Any]] = {}
    for part in document["attention"]:
        shown.setdefault((part["kind"], part["layer"]), []).append(part["weights"])
    kinds = {kind for kind, _ in shown}
    expected = [place for place in everything.kept if place[0] in kinds]
    if not shown or sorted(shown) != sorted(expected):
        raise Wrong(f"it shows {sorted(shown)}, the library {sorted(expected)}")
    for place, heads in shown.items():
        ours = torch.tensor([[[value or 0.0 for value in row] for row in head] for head in heads])
        theirs = everything.weights(*place)[0]
        if ours.shape != theirs.shape:
            raise Wrong(
                f"{place[0]} layer {place[1]}: {tuple(ours.shape)}, the library has {tuple(theirs.shape)}"
            )
        difference = float((ours - theirs.nan_to_num()).abs().max())
        if not difference <= TOLERANCE:
            raise Wrong(f"{place[0]} layer {place[1]}: differs from the library's by {difference:.2g}")
