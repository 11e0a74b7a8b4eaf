"""Views to draw in tests and in the gallery: real-looking attention, computed, with all-different sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attncli.labels import safe_label
from attncli.record import Provenance, SourceInfo, Token, Tokens
from attncli.view import (
    Column,
    Curve,
    Curves,
    Header,
    HeadMap,
    HeadRanking,
    Matrix,
    MatrixGrid,
    Node,
    Plot,
    Step,
    Steps,
    Table,
)

ANIMAL = "[CLS] the animal didn ' t cross the street because it was too tired . [SEP]".split()

HOSTILE = (
    "\x1b[31mred",
    "\x1b]0;owned\x07",
    "\x9b2J",
    "[/]",
    "[red]",
    ":smile:",
    r"$\badcmd$",
    "<script>alert(1)</script>",
    "\u202egnp.exe",
    "\u0301",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "交通",
    "\x00",
    "a\nb\r\tc",
    '=cmd("x,y")',
    "a|b`c\\|d",
    "\ud83d",
    " the ",
    "",
)

SOURCE = SourceInfo("bert-tiny", "pretrained", family="bert", capture="interface")
PROVENANCE = Provenance("0.1.0", torch="2.13.0", transformers="5.0.0", argv=("show", "x"))


def header(title: str = "bert-tiny · encoder", command: str = "show", notes: tuple[str, ...] = ()) -> Header:
    return Header(command=command, title=title, provenance=PROVENANCE, source=SOURCE, notes=notes)


def tokens(texts: list[str] | tuple[str, ...], first: int = 0) -> Tokens:
    return tuple(
        Token(first + index, 100 + index, text, safe_label(text), special=text in ("[CLS]", "[SEP]"))
        for index, text in enumerate(texts)
    )


def weights(
    rows: int, columns: int, seed: int = 0, pattern: str = "mixed", causal: bool = False
) -> np.ndarray:
    """Draw a head that looks like one: previous token, itself, a sink, a few far words, or all alike."""
    generator = np.random.default_rng(seed)
    query, key = np.arange(rows)[:, None], np.arange(columns)[None, :]
    scores = generator.normal(0, 1.2, (rows, columns))
    if pattern == "previous":
        scores = np.where(key == query - 1, 6.0, scores)
    elif pattern == "self":
        scores = np.where(key == query, 4.0, scores)
    elif pattern == "sink":
        scores = np.where(key == 0, 4.5, scores)
    elif pattern == "local":
        scores = scores - np.abs(key - query) * 0.8
    elif pattern == "uniform":
        scores = scores * 0.1
    if causal:
        scores = np.where(key <= query, scores, -np.inf)
    exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (exponents / exponents.sum(axis=1, keepdims=True)).astype(np.float32)


PATTERNS = ("mixed", "previous", "self", "sink", "local", "uniform")


def grid(
    texts: list[str] | tuple[str, ...] = tuple(ANIMAL),
    layers: int = 1,
    heads: int = 1,
    causal: bool = False,
    keys: list[str] | None = None,
    **settings: object,
) -> MatrixGrid:
    rows, columns = len(texts), len(keys or texts)
    allowed = np.tri(rows, columns, dtype=bool) if causal else None
    kind = "decoder" if causal else ("cross" if keys else "encoder")
    matrices = tuple(
        Matrix(
            weights(rows, columns, layer * heads + head, PATTERNS[(layer * 5 + head * 7) % 6], causal),
            allowed,
            kind=kind,
            layer=layer,
            head=head,
        )
        for layer in range(layers)
        for head in range(heads)
    )
    made = settings.pop("header", header())
    return MatrixGrid(made, matrices, tokens(texts), tokens(keys or texts), **settings)  # type: ignore[arg-type]


def mask(size: int = 9, window: int = 4, texts: list[str] | None = None) -> MatrixGrid:
    allowed = np.tri(size, dtype=bool) & ~np.tri(size, k=-window, dtype=bool)
    per_row = allowed.sum(axis=1).tolist()
    facts = ({"density": float(allowed.mean()), "keys_per_row": per_row},)
    names = tokens(texts or [str(index) for index in range(size)])
    one = Matrix(allowed.astype(np.float32), allowed)
    title = header(f"sliding_window · window {window}", "mask")
    return MatrixGrid(title, (one,), names, names, unit="mask", facts=facts)


def signed(size: int = 13, scale: float = 1.0, texts: list[str] | None = None) -> MatrixGrid:
    """Effective weights of retention: products of queries and keys, fading with distance."""
    generator = np.random.default_rng(5)
    query, key = generator.normal(0, 1, (2, size, 8))
    distance = np.arange(size)[:, None] - np.arange(size)[None, :]
    allowed = distance >= 0
    values = np.where(allowed, query @ key.T / 8**0.5 * 0.9 ** np.maximum(distance, 0) * scale, 0)
    names = tokens(texts or ANIMAL[:size])
    one = Matrix(values.astype(np.float32), allowed)
    return MatrixGrid(header("retention · effective weights"), (one,), names, names, unit="signed")


VARIANTS = ("full", "sliding-window", "sparse", "linear", "dsa")


def variants(size: int = 13, unit: str = "weight") -> MatrixGrid:
    """Five variants of attention over the same tokens, with what each loses."""
    names = tokens([*ANIMAL, *map(str, range(size))][:size])
    allowed = np.tri(size, dtype=bool)
    matrices = tuple(
        Matrix(weights(size, size, seed, PATTERNS[seed], causal=True), allowed, label=label)
        for seed, label in enumerate(VARIANTS)
    )
    if unit == "signed":
        matrices = (*matrices[:4], replace(signed(size).matrices[0], label="retention"))
    facts = tuple(
        {"relative_error": 0.12 * place, "kl_bits": None if place == 4 else 0.3 * place, "max_abs_error": 0.1}
        for place in range(5)
    )
    return MatrixGrid(
        header("five variants", "compare"),
        matrices,
        names,
        names,
        unit=unit,
        facts=facts,  # type: ignore[arg-type]
    )


def table(texts: tuple[str, ...] = ("the", "交通")) -> Table:
    columns = (Column("text"), Column("entropy", unit="bits", digits=2), Column("count"), Column("special"))
    rows = tuple((text, 1.23456 * index, index, index == 0) for index, text in enumerate(texts))
    return Table(header("tokens of a text", "tokens"), columns, rows, "tokens", {"vocabulary": 30522})


def curves(names: tuple[str, ...] = ("full", "linear", "peer")) -> Curves:
    """Two plots with a curve for each name, all of different slopes."""
    x = (512.0, 1024.0, 2048.0)
    seconds = tuple(
        Curve(name, x, tuple(1e-6 * n ** (2 - index / 2) for n in x), f"n^{2 - index / 2}", name == "peer")
        for index, name in enumerate(names)
    )
    size = tuple(
        Curve(name, x, tuple(n * 2048.0 * (index + 1) for n in x)) for index, name in enumerate(names)
    )
    made = header("attention, causal", "bench", notes=("it was noisy",))
    columns = Column("n", right=True), Column("variant"), Column("time", right=True)
    people = Table(
        header("time and memory", "bench"), columns, (("512", "full", "1.2 ms"), ("1024", "linear", "44 µs"))
    )
    data = Table(made, (Column("variant"), Column("median")), (("full", 0.0012), ("linear", 4.4e-5)), "cells")
    plots = Plot("time", "seconds", "n", seconds, (1, 2)), Plot("memory", "bytes", "n", size, (1,))
    return Curves(
        made, plots, (people,), data, {"complete": True, "cells": [{"variant": "full", "median": 0.0012}]}
    )


def steps(label: str = "it") -> Steps:
    """Two steps of which the second has a table with a bar, and a diagram that forks and joins."""
    made = header("a row, explained", "explain", notes=("it was picked",))
    columns = Column("key"), Column("weight", right=True), Column("bar", "", bar=True)
    people = Table(header("", "explain"), columns, ((f"0 {label}", "0.750", 0.75), ("1 b", "0.250", 0.25)))
    told = (
        Step("Input", "x", "(1, 2, 8)", ("eight numbers for each token",)),
        Step("Softmax", "exp(score) / Σ exp(score)", "", ("what each key gets",), (people,)),
    )
    flow = (
        Node("input", ("x", "(1, 2, 8)")),
        Node("query", ("Q = x·W_Q",), ("input",)),
        Node("key", ("K = x·W_K",), ("input",)),
        Node("value", ("V = x·W_V",), ("input",)),
        Node("weights", ("softmax(Q·Kᵀ)",), ("query", "key")),
        Node("output", ("weights·V",), ("weights", "value")),
    )
    data = Table(made, (Column("key"), Column("weight")), ((0, 0.75), (1, 0.25)), "keys")
    return Steps(made, told, flow, data, {"topic": "steps", "keys": [{"weight": 0.75}, {"weight": 0.25}]})


def ranking(
    sizes: dict[str, tuple[int, int]] | None = None,
    unit: str = "weight",
    largest: float = 1.0,
    low: float = 0,
) -> HeadRanking:
    """Heads of a model with an encoder and a decoder of different sizes, ranked by one number; a layer has none."""
    generator = np.random.default_rng(3)
    maps = []
    for kind, (layers, heads) in (sizes or {"encoder": (3, 5), "decoder": (4, 2)}).items():
        values = low + (largest - low) * generator.beta(0.4, 2, (layers, heads)).astype(np.float32)
        values[layers - 2, :] = np.nan
        maps.append(HeadMap(kind, tuple(range(layers)), tuple(range(heads)), values))
    metric = Column("previous_token", unit=unit)
    ranked = sorted(
        (
            (map_.kind, layer, head, value)
            for map_ in maps
            for layer, row in enumerate(map_.values.tolist())
            for head, value in enumerate(row)
            if value == value
        ),
        key=lambda row: -row[3],
    )
    made = header("bert-tiny · heads ranked by previous token", "heads", notes=("rows: content tokens",))
    columns = Column("kind"), Column("layer"), Column("head"), metric
    table = Table(replace(made, title="", notes=()), columns, tuple(ranked), "heads")
    entries = [
        {"kind": kind, "layer": layer, "head": head, "metrics": {"previous_token": {"mean": value}}}
        for kind, layer, head, value in ranked
    ]
    return HeadRanking(made, metric, tuple(maps), (table,), table, {"heads": entries})
