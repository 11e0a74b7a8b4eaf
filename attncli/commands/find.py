"""attncli find: Find the heads that link one word to another, in a text or over labelled pairs.

Words are made of tokens: a head's weight from word to word is the sum over the key word's tokens, and the mean over the
query word's rows. In a text, heads are ranked by what that weight has above the head's own average at the same distance
in words, so that a head that always looks at the word before does not win by accident. Over labelled pairs (--examples)
they are ranked by how often their strongest other word is the right one, beside the best constant offset, and on texts
that were not used to choose the head. Over gold word alignments (--alignments) they are ranked by the alignment error
rate of what each word attends to most in its translation, beside the diagonal.
"""

from __future__ import annotations

from attncli.cli.command import spread
from attncli.cli.options import ModelOptions, OutputOptions, TextInput
from attncli.find.options import FindOptions, WordOptions

EXAMPLES = (
    'attncli find "The animal didn\'t cross the street because it was too tired." --from it --to animal '
    "-m ./all-minilm-l6-v2",
    'attncli find "It fell, so it broke." --from it --to It -m ./all-minilm-l6-v2 --format heatmap',
    "attncli find --examples verb-object -m ./smollm2-135m --top 5",
    "attncli find --alignments gold.txt -m ./annalog-marian --top 5",
    "attncli find --examples pairs.jsonl -m ./all-minilm-l6-v2 --json -o heads.png",
)


@spread
def find(
    text: TextInput, words: WordOptions, choice: FindOptions, model: ModelOptions, output: OutputOptions
) -> None:
    """Find the heads that link two words."""
    from attncli.cli.common import plan_output, tell_checks
    from attncli.cli.output import deliver
    from attncli.find.words import Search, check_words, rank_in_text

    plan = plan_output(output, "HeadRanking", default="table")
    check_words(words, model)
    search = Search.of(choice, model, output)
    if words.alignments is not None:
        from attncli.find.alignments import rank_over_alignments

        view, run = rank_over_alignments(search, words.alignments, words.threshold)
    elif words.examples is None:
        assert words.from_ is not None and words.to is not None
        view, run = rank_in_text(search, text.read("find"), text.file, words.from_, words.to)
    else:
        from attncli.find.labelled_corpus import rank_over_pairs

        view, run = rank_over_pairs(search, words.examples, reverse=words.reverse, seed=words.seed)
    tell_checks(run, output)
    deliver(view, plan)
