"""Runs what ``attncli diff`` was asked: opens the two sides, compares them, and hands over the views."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attncli.cli.options import ModelOptions, OutputOptions, TextInput
from attncli.cli.output import say
from attncli.diff.compare import (
    Pairing,
    Score,
    Sums,
    compare,
    null_distances,
    pairing,
    ranked,
    scores_of_corpus,
    scores_of_text,
)
from attncli.diff.options import METRICS, DiffOptions, SideOptions
from attncli.diff.sides import Reader, Seen, saved
from attncli.errors import CheckFailed, ReadError, UsageError, did_you_mean
from attncli.labels import safe_label
from attncli.observers.selection import NO_MEAN, parse_selection
from attncli.record import Provenance

_PAIRS = ("dtype", "attention", "revision")
_SAVED = (".npz", ".json")


@dataclass(frozen=True)
class Answer:
    """What was found.

    Args:
        scores: In ranked order.
        names: What the two sides are called.
        first: The first side, of a corpus its last text.
        pairs: Which of their rows and keys belong together; None over a corpus.
        sums: Of a corpus.
        made: With what saved runs were made.
    """

    scores: Sequence[Score]
    names: tuple[str, str]
    first: Seen
    second: Seen
    pairs: Pairing | None
    sums: Sums | None = None
    made: tuple[Provenance, Provenance] | None = None


def check(sides: SideOptions, choice: DiffOptions) -> None:
    """Refuse what does not go together, before anything is opened.

    Raises:
        UsageError: It does not.
    """
    if choice.by not in METRICS:
        raise UsageError(f"--by {choice.by}: unknown metric", did_you_mean(choice.by, METRICS))
    if sides.adapter not in (None, "on,off", "off,on"):
        raise UsageError(f"--adapter {sides.adapter}: unknown choice", "write on,off or off,on")


def answer(sides: SideOptions, choice: DiffOptions, model: ModelOptions, output: OutputOptions) -> Answer:
    """Compare the two sides.

    Raises:
        AttnCliError: They cannot be opened, or not be compared.
    """
    layers = parse_selection(choice.layer, "layer", no_mean=NO_MEAN)
    heads = parse_selection(choice.head, "head", no_mean=NO_MEAN)
    if _is_saved(sides.first) and _is_saved(sides.second):
        assert sides.first is not None and sides.second is not None
        found = [saved(path, choice.kind, layers, heads) for path in (sides.first, sides.second)]
        seen, made = [one[0] for one in found], (found[0][1], found[1][1])
        names = Path(sides.first).name, Path(sides.second).name
        return replace(_of_text(seen[0], seen[1], names, choice), made=made)
    models = _two_models(sides, model)
    readers = [Reader(one, output, choice.kind, layers, heads) for one in models]
    names = _names(sides, models)
    if sides.file is not None:
        return _over_corpus(sides, choice, readers, names, output)
    texts = _two_texts(sides, alone=models[0] == models[1])
    if models[0] == models[1]:
        seen = [readers[0].read(text, sides.pair) for text in texts]
    else:
        seen = []
        while readers:  # one model in memory at a time
            seen.append(readers.pop(0).read(texts[len(seen)], sides.pair))
    return _of_text(seen[0], seen[1], names, choice)


def _of_text(first: Seen, second: Seen, names: tuple[str, str], choice: DiffOptions) -> Answer:
    if choice.words:
        first, second = first.by_words(), second.by_words()
    pairs = pairing(first, second, by_depth=choice.by_depth)
    scores = ranked(scores_of_text(compare(first, second, pairs)), choice.by)
    return Answer(scores, names, first, second, pairs)


def _over_corpus(
    sides: SideOptions,
    choice: DiffOptions,
    readers: Sequence[Reader],
    names: tuple[str, str],
    output: OutputOptions,
) -> Answer:
    """Compare over the texts of a file, and hold the first side against itself on other texts."""
    from attncli.cli.progress import counted

    assert sides.file is not None
    if readers[0].model == readers[1].model:
        raise UsageError("both sides are the same model", "name the second: --other-model, --dtype A,B, …")
    texts = _texts(sides.file, sides.field, output)
    shuffled = random.Random(choice.seed).sample(range(len(texts)), len(texts))[: 2 * choice.null_texts]
    half = len(shuffled) // 2
    partner = dict(zip(shuffled[:half], shuffled[half : 2 * half], strict=True))
    sums = Sums()
    last: tuple[Seen, Seen] | None = None
    for number, text in enumerate(counted(texts, "comparing texts", output)):
        first, second = (reader.read(text, sides.pair) for reader in readers)
        if choice.words:
            first, second = first.by_words(), second.by_words()
        sums.add(compare(first, second, pairing(first, second, by_depth=choice.by_depth)))
        if number in partner:
            other = readers[0].read(texts[partner[number]], sides.pair)
            sums.add_null(null_distances(first, other.by_words() if choice.words else other))
        last = first, second
    assert last is not None
    return Answer(ranked(scores_of_corpus(sums), choice.by), names, *last, None, sums)


def _texts(path: str, field: str | None, output: OutputOptions) -> list[str]:
    from attncli.inputs.corpus import BadLine, field_for, read_texts
    from attncli.inputs.text import opened

    texts = []
    with opened(path) as stream:
        for line in read_texts(stream, field_for(path, field)):
            if isinstance(line, BadLine):
                if not output.quiet:
                    say(f"{safe_label(path)} line {line.number}: {line.reason}")
            else:
                texts.append(line.text)
    if not texts:
        raise ReadError(f"{safe_label(path)}: no text in it")
    return texts


def _two_models(sides: SideOptions, model: ModelOptions) -> tuple[ModelOptions, ModelOptions]:
    """Return the two sides' options of loading; a value ``A,B`` names one for each side."""
    first, second = model, model
    for name in _PAIRS:
        one, comma, other = (getattr(model, name) or "").partition(",")
        if comma:
            if not one or not other or "," in other:
                raise UsageError(f"--{name} {getattr(model, name)}: give one or two", f"write --{name} A,B")
            first = replace(first, **{name: one})  # type: ignore[arg-type]
            second = replace(second, **{name: other})  # type: ignore[arg-type]
    if sides.other_model is not None:
        second = replace(second, model=sides.other_model)
    if sides.adapter is not None:
        on = sides.adapter == "on,off"
        first, second = replace(first, no_adapter=not on), replace(second, no_adapter=on)
    return first, second


def _two_texts(sides: SideOptions, *, alone: bool) -> tuple[str, str]:
    """Return each side's text.

    Args:
        alone: Whether both sides are one model, so that there must be two texts.
    """
    first = TextInput(sides.first).read("diff")
    if sides.second is not None:
        return first, TextInput(sides.second).read("diff")
    if alone:
        raise UsageError(
            "there is nothing to compare the text with",
            "give a second text, or a second side: --other-model, --dtype A,B, --attention A,B",
        )
    return first, first


def _names(sides: SideOptions, models: tuple[ModelOptions, ModelOptions]) -> tuple[str, str]:
    """Name the sides by what tells them apart."""
    first, second = models
    told: tuple[list[str], list[str]] = ([], [])
    if first.model != second.model:
        paths = [Path(one.model or "tiny-decoder") for one in models]
        short = [path.name for path in paths]
        for place in (0, 1):
            told[place].append(short[place] if short[0] != short[1] else str(paths[place]))
    for name in _PAIRS:
        one, other = getattr(first, name), getattr(second, name)
        if one != other:
            told[0].append(str(one))
            told[1].append(str(other))
    if first.no_adapter != second.no_adapter:
        for place, one in enumerate(models):
            told[place].append("without adapter" if one.no_adapter else "with adapter")
    if not told[0]:
        return "A", "B"
    return safe_label(" ".join(told[0])), safe_label(" ".join(told[1]))


def _is_saved(text: str | None) -> bool:
    return text is not None and Path(text).suffix.lower() in _SAVED and Path(text).expanduser().is_file()


def check_limit(found: Answer, choice: DiffOptions) -> None:
    """Hold the largest number against ``--fail-over``.

    Raises:
        CheckFailed: A head is over it.
    """
    limit = choice.fail_over
    if limit is None:
        return
    over = [score for score in found.scores if score.value(choice.by) > limit]
    if over:
        worst = over[0]
        raise CheckFailed(
            f"L{worst.head[0]}H{worst.head[1]} differs by {worst.value(choice.by):.3g}, over --fail-over {limit:g}",
            f"{len(over)} of {len(found.scores)} heads are over it",
        )
