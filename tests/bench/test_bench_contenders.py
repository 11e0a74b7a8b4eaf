import pytest
import torch
from bench_samples import SMALL

from attncli import registry
from attncli.bench.entrants import choose_contenders, find_contender, names
from attncli.bench.inputs import Workload
from attncli.errors import UsageError


def choose(
    wanted: str | None, *settings: str, workload: Workload = SMALL, lengths: tuple[int, ...] = (16, 32)
):
    return choose_contenders(wanted, settings, workload, lengths, "sdpa")


def test_everybody_that_fits_takes_part_by_default_the_reference_first() -> None:
    found, left_out = choose(None)
    assert found[0].name == "sdpa" and {"full", "recurrent", "convolution", "flex"} <= {
        one.name for one in found
    }
    assert len(found) + len(left_out) == len(names())
    for name, entry in registry.entries("variants").items():
        assert (f"{name}: has no causal form" in left_out) == (entry.attributes["causal"] is False)


def test_the_reference_takes_part_though_it_was_not_named_and_nobody_twice() -> None:
    assert [one.name for one in choose("full,full")[0]] == ["sdpa", "full"]


@pytest.mark.parametrize(
    ("wanted", "settings", "words"),
    [
        ("fulll", (), "no variant named 'fulll'"),
        ("full,", (), "a name is missing"),
        ("full", ("full.window=3",), "full has no parameter 'window'"),
        ("convolution", ("convolution.kernel=0",), "kernel must be at least 1"),
        ("convolution", ("convolution.kernel=x",), "kernel must be a whole number"),
        ("full", ("kernl=3",), "nobody here has a parameter 'kernl'"),
        ("full", ("convolution.kernel=3",), "convolution does not take part"),
        ("full", ("convolutio.kernel=3",), "no variant named 'convolutio'"),
        ("convolution", ("convolution.kernel",), "expected variant.name=value"),
        ("convolution", ("convolution.=3",), "expected variant.name=value"),
    ],
)
def test_bad_names_and_settings_are_refused(wanted: str, settings: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words.replace(".", r"\.")):
        choose(wanted, *settings)


def test_a_bare_setting_goes_to_all_that_know_it() -> None:
    found, _ = choose("full,convolution", "kernel=5")
    assert [dict(one.settings) for one in found] == [{}, {}, {"kernel": 5}]


def test_who_was_asked_for_and_cannot_do_it_is_an_error() -> None:
    for name, entry in registry.entries("variants").items():
        if entry.attributes["causal"] is False:
            with pytest.raises(UsageError, match=f"{name}: has no causal form"):
                choose(name)
        if entry.attributes["causal"] == "only":
            with pytest.raises(UsageError, match=f"{name}: has only a causal form"):
                choose(name, workload=Workload(heads=2, head_dim=6, causal=False))


@pytest.mark.parametrize("name", ["sdpa", "flex", "recurrent", "convolution"])
@pytest.mark.parametrize("causal", [False, True])
def test_peers_keep_shape_and_inputs_and_where_causal_do_not_see_the_future(name: str, causal: bool) -> None:
    peer = find_contender(name)
    query, key, value = Workload(batch=2, heads=3, head_dim=4).inputs(7)
    before = [tensor.clone() for tensor in (query, key, value)]
    output = peer.attend(query, key, value, causal)
    assert output.shape == query.shape
    assert all(torch.equal(a, b) for a, b in zip(before, (query, key, value), strict=True))
    if causal:
        for tensor in (query, key, value):
            tensor[:, :, 5:] += 1.0
        torch.testing.assert_close(peer.attend(query, key, value, True)[:, :, :5], output[:, :, :5])


def test_a_variant_may_take_part_twice_under_a_label() -> None:
    assert find_contender("convolution", ("kernel=5",), label="wide").name == "wide"
