"""attncli find: Find the heads that link one word to another, in a text or over labelled pairs.

Words are made of tokens: a head's weight from word to word is the sum over the key word's tokens, and the mean over the
query word's rows. In a text, heads are ranked by what that weight has above the head's own average at the same distance
in words, so that a head that always looks at the word before does not win by accident. Over labelled pairs (--examples)
they are ranked by how often their strongest other word is the right one, beside the best constant offset, and on texts
that had no say in choosing the head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from attncli.cli.choices import FILES, Choices, labelled_sets
from attncli.cli.options import ModelOptions, OutputOptions, TextInput, spread
from attncli.record import KINDS

EXAMPLES = (
    'attncli find "The animal didn\'t cross the street because it was too tired." --from it --to animal '
    "-m ./all-minilm-l6-v2",
    'attncli find "It fell, so it broke." --from it --to It -m ./all-minilm-l6-v2 --format heatmap',
    "attncli find --examples verb-object -m ./smollm2-135m --top 5",
    "attncli find --examples pairs.jsonl -m ./all-minilm-l6-v2 --json -o heads.png",
)


@dataclass(frozen=True, slots=True)
class Words:
    """Which word attends to which."""

    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WORD", help="The word that attends: it, or it:2 for its second place."
        ),
    ] = None
    to: Annotated[str | None, typer.Option("--to", metavar="WORD", help="The word it attends to.")] = None
    examples: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Labelled pairs: coreference, verb-object, or JSON lines of text, from, to (character spans).",
        ),
        Choices(labelled_sets, FILES),
    ] = None
    reverse: Annotated[
        bool, typer.Option("--reverse", help="With --examples: swap from and to (verb to object).")
    ] = False
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="With --examples: seed of the split into two halves.")
    ] = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """Among which heads."""

    panel: ClassVar[str] = "Heads"

    pair: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Second sentence, or the target text of an encoder–decoder."),
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="encoder, decoder or cross, where a model has several."),
        Choices(KINDS),
    ] = None
    layer: Annotated[str, typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, -1 (last) or all.")] = "all"
    head: Annotated[str, typer.Option(metavar="N", help="0-based: 3, 0,2,5-7, -1 (last) or all.")] = "all"
    top: Annotated[
        int | None,
        typer.Option(metavar="K", min=1, help="Only the K first heads; 10 by default in tables for people."),
    ] = None


@spread
def find(text: TextInput, words: Words, choice: Choice, model: ModelOptions, output: OutputOptions) -> None:
    """Find the heads that link two words."""
    from attncli.cli.common import plan_output, tell_checks
    from attncli.cli.output import deliver
    from attncli.find.words import Search, check_words, rank_in_text

    plan = plan_output(output, "HeadRanking", default="table")
    check_words(text, words, choice, model)
    search = Search.of(choice, model, output)
    if words.examples is None:
        assert words.from_ is not None and words.to is not None
        view, run = rank_in_text(search, text.read("find"), text.file, words.from_, words.to)
    else:
        from attncli.find.labelled_corpus import rank_over_pairs

        view, run = rank_over_pairs(search, words.examples, reverse=words.reverse, seed=words.seed)
    tell_checks(run, output)
    deliver(view, plan)
