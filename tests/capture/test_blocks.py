from dataclasses import replace

import pytest
import torch

from attncli.attention.operation import AttentionOperation
from attncli.capture.blocks import BlockFeed
from attncli.errors import CaptureError
from attncli.record import AttentionLayer, Request, WeightBlock

LAYER = AttentionLayer("encoder", 3, 2, 2, "layer.3")


class Keep:
    def __init__(self, request: Request | None = None) -> None:
        self.wanted, self.blocks = request or Request(), []

    def request(self, layer: AttentionLayer) -> Request:
        return self.wanted

    def update(self, block: WeightBlock) -> None:
        self.blocks.append(block)


def operation(mask: torch.Tensor | None = None) -> AttentionOperation:
    generator = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(1, 2, n, 4, generator=generator) for n in (5, 6, 6))
    return AttentionOperation(query, key, value, scale=0.5, mask=mask)


def right_output(made: AttentionOperation) -> torch.Tensor:
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(
        made.query, made.key, made.value, attn_mask=made.mask, scale=made.scale
    )


def test_only_the_heads_and_rows_that_somebody_asked_for_are_made() -> None:
    first, second = Keep(Request((1,), range(3, 4))), Keep(Request((1,), range(2, 3)))
    BlockFeed([first, second]).emit(LAYER, operation(), None, "interface")
    assert first.blocks[0].weights.shape == (1, 1, 2, 6)
    assert (first.blocks[0].heads, first.blocks[0].rows) == ((1,), range(2, 4))


def test_the_models_own_output_is_the_measure_of_the_weights() -> None:
    emitter = BlockFeed([Keep()])
    emitter.emit(LAYER, operation(), right_output(operation()), "interface")
    assert emitter.reports[0].output_error is not None and emitter.reports[0].output_error < 1e-6


def test_an_output_that_does_not_fit_is_an_error_with_layer_head_and_number() -> None:
    made = operation()
    wrong = right_output(made).clone()
    wrong[0, 1, 2, 0] += 1.0
    with pytest.raises(CaptureError, match=r"encoder layer 3 head 1: recomputed output differs .* by 0\.\d+"):
        BlockFeed([Keep()]).emit(LAYER, made, wrong, "interface")


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_an_output_that_is_not_finite_is_an_error_that_says_so(number: float) -> None:
    made = operation()
    wrong = right_output(made).clone()
    wrong[0, 1, 2, 0] = number
    with pytest.raises(CaptureError, match=r"head 1: the model's own output is not finite .* in float32"):
        BlockFeed([Keep()]).emit(LAYER, made, wrong, "interface")


def test_a_row_without_keys_may_have_an_output_that_is_no_number() -> None:
    mask = torch.ones(1, 1, 5, 6, dtype=torch.bool)
    mask[0, 0, 2] = False
    made = operation(mask)
    output = right_output(made).clone()
    output[0, :, 2] = torch.nan
    emitter = BlockFeed([Keep()])
    emitter.emit(LAYER, made, output, "interface")
    assert emitter.reports[0].output_error is not None and emitter.reports[0].output_error < 1e-6


def test_a_wrong_scale_is_noticed() -> None:
    made = operation()
    with pytest.raises(CaptureError, match="self-check failed"):
        BlockFeed([Keep()]).emit(LAYER, replace(made, scale=0.25), right_output(made), "interface")


def test_without_verification_the_number_stands_in_the_report() -> None:
    made, keep = operation(), Keep()
    emitter = BlockFeed([keep], verify=False)
    emitter.emit(LAYER, replace(made, scale=0.25), right_output(made), "interface")
    assert emitter.reports[0].output_error > 0.01 and keep.blocks


def test_weights_that_are_not_finite_are_an_error() -> None:
    made = operation()
    made.query[0, 1, 0, 0] = torch.nan
    with pytest.raises(CaptureError, match="head 1: weights are not finite"):
        BlockFeed([Keep()]).emit(LAYER, made, None, "interface")


def test_rows_of_given_weights_that_do_not_sum_to_one_are_an_error() -> None:
    weights = torch.full((1, 2, 3, 4), 0.25)
    weights[0, 1, 2] = 0.2
    with pytest.raises(CaptureError, match=r"head 1: a row's weights sum to 1 ± 0\.2"):
        BlockFeed([Keep()]).emit_weights(LAYER, weights, None, "eager")


def test_weight_on_a_forbidden_key_is_an_error() -> None:
    weights, allowed = torch.full((1, 2, 3, 4), 0.25), torch.ones(1, 1, 3, 4, dtype=torch.bool)
    allowed[..., 3] = False
    with pytest.raises(CaptureError, match=r"weight 0\.25 on keys that the mask forbids"):
        BlockFeed([Keep()]).emit_weights(LAYER, weights, allowed, "eager")


def test_rows_without_keys_are_counted_and_not_held_against_the_model() -> None:
    mask = torch.ones(1, 1, 5, 6, dtype=torch.bool)
    mask[0, 0, :2] = False
    made = operation(mask)
    output = right_output(made).clone()
    output[:, :, :2] = 7.0  # models return anything there
    emitter = BlockFeed([Keep()])
    emitter.emit(LAYER, made, output, "interface")
    assert emitter.reports[0].dead_rows == 2
    assert emitter.reports[0].row_sum_error < 1e-6


def test_a_sink_takes_its_share_and_rows_may_sum_to_less() -> None:
    made = replace(operation(), sink=torch.tensor([0.0, 3.0]))
    keep = Keep()
    BlockFeed([keep]).emit(LAYER, made, None, "interface")
    sums = keep.blocks[0].weights.sum(-1)
    assert (sums < 1).all() and (sums[0, 1] < sums[0, 0]).all()


def test_two_operations_with_one_index_are_an_error() -> None:
    emitter = BlockFeed([Keep()])
    emitter.emit(LAYER, operation(), None, "interface")
    emitter.emit(replace(LAYER, stack="vision_tower.layers"), operation(), None, "interface")
    with pytest.raises(CaptureError, match="encoder layer 3: two attention operations have this index"):
        emitter.emit(LAYER, operation(), None, "interface")


def test_a_later_step_of_the_same_layer_is_no_second_operation() -> None:
    emitter = BlockFeed([keep := Keep()])
    emitter.emit(LAYER, operation(), None, "interface")
    emitter.emit(LAYER, replace(operation(), first_query=5), None, "interface")
    assert [block.rows for block in keep.blocks] == [range(5), range(5, 10)]


def test_an_operation_on_other_axes_than_the_tokens_is_refused() -> None:
    emitter = BlockFeed([Keep()], axes={"encoder": (5, 9)})
    with pytest.raises(
        CaptureError, match="its 5 queries and 6 keys are not the 5 and 9 tokens of the input"
    ):
        emitter.emit(LAYER, operation(), None, "interface")


def test_only_the_stack_that_is_shown_is_computed() -> None:
    emitter, tower = BlockFeed([keep := Keep()]), replace(LAYER, stack="vision_tower.layers")
    emitter.emit(tower, lambda: pytest.fail("nobody wants this"), None, "interface")
    assert keep.blocks == [] and emitter.attention_layers == [tower]


def test_a_sink_may_differ_for_each_query() -> None:
    sink = torch.tensor([-torch.inf, 0.0, 1.0, 2.0, 30.0]).reshape(1, 1, 5, 1).expand(1, 2, 5, 1)
    emitter = BlockFeed([keep := Keep()], block_bytes=1)
    emitter.emit(LAYER, replace(operation(), sink=sink), None, "interface")
    sums = torch.cat([block.weights.sum(-1) for block in keep.blocks], dim=-1)
    assert float(sums[0, 0, 0]) == pytest.approx(1.0) and float(sums[0, 1, 4]) < 1e-9


def test_values_may_be_shared_by_other_numbers_of_heads_than_keys() -> None:
    made = operation()
    made = replace(made, key=made.key[:, :1])
    assert made.output(made.weights([1], slice(0, 5)), [1]).equal(
        made.weights([1], slice(0, 5)) @ made.value[:, 1:]
    )


@pytest.mark.parametrize(("dtype", "fits"), [(torch.float32, False), (torch.bfloat16, True)])
def test_half_precision_weights_may_sum_to_a_little_less(dtype: torch.dtype, fits: bool) -> None:
    weights = torch.full((1, 2, 3, 4), 0.249).to(dtype)
    if fits:
        BlockFeed([Keep()]).emit_weights(LAYER, weights, None, "eager")
        return
    with pytest.raises(CaptureError, match=r"a row's weights sum to 1 ± 0\.004"):
        BlockFeed([Keep()]).emit_weights(LAYER, weights, None, "eager")


def test_an_output_that_is_no_number_anywhere_is_an_error_whatever_comes_after() -> None:
    made = operation()
    right = right_output(made)

    def own(rows: slice) -> torch.Tensor:
        return right[:, :, rows] * torch.nan if rows.start == 0 else right[:, :, rows]

    with pytest.raises(CaptureError, match=r"head 0: the model's own output is not finite"):
        BlockFeed([Keep()]).compute(LAYER, made, own)
