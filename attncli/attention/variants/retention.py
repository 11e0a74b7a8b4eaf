"""Retention: attention without a softmax, in which the past fades by a factor γ with each step, in three equal forms.

    parallel     O = (QKᵀ/√head_dim ∘ D) V,   Dᵢⱼ = γ^(i−j) for j ≤ i, else 0
    recurrent    Sᵢ = γ Sᵢ₋₁ + kᵢᵀ vᵢ,   oᵢ = qᵢ Sᵢ / √head_dim
    chunk-wise   parallel inside a chunk, recurrent from one chunk to the next

Query and key are turned by their position first, pairs interleaved, with frequencies of its own (not RoPE's). Weights
have signs and rows do not sum to 1: this is no distribution over the keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from attncli.attention.core import repeat_kv
from attncli.attention.decay import decay_matrix, decay_rates
from attncli.attention.masks.causal import create_causal_mask
from attncli.attention.positions import apply_rotary, retention_frequencies
from attncli.attention.tiles.chunks import join
from attncli.registry import Entry, Parameter

ENTRY = Entry(
    name="retention",
    summary="(QKᵀ/√d ∘ γ^(i−j))·V without a softmax: O(n·d²) time, O(n·d) memory, signed weights",
    reference="Sun et al. 2023 (RetNet), §2.1 and §2.2, arXiv 2307.08621",
    parameters=(
        Parameter("chunk", 64, "query positions computed at once", minimum=1),
        Parameter(
            "decay",
            "paper",
            "γ of head a: paper is 1 − 2^(−5−a), experiments spreads 1 − γ from 1/32 to 1/512 over the heads",
            choices=("paper", "experiments"),
        ),
        Parameter("rotate", True, "turn query and key by their position"),
        Parameter("normalize", False, "divide each row by max(|its sum|, √(sum of its decays))"),
    ),
    attributes={"exact": False, "causal": "only", "cross": False, "signed": True, "implied": True},
)


@dataclass(frozen=True)
class State:
    """All that the past leaves to the next position.

    Args:
        position: Number of positions seen.
        memory: S, with a last column that is S for a value of 1 (it gives the sum of a row of weights).
        decay_sums: Sum of D's row over the real keys.
    """

    position: int
    memory: Float[Tensor, "batch heads head_dim columns"]
    decay_sums: Float[Tensor, "batch heads 1 1"]


def weights(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    *,
    causal: bool = True,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    chunk: int = 64,
    decay: str = "paper",
    rotate: bool = True,
    normalize: bool = False,
    decays: Float[Tensor, " heads"] | None = None,
) -> Float[Tensor, "batch heads query key"]:
    """Return the weights of the parallel form.

    Args:
        normalize: Divide each row by a positive number, which a norm after it would undo but for its ε. The divisor
            takes no gradient.
        decays: γ of each head, in place of what `decay` gives.

    Raises:
        ValueError: Not causal, lengths that differ, an odd head_dim with rotation, or a γ that is not in (0, 1].
    """
    ENTRY.check(chunk=chunk)
    _check(query, key, causal)
    rates = _rates(query, decay, decays)
    key = repeat_kv(key, query.shape[1])
    q, k = (_turned(_precise(x), 0) if rotate else _precise(x) for x in (query, key))
    faded = decay_matrix(rates, query.shape[2]).to(q)
    if key_mask is not None:
        faded = faded * key_mask[:, None, None]
    products = (q @ k.mT).masked_fill(faded == 0.0, 0.0)  # a padded key may be NaN
    retained: Tensor = products * query.shape[-1] ** -0.5 * faded  # (batch, heads, query, key)
    if normalize:
        retained = _normalized(retained, retained.sum(-1, keepdim=True), faded.sum(-1, keepdim=True))
    return retained.to(query.dtype)


def attend(
    query: Float[Tensor, "batch heads query head_dim"],
    key: Float[Tensor, "batch kv_heads key head_dim"],
    value: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    causal: bool = True,
    key_mask: Bool[Tensor, "batch key"] | None = None,
    chunk: int = 64,
    decay: str = "paper",
    rotate: bool = True,
    normalize: bool = False,
    decays: Float[Tensor, " heads"] | None = None,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Return the output of the chunk-wise form. Arguments and errors as in `weights`."""
    ENTRY.check(chunk=chunk)
    _check(query, key, causal)
    rates = _rates(query, decay, decays)
    q, k, v = _prepared(query, key, value, key_mask)
    theta = retention_frequencies(query.shape[-1]) if rotate else None
    if not normalize:
        return _chunkwise(q, k, v, rates, chunk, theta).to(query.dtype)
    numbers = _chunkwise(q, k, pad(v, (0, 1), value=1.0), rates, chunk, theta)
    sums = _decay_sums(rates, query.shape[2], key_mask, chunk).to(numbers)
    return _normalized(numbers[..., :-1], numbers[..., -1:], sums).to(query.dtype)


def _chunkwise(
    query: Tensor, key: Tensor, value: Tensor, rates: Tensor, chunk: int, theta: Tensor | None
) -> Tensor:
    batch, heads, length, head_dim = query.shape
    chunk = min(chunk, length)
    query, key, value = (x.flatten(0, 1) for x in (query, key, value))
    state = value.new_zeros(batch * heads, head_dim, value.shape[-1])
    parts = _retain(_turned_chunks(query, key, value, theta, chunk), state, rates.repeat(batch), chunk)
    return join(parts, length).reshape(batch, heads, length, -1)


def _retain(
    chunks: Iterator[tuple[Tensor, Tensor, Tensor]], state: Tensor, rates: Tensor, chunk: int
) -> Iterator[Tensor]:
    """Let each chunk see itself through its weights and all earlier ones through the state.

    Only differences of positions within a chunk become exponents of γ: γ^(−j) alone would overflow.
    """
    scale, steps = state.shape[1] ** -0.5, torch.arange(chunk).unsqueeze(-1)
    inside = (decay_matrix(rates, chunk) * scale).to(state)  # (batch·heads, chunk, chunk)
    rates = rates[:, None, None]
    from_start = (rates ** (steps + 1) * scale).to(state)  # (batch·heads, chunk, 1)
    to_end = (rates ** steps.flip(0)).to(state)  # (batch·heads, chunk, 1)
    whole = (rates**chunk).to(state)  # (batch·heads, 1, 1)
    for q, k, v in chunks:
        rows = v.shape[1]
        earlier = (q * from_start[:, :rows]) @ state  # (batch·heads, rows, value_dim)
        own = (q @ k.mT) * inside[:, :rows, :rows]  # (batch·heads, rows, rows)
        yield torch.baddbmm(earlier, own, v)
        # What a short, last chunk leaves after is read by nobody.
        state = torch.baddbmm(state * whole, k.mT, v * to_end[:, -rows:])


def _turned_chunks(
    query: Tensor, key: Tensor, value: Tensor, theta: Tensor | None, chunk: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Cut into chunks, query and key turned by their position: a chunk at a time stays in the cache."""
    values = torch.split(value, chunk, dim=1)
    if theta is None:
        yield from zip(torch.split(query, chunk, dim=1), torch.split(key, chunk, dim=1), values, strict=True)
        return
    pairs = (torch.split(_pairs(x), chunk, dim=1) for x in (query, key))
    for q, k, v, turn in zip(*pairs, values, _turns(theta, query.shape[1], chunk), strict=True):
        turn = turn.to(q)
        yield _unpaired(q * turn), _unpaired(k * turn), v


def recurrent(
    query: Float[Tensor, "batch heads length head_dim"],
    key: Float[Tensor, "batch kv_heads length head_dim"],
    value: Float[Tensor, "batch kv_heads length value_dim"],
    *,
    key_mask: Bool[Tensor, "batch length"] | None = None,
    decay: str = "paper",
    rotate: bool = True,
    normalize: bool = False,
    decays: Float[Tensor, " heads"] | None = None,
    state: State | None = None,
) -> tuple[Float[Tensor, "batch heads length value_dim"], State]:
    """Return the output one position after another: how a decoder writes, at a cost that does not grow.

    Args:
        state: What an earlier call returned, to continue its text; None at the beginning.

    Returns:
        ``(output, state)``. Other arguments and errors as in `weights`.
    """
    _check(query, key, True)
    q, k, v = _prepared(query, key, value, key_mask)
    v = pad(v, (0, 1), value=1.0)
    real = v.new_ones(v.shape[0], 1, v.shape[2], 1) if key_mask is None else key_mask[:, None, :, None].to(v)
    fade = _rates(query, decay, decays)[:, None, None].to(v)
    if state is None:
        memory = v.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1])
        state = State(0, memory, memory.new_zeros(*q.shape[:2], 1, 1))
    if rotate:
        q, k = _turned(q, state.position), _turned(k, state.position)
    memory, sums, outputs = state.memory, state.decay_sums, []
    for at in range(query.shape[2]):
        now = slice(at, at + 1)
        memory = fade * memory + k[:, :, now].mT @ v[:, :, now]  # (batch, heads, head_dim, value_dim + 1)
        sums = fade * sums + real[:, :, now]
        numbers = q[:, :, now] * query.shape[-1] ** -0.5 @ memory
        output, total = numbers[..., :-1], numbers[..., -1:]
        outputs.append(_normalized(output, total, sums) if normalize else output)
    state = State(state.position + query.shape[2], memory, sums)
    return torch.cat(outputs, dim=2).to(query.dtype), state


def mask(
    query_len: int,
    key_len: int,
    *,
    causal: bool = True,
    chunk: int = 64,
    decay: str = "paper",
    rotate: bool = True,
    normalize: bool = False,
) -> Bool[Tensor, "query key"]:
    """Allow what is not in the future."""
    ENTRY.check(chunk=chunk)
    _check_causal(causal)
    return create_causal_mask(query_len, key_len)


def _check(query: Tensor, key: Tensor, causal: bool) -> None:
    _check_causal(causal)
    if query.shape[2] != key.shape[2]:
        raise ValueError(f"query and key differ in length: {query.shape[2]} and {key.shape[2]}")


def _check_causal(causal: bool) -> None:
    if not causal:
        raise ValueError("retention is causal only: the past fades, and there is no future to see")


def _rates(query: Tensor, decay: str, decays: Tensor | None) -> Tensor:
    if decays is None:
        return decay_rates(query.shape[1], decay)
    if decays.shape[0] != query.shape[1]:
        raise ValueError(f"expected one decay for each of {query.shape[1]} heads, got {decays.shape[0]}")
    if not bool(((decays > 0.0) & (decays <= 1.0)).all()):
        raise ValueError(f"expected decays in (0, 1], got {decays.tolist()}")
    return decays.double()


def _prepared(
    query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return each head its keys and values, zero where they are padding."""
    key, value = repeat_kv(key, query.shape[1]), repeat_kv(value, query.shape[1])
    if key_mask is not None:
        padding = ~key_mask[:, None, :, None]
        key, value = key.masked_fill(padding, 0.0), value.masked_fill(padding, 0.0)
    return _precise(query), _precise(key), _precise(value)


def _decay_sums(rates: Tensor, length: int, key_mask: Tensor | None, chunk: int) -> Tensor:
    """Sum each row of D over the real keys: retention itself, of ones."""
    if key_mask is None:
        return (rates.unsqueeze(-1) ** torch.arange(length)).cumsum(-1).unsqueeze(-1)  # (heads, length, 1)
    ones = rates.new_ones(key_mask.shape[0], rates.shape[0], length, 1)
    return _chunkwise(ones, ones * key_mask[:, None, :, None], ones, rates, chunk, None)


def _normalized(rows: Tensor, total: Tensor, decay_sums: Tensor) -> Tensor:
    """Divide rows by √ΣD, and then by max(|their sum|, 1), which is max(|sum|, √ΣD) at once."""
    divisor = torch.maximum(total.detach().abs(), decay_sums.sqrt())
    return rows / divisor.masked_fill(divisor == 0.0, 1.0)


def _turned(x: Tensor, offset: int) -> Tensor:
    return apply_rotary(x, retention_frequencies(x.shape[-1]), layout="interleaved", offset=offset)


def _turns(theta: Tensor, length: int, chunk: int) -> Iterator[Tensor]:
    """Yield ``e^(i·θ·position)`` for each chunk, as (turn to its start) · (turn from there): few sines to compute."""
    within = _unit(torch.arange(chunk).unsqueeze(-1) * theta)  # (chunk, pairs)
    starts = torch.arange(0, length, chunk)
    for start, turn in zip(starts.tolist(), _unit(starts.unsqueeze(-1) * theta), strict=True):
        yield turn * within[: length - start]


def _unit(angle: Tensor) -> Tensor:
    return torch.polar(torch.ones_like(angle), angle)


def _pairs(x: Tensor) -> Tensor:
    """See dimensions 2t and 2t + 1 as one complex number, copying only where memory is not laid out for that."""
    x = x.view(*x.shape[:-1], -1, 2)
    fits = x.stride(-1) == 1 and not any(stride % 2 for stride in (x.storage_offset(), *x.stride()[:-1]))
    return torch.view_as_complex(x if fits else x.clone(memory_format=torch.contiguous_format))


def _unpaired(x: Tensor) -> Tensor:
    return torch.view_as_real(x).flatten(-2)


def _precise(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()
