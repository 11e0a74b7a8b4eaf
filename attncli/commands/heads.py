"""attncli heads: Rank the heads of a model over a text or a whole corpus, by what they do, against chance.

One row per head: what it does (previous token, induction, delimiters, …), how certain that is, and what chance would
give. A head gets the name of a role only where it is far above its baseline. TEXT is one text; --file and a pipe are a
corpus with one text per line. After Ctrl-C or SIGTERM the finished part is written, and --resume continues from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attncli.cli.command import spread
from attncli.cli.options import ModelOptions, OutputOptions, ScratchOptions, TextInput
from attncli.heads.options import CorpusOptions, ProbeOptions, RankingOptions
from attncli.labels import quoted_for_shell

if TYPE_CHECKING:
    from attncli.heads.question import HeadsRequest
    from attncli.heads.ranking import RankingRequest

EXAMPLES = (
    'attncli heads "The animal was too tired." -m ./all-minilm-l6-v2',
    "attncli heads --file corpus.txt -m ./all-minilm-l6-v2 --by previous_token --top 10",
    'attncli heads --file corpus.txt -m ./all-minilm-l6-v2 --where "delimiter > 0.5 and layer < 3" -o heads.png',
    "attncli heads -m ./smollm2-135m --probe induction",
    "attncli heads --file pairs.jsonl -m ./annalog-marian --pair-field target --kind cross --by diagonal",
    'attncli heads --file corpus.txt -m ./all-minilm-l6-v2 --fail-if "first_token > 0.99 and layer > 2"',
    "attncli heads speech.wav -m ./whisper-tiny-en --kind cross --by monotonicity",
    "attncli heads --file new.txt -m ./all-minilm-l6-v2 --compare-to old.json",
)


@spread
def heads(
    text: TextInput,
    ranking: RankingOptions,
    corpus: CorpusOptions,
    probe: ProbeOptions,
    model: ModelOptions,
    scratch: ScratchOptions,
    output: OutputOptions,
) -> None:
    """Rank heads."""
    from attncli.cli.common import plan_output, tell_next
    from attncli.heads.question import ask
    from attncli.heads.ranks import join, leave, ranks_from

    plan = plan_output(output, "HeadRanking", default="table")
    ranks = ranks_from()
    question = ask(text, ranking, corpus, probe, model, scratch, output)
    wanted = _wanted(ranking, question)
    try:
        join(ranks, question.device, corpus.rank_timeout)
        from attncli.heads.run import find, finish

        found = find(question, ranks, output)
        finish(found, question, wanted, plan, ranks)
        if text.text not in (None, "-") and ranks.is_first:
            of_model = f" -m {quoted_for_shell(model.model)}" if model.model else ""
            tell_next(f"attncli show TEXT{of_model}", str(text.text), plan)
    finally:
        leave(ranks)


def _wanted(ranking: RankingOptions, question: HeadsRequest) -> RankingRequest:
    from attncli.heads.condition import parse_where
    from attncli.heads.ranking import RankingRequest
    from attncli.heads.scores import CHANGES

    names = question.metric_names if ranking.compare_to is None else (*question.metric_names, *CHANGES)
    where = None if ranking.where is None else (parse_where(ranking.where, names), ranking.where)
    fail_if = ranking.fail_if
    failing = None if fail_if is None else (parse_where(fail_if, names, "--fail-if"), fail_if)
    return RankingRequest(
        question.by, ranking.ascending, ranking.top, where, failing, ranking.fail_over, ranking.groups
    )
