"""A trained model's folder: weights, tokenizer, loss curve, and the card that says what it is and how good."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from attncli.attention.transformer import Transformer
from attncli.record import HeadRole

TOLERANCE = 0.05
"""How far the held-out figures of a second training may be from the first's: the seed is the same, but sums are not
taken in the same order on every processor and with every number of threads. (Losses, in nats: the same.)"""

STARTED = (
    "Before training, heads that are told of positions preferred one place each (the token itself, the one before, …), "
    "see `attncli.attention.transformer.initialise`. So a previous-token head was there to begin with, and training "
    "kept it; an induction head was not."
)

MEANINGS = {
    "loss_nats": "mean loss of predicting the next piece of held-out text, in nats",
    "previous_token": "mean weight of its best head on the token before",
    "previous_token_null": "the same for a head that spreads its rows evenly",
    "next_token": "mean weight of its best head on the token after",
    "induction": "mean weight of its best head on what followed earlier occurrences of the row's token",
    "induction_null": "the same for a head that spreads its rows evenly",
    "induction_on_passages_repeated": "the same in the second half of 48 held-out pieces given twice",
    "gap_accuracy": "share of hidden pieces guessed right",
    "gap_accuracy_of_the_most_frequent_piece": "the same for always guessing the most frequent piece",
    "gap_loss_nats": "mean loss of guessing a hidden piece, in nats",
    "exact_dates": "share of dates written without any mistake, teacher-forced",
    "alignment": "share of written pieces whose strongest word in the best cross head is one that says the piece",
    "alignment_of_the_layers_mean": "the same for the mean of the best layer's heads",
    "alignment_null": "the same for a word chosen blindly",
}


@dataclass(frozen=True)
class Trained:
    """All there is to say of a trained model.

    Args:
        figures: Measured on what was held out.
        held_out: What that was.
        roles: What heads do, the strongest of each role first.
        training: With what it was trained, so that it can be again.
        data: Each text's name, licence and checksum.
        paragraphs: The text that was held out, so that figures can be measured again.
        frequent: The piece that guessing without looking would guess.
    """

    name: str
    summary: str
    model: Transformer
    tokenizer: Tokenizer
    losses: Sequence[float]
    figures: Mapping[str, float]
    held_out: str
    roles: Sequence[HeadRole]
    training: Mapping[str, Any]
    data: Sequence[Mapping[str, str]]
    paragraphs: Sequence[str] = ()
    frequent: int | None = None


def write(folder: Path, trained: Trained) -> None:
    """Write the folder's files."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.half().contiguous() for name, tensor in trained.model.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # it is written for its owner alone
    trained.tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    rows = ["step,loss_nats", *(f"{step},{loss:.4f}" for step, loss in _thinned(trained.losses))]
    (folder / "curve.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    if trained.paragraphs:
        (folder / "held-out.txt").write_text("\n".join(trained.paragraphs) + "\n", encoding="utf-8")
    document = _document(trained)
    (folder / "card.json").write_text(
        json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (folder / "README.md").write_text(_page(document), encoding="utf-8")


def halved(model: Transformer) -> Transformer:
    """Round the weights to half precision, as they are kept, so that figures are those of what is kept."""
    rounded = {name: tensor.half().float() for name, tensor in model.state_dict().items()}
    model.load_state_dict(rounded)
    return model


def telling(roles: Sequence[HeadRole], least: float = 0.3) -> list[HeadRole]:
    """Keep the heads that really do what the role says, and of each role at least the best one."""
    seen: set[str] = set()
    kept = []
    for role in roles:
        if role.score >= least or role.role not in seen:
            kept.append(role)
        seen.add(role.role)
    return kept


def _thinned(losses: Sequence[float], points: int = 120) -> list[tuple[int, float]]:
    """Return the mean loss of as many stretches of steps."""
    size = max(1, len(losses) // points)
    return [
        (start + len(part), sum(part) / len(part))
        for start in range(0, len(losses), size)
        if (part := losses[start : start + size])
    ]


def _document(trained: Trained) -> dict[str, Any]:
    return {
        "name": trained.name,
        "summary": trained.summary,
        "licence": "Apache-2.0, as attncli",
        "shape": asdict(trained.model.shape),
        "parameters": sum(parameter.numel() for parameter in trained.model.parameters()),
        "training": {**trained.training, "torch": torch.__version__.partition("+")[0]},
        "data": [dict(text) for text in trained.data],
        "held_out": {
            "what": trained.held_out,
            **({} if trained.frequent is None else {"frequent": trained.frequent}),
            "figures": {name: round(value, 4) for name, value in trained.figures.items()},
            "tolerance": TOLERANCE,
        },
        "roles": [asdict(role) for role in telling(trained.roles)],
    }


def _page(document: Mapping[str, Any]) -> str:
    """Write a card as Markdown."""
    shape, training = document["shape"], document["training"]
    sizes = ", ".join(f"{name} {value}" for name, value in shape.items() if value is not None)
    lines = [
        f"# {document['name']}",
        "",
        f"{document['summary']} {document['parameters']:,} parameters, trained by attncli itself from random "
        "weights, through its own attention. A toy to look at attention with: it knows little.",
        "",
        f"- Shape: {sizes}",
        f"- Made by: `{training['command']}` ({training['steps']:,} steps of {training['batch_size']} sequences of "
        f"{training['length']} tokens, {training['seconds']:,} s, threads: {training['threads']}, "
        f"torch {training['torch']})",
        *([f"- {STARTED}"] if shape["distances"] else []),
        f"- Licence of the weights: {document['licence']}",
        "- Learnt from: " + "; ".join(f"{text['name']}: {text['licence']}" for text in document["data"]),
        *(
            f"  - sha256 of {text['name']}: `{text['sha256']}`"
            for text in document["data"]
            if text.get("sha256")
        ),
        "- Loss, step by step: [curve.csv](curve.csv)",
        "",
        f"## Held out: {document['held_out']['what']}",
        "",
        "| figure | value | |",
        "|---|---:|---|",
        *(
            f"| {name} | {value:.3f} | {MEANINGS[name]} |"
            for name, value in document["held_out"]["figures"].items()
        ),
        "",
        f"A second training gives these within {document['held_out']['tolerance']}.",
        "",
        "## What its heads do",
        "",
        "| head | role | score |",
        "|---|---|---:|",
        *(
            f"| {role['kind']} L{role['layer']}H{role['head']} | {role['role']} | {role['score']:.3f} |"
            for role in document["roles"]
        ),
    ]
    return "\n".join(lines) + "\n"
