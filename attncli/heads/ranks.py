"""Several processes on one corpus: who they are, as torchrun or Slurm say, and how their answers come together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attncli.errors import ReadError, UsageError

PATIENCE = 600
"""Seconds that a rank waits for the others before it takes one for lost."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """One of several processes, or the only one.

    Args:
        local: Which one on its machine: the number of its GPU.
    """

    rank: int = 0
    count: int = 1
    local: int = 0

    @property
    def is_first(self) -> bool:
        """Whether it is the one that speaks."""
        return self.rank == 0


def ranks_from(environ: Mapping[str, str] = os.environ) -> Ranks:
    """Read what torchrun has set.

    Raises:
        UsageError: It is not whole, or no numbers.

    >>> ranks_from({}), ranks_from({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"})
    (Ranks(rank=0, count=1, local=0), Ranks(rank=1, count=2, local=1))
    """
    if "RANK" not in environ or "WORLD_SIZE" not in environ:
        return Ranks()
    try:
        found = Ranks(int(environ["RANK"]), int(environ["WORLD_SIZE"]), int(environ.get("LOCAL_RANK", "0")))
    except ValueError as error:
        raise UsageError("RANK, WORLD_SIZE and LOCAL_RANK must be numbers", "torchrun sets them") from error
    if not 0 <= found.rank < found.count:
        raise UsageError(f"RANK {found.rank} of WORLD_SIZE {found.count}: there is no such rank")
    return found


def join(ranks: Ranks, device: str, patience: int) -> None:
    """Meet the other ranks: over gloo, or NCCL where the model runs on GPUs.

    Raises:
        ReadError: They do not come.
    """
    if ranks.count == 1:
        return
    from datetime import timedelta

    import torch
    from torch import distributed

    on_gpu = device.startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(torch.device(device))
    try:
        distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=timedelta(seconds=patience))
    except (RuntimeError, ValueError) as error:
        raise _lost(ranks, error) from error


def gather(ranks: Ranks, state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every rank what all have found, in their order.

    Raises:
        ReadError: One of them is lost.
    """
    if ranks.count == 1:
        return [state]
    from torch import distributed

    found: list[Any] = [None] * ranks.count
    try:
        distributed.all_gather_object(found, state)
    except (RuntimeError, ValueError) as error:
        raise _lost(ranks, error) from error
    return found


def leave(ranks: Ranks) -> None:
    """Part from the other ranks."""
    if ranks.count == 1:
        return
    from torch import distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()


def _lost(ranks: Ranks, error: Exception) -> ReadError:
    reason = " ".join(str(error).split())
    if reason.startswith("["):  # where in gloo's sources it was noticed
        reason = reason.partition("]")[2].strip()
    return ReadError(
        f"rank {ranks.rank} of {ranks.count} has lost another rank: {reason[:120]}",
        "what failed there says its own error; nothing was written",
    )
