import pytest

from attncli.errors import UsageError
from attncli.observers.selection import parse_selection
from attncli.record import AttentionLayer, Run, SourceInfo


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("3", (3,)),
        ("0,2,5-7", (0, 2, 5, 6, 7)),
        ("-1", (8,)),
        ("-3--1", (6, 7, 8)),
        ("5-3", (5, 4, 3)),
        ("2,2,1-3", (2, 1, 3)),
        ("all", tuple(range(9))),
        ("mean", tuple(range(9))),
        ("0-1:mean", (0, 1)),
    ],
)
def test_a_selection_gives_each_index_once_in_the_order_asked_for(text: str, chosen: tuple[int, ...]) -> None:
    assert parse_selection(text, "layer").resolve(9) == chosen


def test_only_mean_averages() -> None:
    assert parse_selection("mean", "head").mean
    assert parse_selection("0-1:mean", "head").mean
    assert not parse_selection("all", "head").mean


@pytest.mark.parametrize("text", ["", "x", "1,,2", "1-2-3", "1.5", "mean:mean", "1:median", "--1"])
def test_what_is_no_selection_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(UsageError, match="not a layer selection") as caught:
        parse_selection(text, "layer")
    assert "0,2,5-7" in str(caught.value.hint)


def test_where_there_is_no_mean_none_is_taken_and_none_is_hinted_at() -> None:
    for text in ("mean", "0-2:mean"):
        with pytest.raises(UsageError, match="--layer mean: each by itself"):
            parse_selection(text, "layer", no_mean="each by itself")
    with pytest.raises(UsageError, match="not a layer selection") as caught:
        parse_selection("abc", "layer", no_mean="each by itself")
    assert str(caught.value.hint).endswith("(0,2,5-7), -1 or all")


@pytest.mark.parametrize("text", ["9", "-10", "0,9", "7-9"])
def test_out_of_range_tells_the_valid_range(text: str) -> None:
    with pytest.raises(UsageError, match="out of range") as caught:
        parse_selection(text, "head").resolve(9)
    assert caught.value.hint == "this model has heads 0 to 8 (-1 is the last)"


def run_of_layers(*layers: int) -> Run:
    layers = (
        *(AttentionLayer("decoder", layer, 4, 2) for layer in layers),
        AttentionLayer("decoder", 0, 4, 2, stack="vision"),
    )
    return Run(SourceInfo("m", "pretrained"), layers, {}, {}, instead={("decoder", 0): "linear attention"})


@pytest.mark.parametrize("layers", ["all", "mean", "0-3", "3-0", "3", "1-3,3"])
def test_of_layers_that_cross_others_without_attention_those_that_have_it_are_taken(layers: str) -> None:
    parse_selection(layers, "layer").refuse_missing(run_of_layers(3), "decoder", 4)


@pytest.mark.parametrize("layers", ["0", "0,3", "0-2", "-4"])
def test_a_layer_without_attention_that_is_named_alone_is_refused_with_what_it_is(layers: str) -> None:
    with pytest.raises(UsageError, match=r"layer 0 has no decoder attention \(linear attention\)") as caught:
        parse_selection(layers, "layer").refuse_missing(run_of_layers(3, 5, 6, 7), "decoder", 4)
    assert caught.value.message.startswith(f"--layer {layers}: ")
    assert caught.value.hint == "layers that have: 3, 5-7"
