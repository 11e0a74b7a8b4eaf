"""The block of a RetNet: projections, retention with many decays, a norm for each head, and a gate."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import silu

from attncli.attention.variants import retention

Form = Literal["parallel", "chunkwise"]
Norm = Literal["rms", "group"]


class MultiScaleRetention(nn.Module):
    """Retain with several heads, each with a decay of its own: ``(swish(X·W_G) ∘ Norm(heads)) · W_O``.

    Args:
        d_model: Size of input and output vectors.
        heads: Number of heads; divides `d_model` into an even size for query and key.
        value_factor: Size of all values together, in units of `d_model`.
        decay: See `retention.decay_rates`.
        norm: Each head's output is divided by its root mean square (``rms``, as in the official code), or first made
            zero in the mean as well (``group``). Neither has weights.
        eps: Added under the norm's root.
        normalize: Whether retention's rows are normalised before the norm. It changes the result only through `eps`.

    Raises:
        ValueError: The sizes do not divide, or there is no such norm.

    Reference:
        Sun et al. 2023, §2.2, arXiv 2307.08621.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        value_factor: int = 2,
        decay: str = "paper",
        norm: Norm = "rms",
        eps: float = 1e-6,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        if heads < 1 or d_model % heads or d_model // heads % 2:
            raise ValueError(f"d_model / heads must be whole and even, got d_model {d_model}, {heads} heads")
        if norm not in ("rms", "group"):
            raise ValueError(f"expected the norm 'rms' or 'group', got {norm!r}")
        self.heads, self.decay, self.normalize, self.norm, self.eps = heads, decay, normalize, norm, eps
        value_dim = value_factor * d_model
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, value_dim, bias=False)
        self.gate = nn.Linear(d_model, value_dim, bias=False)
        self.output = nn.Linear(value_dim, d_model, bias=False)

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        key_mask: Bool[Tensor, "batch length"] | None = None,
        *,
        form: Form = "chunkwise",
        chunk: int = 64,
    ) -> Float[Tensor, "batch length d_model"]:
        """Retain a whole text.

        Args:
            key_mask: True = a real token, False = padding.
            form: How it is computed: all pairs at once, or chunk by chunk. The result is the same.
            chunk: Positions computed at once in the chunk-wise form.
        """
        q, k, v = self._split(x)
        if form == "parallel":
            weights = retention.weights(q, k, key_mask=key_mask, decay=self.decay, normalize=self.normalize)
            padded = v if key_mask is None else v.masked_fill(~key_mask[:, None, :, None], 0.0)
            return self._join(x, weights @ padded)
        retained = retention.attend(
            q, k, v, key_mask=key_mask, decay=self.decay, normalize=self.normalize, chunk=chunk
        )
        return self._join(x, retained)

    def step(
        self, x: Float[Tensor, "batch length d_model"], state: retention.State | None = None
    ) -> tuple[Float[Tensor, "batch length d_model"], retention.State]:
        """Retain the next tokens of a text one by one.

        Args:
            state: What the step before returned; None at the beginning.

        Returns:
            ``(output, state)``.
        """
        q, k, v = self._split(x)
        retained, state = retention.recurrent(
            q, k, v, decay=self.decay, normalize=self.normalize, state=state
        )
        return self._join(x, retained), state

    def _split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (
            projected.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)
            for projected in (self.query(x), self.key(x), self.value(x))
        )
        return q, k, v

    def _join(self, x: Tensor, retained: Tensor) -> Tensor:
        heads = self._normed(retained).transpose(1, 2).flatten(2)  # (batch, length, value_dim)
        output: Tensor = self.output(silu(self.gate(x)) * heads)
        return output

    def _normed(self, x: Tensor) -> Tensor:
        if self.norm == "group":
            x = x - x.mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps)
