"""Work done one step ahead, in a second thread, while the step before is made use of."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")


def one_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the same items, each made while the one before it is in use; two are in memory at a time.

    The two threads share torch's threads. An item must stay good until the next but one is made.

    >>> list(one_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    threads, end = torch.get_num_threads(), object()
    each = max(1, threads // 2)
    inference = torch.is_inference_mode_enabled()

    def make() -> Item | object:
        if torch.get_num_threads() != each:
            torch.set_num_threads(each)
        with torch.inference_mode(inference):  # which holds for one thread
            return next(items, end)

    with ThreadPoolExecutor(1, thread_name_prefix="tiles") as pool:
        try:
            torch.set_num_threads(each)
            following = pool.submit(make)
            while (item := following.result()) is not end:
                following = pool.submit(make)
                yield item  # type: ignore[misc]
        finally:
            torch.set_num_threads(threads)
