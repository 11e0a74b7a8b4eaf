import pytest
import torch

from attncli.bench.cost import count_flops, extrapolate, measure_costs, predicted_bytes, predicted_flops
from attncli.bench.entrants import choose_contenders, find_contender
from attncli.bench.footprint import peak_extra_bytes
from attncli.bench.inputs import Workload


@pytest.mark.parametrize("causal", [False, True])
def test_memory_and_operations_of_a_long_text_are_predicted_closely(causal: bool) -> None:
    workload = Workload(heads=2, head_dim=32, causal=causal)
    for one in choose_contenders(None, (), workload, (256,), "sdpa")[0]:
        call = one.call(workload, workload.inputs(2304))
        with torch.no_grad():
            costs = measure_costs(one, workload, 9999)
            flops, peak = count_flops(one, workload, 2304, call), peak_extra_bytes(call, "cpu")
        predicted = predicted_bytes(costs, workload, 2304) - workload.input_bytes(2304)
        assert peak is not None and 0.9 * peak <= predicted <= 1.5 * peak + 2**22, one.name
        assert flops == pytest.approx(predicted_flops(costs, 2304), rel=0.5), one.name


def test_full_attention_multiplies_every_pair_twice_and_gradients_three_times() -> None:
    workload = Workload(heads=3, head_dim=4, causal=False)
    backward = Workload(heads=3, head_dim=4, causal=False, backward=True)
    full = find_contender("full")
    once = count_flops(full, workload, 11, full.call(workload, workload.inputs(11)))
    with torch.enable_grad():
        thrice = count_flops(full, backward, 11, full.call(backward, backward.inputs(11)))
    assert (once, thrice) == (4 * 3 * 11 * 11 * 4, 3 * once)


def test_peers_whose_products_are_not_seen_have_a_formula() -> None:
    workload = Workload(batch=2, heads=3, head_dim=4, causal=False)
    counts = {}
    for name in ("sdpa", "flex", "recurrent"):
        peer = find_contender(name)
        counts[name] = count_flops(peer, workload, 11, peer.call(workload, workload.inputs(11)))
    pairs = 4 * 2 * 3 * 11 * 11 * 4
    assert counts == {"sdpa": pairs, "flex": pairs, "recurrent": 2 * 2 * 11 * 4 * (12 * 12 + 12 * 12)}


def test_settings_for_long_texts_are_measured_on_longer_ones() -> None:
    first, second = measure_costs(find_contender("dsa", ("top_k=700",)), Workload(heads=2, head_dim=8), 700)
    assert (first.seq_len, second.seq_len) == (1024, 2048)


def test_growth_is_continued_and_at_least_linear() -> None:
    assert extrapolate((512, 512**2), (1024, 1024**2), 4096) == pytest.approx(4096**2)
    assert extrapolate((512, 10.0), (1024, 11.0), 4096) == 44.0
    assert extrapolate((512, 0), (1024, 0), 4096) == 0.0
