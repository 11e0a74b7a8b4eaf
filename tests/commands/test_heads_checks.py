"""``heads`` as a check: conditions that end with exit code 3, and changes since an older run."""

from pathlib import Path

import numpy as np
import pytest
import tiny
from commandline import Cli


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    return tiny.write_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def corpus(tmp_path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text(
        "the animal was tired\nit did cross the animal\nit was too tired .\nthe animal did cross\n"
    )
    return path


def test_a_condition_that_a_head_fulfils_ends_with_3_and_names_the_heads(cli: Cli, bert, corpus) -> None:
    some = cli("heads", "--file", str(corpus), "-m", str(bert), "--fail-if", "layer == 1 and head > 0")
    assert some.code == 3 and "2 of 6 heads fulfil --fail-if" in some.err and "hint: L1H1, L1H2" in some.err
    none = cli("heads", "--file", str(corpus), "-m", str(bert), "--fail-if", "first_token > 1")
    assert none.code == 0 and none.out == some.out


def test_a_wrong_condition_is_told_under_its_own_option(cli: Cli, bert, corpus) -> None:
    found = cli("heads", "--file", str(corpus), "-m", str(bert), "--fail-if", "first_tokn > 1")
    assert found.code == 2 and '--fail-if: no metric "first_tokn"' in found.err


def test_heads_are_ranked_by_what_changed(cli: Cli, bert, corpus, tmp_path) -> None:
    old, other = tmp_path / "old.json", tmp_path / "other.txt"
    cli("heads", "--file", str(corpus), "-m", str(bert), "-o", str(old))
    other.write_text("it it it it\nthe the the .\nwas was was was was\n")
    given = ("heads", "--file", str(other), "-m", str(bert), "--compare-to", str(old))
    document = cli(*given, "--by", "z", "--json").json
    changes = {(one["layer"], one["head"]): one for one in document["changes"]}
    numbers = [head["metrics"] for head in document["heads"]]
    sizes = [abs(one["z"]["mean"]) for one in numbers if one["z"]["mean"] is not None]
    assert len(sizes) >= 3 and sizes == sorted(sizes, reverse=True)
    for head in document["heads"]:
        change = changes[head["layer"], head["head"]]
        assert head["metrics"]["change"]["mean"] == pytest.approx(change["difference"])
        assert head["metrics"]["z"]["mean"] == (None if change["z"] is None else pytest.approx(change["z"]))
    assert cli(*given, "--by", "z", "--fail-over", str(max(sizes) + 1)).code == 0
    over = cli(*given, "--by", "z", "--fail-over", str(max(sizes) - 1e-6))
    assert over.code == 3 and "1 of 6 heads are over it" in over.err
    assert cli("heads", "--file", str(other), "-m", str(bert), "--by", "z").code == 2


def test_the_chance_of_a_change_is_corrected_by_holms_rule() -> None:
    from math import erfc, sqrt

    from attncli.heads.changes import Change, with_changes
    from attncli.heads.scores import Head

    z = [3.0, 0.5, 2.5, 1.0]
    heads = [Head("encoder", 0, head, head, {}) for head in range(4)]
    changes = [Change("encoder", 0, head, "entropy", 0.0, 1.0, one, (), ()) for head, one in enumerate(z)]
    found = [head.value("p") for head in with_changes(heads, changes)]
    raw = [erfc(one / sqrt(2)) for one in z]
    order = np.argsort(raw)
    stepped = np.maximum.accumulate([min(1.0, raw[place] * (4 - rank)) for rank, place in enumerate(order)])
    assert [found[place] for place in order] == pytest.approx(stepped.tolist())
