"""A JSON object whose values are taken out one by one, each checked: what a file holds is never taken on trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from attncli.errors import ReadError
from attncli.labels import fit, safe_label

T = TypeVar("T")

_OF_ALL = ("schema", "command", "title", "notes", "provenance")
_NAMES = {str: "a text", int: "a whole number", bool: "true or false", list: "a list", dict: "an object"}


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object.

    Args:
        values: What it holds.
        file: The file's name, safe to show.
        path: Where in the file it stands: ``query_tokens[3].``; empty at the top.
    """

    values: Mapping[str, Any]
    file: str
    path: str = ""

    def get(self, key: str, kind: type[T]) -> T:
        """Return a value that must be there.

        Raises:
            ReadError: It is not, or is of another type.
        """
        if key not in self.values:
            raise self.wrong(key, "is missing")
        return self._checked(key, kind)

    def maybe(self, key: str, kind: type[T]) -> T | None:
        """Return a value that may be absent or null."""
        return None if self.values.get(key) is None else self._checked(key, kind)

    def text(self, key: str, default: str) -> str:
        """Return a text that may be absent."""
        found = self.maybe(key, str)
        return default if found is None else found

    def count(self, key: str) -> int | None:
        """Return a whole number from 0, which may be absent."""
        number = self.maybe(key, int)
        if number is not None and not 0 <= number < 2**53:
            raise self.wrong(key, f"is {fit(str(number), 30)}, expected a whole number from 0")
        return number

    def number(self, key: str) -> float | None:
        """Return a finite number from 0, which may be absent or null."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
            raise self.wrong(key, f"is {fit(safe_label(str(value)), 30)}, expected a number from 0")
        return value

    def real(self, key: str) -> float | None:
        """Return a finite number of either sign, which may be absent or null."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not -1e300 < value < 1e300:
            raise self.wrong(key, f"is {fit(safe_label(str(value)), 30)}, expected a number")
        return value

    def counts(self, key: str) -> tuple[int, ...]:
        """Return a list of whole numbers from 0, each but once."""
        found = self.get(key, list)
        if any(type(part) is not int or not 0 <= part < 2**53 for part in found) or len({*found}) < len(
            found
        ):
            raise self.wrong(key, "is no list of whole numbers from 0, each but once")
        return tuple(found)

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        """Return one of some words."""
        word = self.get(key, str) if default is None else self.text(key, default)
        if word not in choices:
            raise self.wrong(key, f'is "{fit(safe_label(word), 30)}", expected one of {", ".join(choices)}')
        return word

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; empty where it is absent."""
        found = self.maybe(key, list) or []
        if not all(isinstance(part, str) for part in found):
            raise self.wrong(key, "is no list of texts")
        return tuple(found)

    def part(self, key: str) -> Fields:
        """Return the object under a key."""
        return Fields(self.get(key, dict), self.file, f"{self.path}{key}.")

    def parts(self, key: str) -> list[Fields]:
        """Return the objects in the list under a key."""
        found = self.get(key, list)
        for index, value in enumerate(found):
            if not isinstance(value, dict):
                raise self.wrong(f"{key}[{index}]", "is no object")
        return [Fields(value, self.file, f"{self.path}{key}[{index}].") for index, value in enumerate(found)]

    @property
    def body(self) -> Mapping[str, Any]:
        """What a whole document holds besides the keys that all documents have."""
        return {key: value for key, value in self.values.items() if key not in _OF_ALL}

    def wrong(self, key: str, what: str) -> ReadError:
        """Make the error for a value that is not as it should be."""
        return ReadError(
            f"{self.file}: {self.path}{key} {what}", "the file is damaged, or not attncli's (attncli schema)"
        )

    def _checked(self, key: str, kind: type[T]) -> T:
        value = self.values[key]
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            shown = fit(safe_label(str(value)), 30)
            raise self.wrong(key, f"is {shown}, expected {_NAMES.get(kind, kind.__name__)}")
        return value
