"""A source whose special tokens, or whose first token, are no keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attncli.errors import UsageError
from attncli.models.opening import Opened
from attncli.record import Kind, Observer, Run, Tokens


@dataclass(frozen=True)
class KeysLeftOut:
    """A source of which some keys are left out; what is left of each row has its old sum again.

    Args:
        left_out: For each key of the kind of attention that is looked at, whether it is left out.
        names: What is left out, for the note.
    """

    source: Opened
    left_out: tuple[bool, ...]
    names: str

    @classmethod
    def of(cls, source: Opened, kind: Kind, *, special: bool, first: bool) -> KeysLeftOut:
        """Leave out special tokens, or the first token, or both.

        Raises:
            UsageError: No key would be left.
        """
        keys = source.axes(kind)[1]
        out = tuple((special and key.special) or (first and place == 0) for place, key in enumerate(keys))
        names = [*(["special tokens"] if special else []), *(["the first token"] if first else [])]
        if all(out):
            raise UsageError(f"without {' and '.join(names)} there are no keys", "leave out --exclude-…")
        return cls(source, out, " and ".join(names))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention it has."""
        return self.source.kinds

    def depth(self, kind: Kind) -> int:
        """Return the number of layers with a kind of attention."""
        return self.source.depth(kind)

    def axes(self, kind: Kind) -> tuple[Tokens, Tokens]:
        """Return query and key tokens."""
        return self.source.axes(kind)

    def run(self, observers: Sequence[Observer]) -> Run:
        """Run forward once, and say how much weight was on what is left out."""
        import torch

        from attncli.observers.without_keys import WithoutKeys

        mask = torch.tensor([self.left_out])
        shown = [WithoutKeys(observer, mask) for observer in observers]
        run = self.source.run(shown)
        share = shown[0].dropped / max(shown[0].rows, 1)
        note = f"left out as keys: {self.names}, with {100 * share:.0f} % of the weight; the rest is scaled up to it"
        return replace(run, notes=(*run.notes, note))
