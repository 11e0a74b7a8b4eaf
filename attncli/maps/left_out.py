"""Special tokens, or the first token, left out as keys: ``--exclude-special`` and ``--exclude-first``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from attncli.errors import UsageError
from attncli.record import Observer, Run, Tokens


def left_out(
    observers: Sequence[Observer], keys: Tokens, *, special: bool, first: bool
) -> tuple[Sequence[Observer], Callable[[Run], Run]]:
    """Show observers blocks in which some keys are left out, and what is left of each row has its old sum again.

    Returns:
        The observers, and what notes in their run how much weight was on what is left out.

    Raises:
        UsageError: No key would be left.
    """
    import torch

    from attncli.observers.without_keys import WithoutKeys

    out = [(special and key.special) or (first and place == 0) for place, key in enumerate(keys)]
    names = " and ".join([*(["special tokens"] if special else []), *(["the first token"] if first else [])])
    if all(out):
        raise UsageError(f"without {names} there are no keys", "leave out --exclude-…")
    shown = [WithoutKeys(observer, torch.tensor([out])) for observer in observers]

    def told(run: Run) -> Run:
        share = shown[0].dropped / max(shown[0].rows, 1)
        note = (
            f"left out as keys: {names}, with {100 * share:.0f} % of the weight; the rest is scaled up to it"
        )
        return replace(run, notes=(*run.notes, note))

    return shown, told
