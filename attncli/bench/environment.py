"""What the machine is and does meanwhile: cores, load, versions, and how fast it multiplies matrices."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from attncli.bench.clock import choose_clock, time_call
from attncli.bench.inputs import DTYPES

PATIENCE = 0.4
"""Seconds that measuring the peak may take."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a benchmark ran.

    Args:
        cores: That this process may use.
        threads: That PyTorch was told to use.
        load: Programs that wanted a processor in the last minute, before the start.
        peak_flops: Multiply-adds, times two, in a second, of the fastest matrix product that was tried.
    """

    processor: str
    system: str
    python: str
    torch: str
    device: str
    device_name: str
    cores: int
    threads: int
    affinity: tuple[int, ...] | None
    load: float | None
    peak_flops: float


def look_around(device: str, dtype: str) -> Environment:
    """Describe the machine, and measure its peak."""
    load = system_load()  # before the measuring of the peak adds to it
    affinity = tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None
    return Environment(
        processor=_processor(),
        system=platform.platform(),
        python=platform.python_version(),
        torch=torch.__version__,
        device=device,
        device_name=torch.cuda.get_device_name(device) if device.startswith("cuda") else _processor(),
        cores=len(affinity) if affinity else os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        affinity=affinity,
        load=load,
        peak_flops=measure_peak(device, dtype),
    )


def system_load() -> float | None:
    """Return how many programs wanted a processor in the last minute; None where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def measure_peak(device: str, dtype: str) -> float:
    """Measure the fastest matrix product: large squares, and batches of tiles such as attention's."""
    clock = choose_clock(device, torch.get_num_threads())
    best = 0.0
    for batch, rows, inner, columns in _shapes(device):
        left = torch.ones(batch, rows, inner, dtype=DTYPES[dtype], device=device)
        right = torch.ones(batch, inner, columns, dtype=DTYPES[dtype], device=device)
        until = time.perf_counter() + PATIENCE / 3
        time_call(partial(torch.bmm, left, right), 1, device)
        while True:
            reading = time_call(partial(torch.bmm, left, right), 3, device)
            best = max(best, 2 * batch * rows * inner * columns / reading.on(clock))
            if time.perf_counter() > until:
                break
    return best


def _shapes(device: str) -> tuple[tuple[int, int, int, int], ...]:
    if device.startswith("cuda"):
        return (1, 8192, 8192, 8192), (64, 2048, 128, 2048), (1, 4096, 4096, 4096)
    return (1, 512, 512, 512), (8, 256, 64, 256), (1, 1024, 1024, 1024)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
