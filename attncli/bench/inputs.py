"""What every contender is given: shapes, type, device, seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True, slots=True)
class Workload:
    """One attention operation, apart from its length.

    Args:
        backward: Whether the gradients of query, key and value are part of it.
    """

    batch: int = 1
    heads: int = 8
    head_dim: int = 64
    dtype: str = "float32"
    device: str = "cpu"
    causal: bool = True
    backward: bool = False
    seed: int = 0

    def shape(self, seq_len: int) -> dict[str, Any]:
        """Return the arguments of a contender's ``flops`` and ``extra_bytes``."""
        return {
            "batch": self.batch,
            "heads": self.heads,
            "query_len": seq_len,
            "key_len": seq_len,
            "head_dim": self.head_dim,
            "value_dim": self.head_dim,
            "causal": self.causal,
        }

    def inputs(self, seq_len: int, *, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Make query, key and value: normal numbers, the same for a seed wherever they go.

        Args:
            dtype: Instead of the workload's own; the numbers are the same up to rounding.
        """
        generator = torch.Generator().manual_seed(self.seed)
        shape = (self.batch, self.heads, seq_len, self.head_dim)
        query, key, value = (
            torch.randn(shape, generator=generator).to(self.device, dtype or DTYPES[self.dtype])
            for _ in range(3)
        )
        return query, key, value

    def input_bytes(self, seq_len: int) -> int:
        """Return the size of query, key and value."""
        return 3 * self.batch * self.heads * seq_len * self.head_dim * DTYPES[self.dtype].itemsize
