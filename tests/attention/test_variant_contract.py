"""What every variant in the registry must keep, whoever wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from attncli import registry
from attncli.attention.core import repeat_kv

ENTRIES = registry.entries("variants")
HEADS, KV_HEADS, HEAD_DIM, VALUE_DIM = 4, 2, 8, 6
LENGTHS = (1, 2, 7, 64, 100, 129)


def load(name: str) -> ModuleType:
    return registry.load("variants", name)


def forms(name: str) -> tuple[bool, ...]:
    """Whether there is a causal form, another, or both."""
    return {True: (False, True), False: (False,), "only": (True,)}[ENTRIES[name].attributes["causal"]]  # type: ignore[index]


def settings(name: str, largest: int | None) -> dict[str, Any]:
    """Every parameter's default; whole numbers no larger than `largest`, so that short inputs have many blocks."""
    values = ENTRIES[name].settings()
    if largest is None:
        return values
    least = {parameter.name: parameter.minimum or 0 for parameter in ENTRIES[name].parameters}
    return {
        key: max(min(value, largest), int(least[key])) if type(value) is int else value
        for key, value in values.items()
    }


def every_form() -> Iterator[Any]:
    for name in ENTRIES:
        for causal in forms(name):
            for largest in (None, 3, 16):
                kind = "causal" if causal else "not-causal"
                yield pytest.param(
                    name, causal, settings(name, largest), id=f"{name}-{kind}-{largest or 'default'}"
                )


each_form = pytest.mark.parametrize(("name", "causal", "values"), list(every_form()))
each_name = pytest.mark.parametrize("name", ENTRIES)


def inputs(
    length: int, *, keys: int | None = None, batch: int = 3, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(length)
    keys = length if keys is None else keys
    shapes = ((HEADS, length, HEAD_DIM), (KV_HEADS, keys, HEAD_DIM), (KV_HEADS, keys, VALUE_DIM))
    query, key, value = (torch.randn(batch, *shape, dtype=dtype, generator=generator) for shape in shapes)
    return query, key, value


def padding(keys: int) -> Tensor:
    """No padding, a third of padding at the end, and padding only: then no row has a key."""
    real = torch.ones(3, keys, dtype=torch.bool)
    real[1, keys - keys // 3 :] = False
    real[2] = False
    return real


@each_form
@pytest.mark.parametrize("length", LENGTHS)
def test_weights_times_value_are_the_output(
    name: str, causal: bool, values: dict[str, Any], length: int
) -> None:
    variant = load(name)
    query, key, value = inputs(length)
    for key_mask in (None, padding(length)):
        output = variant.attend(query, key, value, causal=causal, key_mask=key_mask, **values)
        weights = variant.weights(query, key, causal=causal, key_mask=key_mask, **values)
        assert output.shape == (3, HEADS, length, VALUE_DIM) and weights.shape == (3, HEADS, length, length)
        torch.testing.assert_close(output, weights @ repeat_kv(value, HEADS), atol=1e-10, rtol=0.0)


@each_form
def test_rows_without_keys_give_zeros(name: str, causal: bool, values: dict[str, Any]) -> None:
    query, key, value = inputs(13)
    output = load(name).attend(query, key, value, causal=causal, key_mask=padding(13), **values)
    assert torch.equal(output[2], torch.zeros_like(output[2]))


@each_form
def test_what_stands_in_padded_slots_changes_nothing(name: str, causal: bool, values: dict[str, Any]) -> None:
    query, key, value = inputs(21)
    real = padding(21)
    output = load(name).attend(query, key, value, causal=causal, key_mask=real, **values)
    hidden = ~real[:, None, :, None]
    key, value = key.masked_fill(hidden, torch.nan), value.masked_fill(hidden, torch.nan)
    assert torch.equal(load(name).attend(query, key, value, causal=causal, key_mask=real, **values), output)


@each_form
def test_a_later_token_changes_no_earlier_row_by_a_bit(
    name: str, causal: bool, values: dict[str, Any]
) -> None:
    if not causal:
        pytest.skip("this form looks ahead")
    before = inputs(100, dtype=torch.float32)
    output = load(name).attend(*before, causal=True, **values)
    for token in (1, 63, 64, 99):
        after = [tensor.clone() for tensor in before]
        for tensor in after:
            tensor[:, :, token] += 3.0
        changed = load(name).attend(*after, causal=True, **values)
        assert torch.equal(changed[:, :, :token], output[:, :, :token])
        assert not torch.equal(changed[:, :, token], output[:, :, token])


@each_form
def test_inputs_and_global_random_state_stay_as_they_are(
    name: str, causal: bool, values: dict[str, Any]
) -> None:
    given = (*inputs(31), padding(31))
    copies = [tensor.clone() for tensor in given]
    state = torch.get_rng_state()
    load(name).attend(*given[:3], causal=causal, key_mask=given[3], **values)
    load(name).weights(*given[:2], causal=causal, key_mask=given[3], **values)
    load(name).mask(31, 31, causal=causal, **values)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(given, copies, strict=True))


@each_form
def test_the_same_call_gives_the_same_bits(name: str, causal: bool, values: dict[str, Any]) -> None:
    query, key, value = inputs(50)
    one, other = (load(name).attend(query, key, value, causal=causal, **values) for _ in range(2))
    assert torch.equal(one, other)


@each_form
def test_weights_lie_within_the_mask(name: str, causal: bool, values: dict[str, Any]) -> None:
    query, key, _ = inputs(41)
    mask = load(name).mask(41, 41, causal=causal, **values)
    weights = load(name).weights(query, key, causal=causal, **values)
    assert mask.dtype == torch.bool and mask.shape == (41, 41)
    assert not weights[:, 0, ~mask].any()


@each_form
def test_rows_of_unsigned_weights_sum_to_one_so_that_a_constant_value_comes_out(
    name: str, causal: bool, values: dict[str, Any]
) -> None:
    if ENTRIES[name].attributes["signed"]:
        pytest.skip("its rows need not sum to 1")
    query, key, value = inputs(41)
    output = load(name).attend(query, key, torch.full_like(value, -2.5), causal=causal, **values)
    torch.testing.assert_close(output, torch.full_like(output, -2.5), atol=1e-5, rtol=0.0)
    assert bool((load(name).weights(query, key, causal=causal, **values) >= 0.0).all())


@each_form
def test_exact_variants_equal_full_attention(name: str, causal: bool, values: dict[str, Any]) -> None:
    if not ENTRIES[name].attributes["exact"]:
        pytest.skip("it is another operation than full attention")
    query, key, value = inputs(77)
    expected = load("full").attend(query, key, value, causal=causal, key_mask=padding(77))
    output = load(name).attend(query, key, value, causal=causal, key_mask=padding(77), **values)
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0.0)


@each_form
def test_gradients_are_those_of_the_plain_form(name: str, causal: bool, values: dict[str, Any]) -> None:
    variant = load(name)
    tensors = [tensor.requires_grad_() for tensor in inputs(23)]
    query, key, value = tensors
    output = variant.attend(query, key, value, causal=causal, key_mask=padding(23), **values)
    plain = variant.weights(query, key, causal=causal, key_mask=padding(23), **values) @ repeat_kv(
        value, HEADS
    )
    upstream = torch.linspace(-1.0, 1.0, output.numel(), dtype=output.dtype).view_as(output)
    for grad, expected in zip(
        torch.autograd.grad(output, tensors, upstream),
        torch.autograd.grad(plain, tensors, upstream),
        strict=True,
    ):
        torch.testing.assert_close(grad, expected, atol=1e-10, rtol=0.0)


@each_form
def test_half_precision_comes_back_as_it_went_in_and_is_computed_in_more(
    name: str, causal: bool, values: dict[str, Any]
) -> None:
    query, key, value = (tensor.bfloat16() for tensor in inputs(33))
    output = load(name).attend(query, key, value, causal=causal, **values)
    expected = load(name).attend(query.float(), key.float(), value.float(), causal=causal, **values)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), expected, atol=2e-2, rtol=1.6e-2)


@each_form
def test_large_scores_in_half_precision_stay_finite(name: str, causal: bool, values: dict[str, Any]) -> None:
    if ENTRIES[name].attributes["signed"]:
        pytest.skip("without a softmax, large scores are large outputs")
    query, key, value = (200 * tensor.half() for tensor in inputs(21))
    assert load(name).attend(query, key, value / 200, causal=causal, **values).isfinite().all()
    assert load(name).weights(query, key, causal=causal, **values).isfinite().all()


@each_form
def test_without_keys_there_is_nothing_or_a_refusal(name: str, causal: bool, values: dict[str, Any]) -> None:
    query, key, value = inputs(5, keys=0)
    try:
        output = load(name).attend(query, key, value, causal=causal, **values)
        weights = load(name).weights(query, key, causal=causal, **values)
    except ValueError:
        return
    assert output.shape == (3, HEADS, 5, VALUE_DIM) and not output.any()
    assert weights.shape == (3, HEADS, 5, 0)


@each_name
def test_numbers_out_of_a_parameter_s_range_are_refused_by_name(name: str) -> None:
    query, key, value = inputs(9)
    for parameter in ENTRIES[name].parameters:
        if type(parameter.default) is not int:
            continue
        for number in (10**20, int(parameter.minimum or 0) - 1):
            chosen = settings(name, 3) | {parameter.name: number}
            for causal in forms(name):
                for call in (
                    lambda: load(name).attend(query, key, value, causal=causal, **chosen),  # noqa: B023
                    lambda: load(name).weights(query, key, causal=causal, **chosen),  # noqa: B023
                    lambda: load(name).mask(9, 9, causal=causal, **chosen),  # noqa: B023
                ):
                    with pytest.raises(ValueError, match=f"{parameter.name} must be at"):
                        call()


@each_name
def test_the_largest_window_or_block_that_is_allowed_works_on_a_short_text(name: str) -> None:
    query, key, value = inputs(9)
    for parameter in ENTRIES[name].parameters:
        if type(parameter.default) is int and parameter.maximum is None:
            for causal in forms(name):
                chosen = settings(name, 3) | {parameter.name: registry.LARGEST}
                try:
                    output = load(name).attend(query, key, value, causal=causal, **chosen)
                except ValueError as error:
                    assert parameter.name in str(error)
                    continue
                weights = load(name).weights(query, key, causal=causal, **chosen)
                torch.testing.assert_close(output, weights @ repeat_kv(value, HEADS), atol=1e-10, rtol=0.0)


@each_form
@pytest.mark.parametrize(("queries", "keys"), [(5, 37), (1, 9), (6, 4)])
def test_more_keys_than_queries_or_fewer_are_right_or_refused(
    name: str, causal: bool, values: dict[str, Any], queries: int, keys: int
) -> None:
    variant = load(name)
    query, key, value = inputs(queries, keys=keys)
    try:
        output = variant.attend(query, key, value, causal=causal, **values)
    except ValueError as error:
        assert (
            not ENTRIES[name].attributes["cross"] and str(queries) in str(error) and str(keys) in str(error)
        )
        return
    weights = variant.weights(query, key, causal=causal, **values)
    torch.testing.assert_close(output, weights @ repeat_kv(value, HEADS), atol=1e-10, rtol=0.0)


@each_name
def test_a_form_that_does_not_exist_is_refused(name: str) -> None:
    query, key, value = inputs(9)
    for causal in {False, True} - set(forms(name)):
        for call in (
            lambda: load(name).attend(query, key, value, causal=causal),  # noqa: B023
            lambda: load(name).weights(query, key, causal=causal),  # noqa: B023
            lambda: load(name).mask(9, 9, causal=causal),  # noqa: B023
        ):
            with pytest.raises(ValueError, match="causal"):
                call()


@each_name
def test_the_entry_says_what_a_reader_must_know(name: str) -> None:
    entry = ENTRIES[name]
    assert {"exact", "causal", "cross", "signed"} <= set(entry.attributes)
    assert entry.reference and entry.summary and all(parameter.meaning for parameter in entry.parameters)


def sizes(query: Tensor, key: Tensor, value: Tensor) -> dict[str, int]:
    batch, heads, query_len, head_dim = query.shape
    return {
        "batch": batch,
        "heads": heads,
        "query_len": query_len,
        "key_len": key.shape[2],
        "head_dim": head_dim,
        "value_dim": value.shape[3],
    }


def peak_bytes(call: Callable[[], object]) -> int:
    """Follow torch's allocations and frees, and give the highest sum. No timing, no fresh process."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        result = call()
    assert result is not None
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak
