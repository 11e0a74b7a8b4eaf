"""Finds what there is to choose from: variants, masks, inputs, metrics, formats, sources, a benchmark's peers.

One file is one choice. A file in one of the `FOLDERS` that has a module-level

    ENTRY = Entry(name="causal", summary="…", reference="…", parameters=(Parameter(…), …))

is known everywhere at once: to the commands, to `attncli list`, to the contract tests. All values in it
are literals, so that a listing reads them from the source text and imports nothing; `load` imports the
one module that is really used. What a module must offer besides is said in its folder's ``__init__``.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from attncli.errors import UsageError, did_you_mean

FOLDERS: Mapping[str, str] = {
    "sources": "attncli.models",
    "variants": "attncli.attention.variants",
    "masks": "attncli.attention.masks",
    "inputs": "attncli.maps",
    "metrics": "attncli.heads.metrics",
    "formats": "attncli.render",
    "peers": "attncli.bench.peers",
}

type_names = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}

Value = bool | int | float | str | None

LARGEST = 2**24
"""Largest whole number that a parameter takes, where it has no maximum of its own: more positions than any text has."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing that can be set on an entry, as ``--set name=value``.

    Args:
        default: Used when nothing is set; its type is the parameter's type.
        meaning: One line with the unit.
        minimum: Smallest value allowed, itself included.
        maximum: Largest value allowed, itself included.
        choices: The only words allowed, where it is a word.
        example: What shows a pattern on a sentence, where the default is meant for thousands of positions.
        zero: What 0 stands for, where it is no number of things.
    """

    name: str
    default: Value
    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    example: Value = None
    zero: str = ""

    def parse(self, text: str) -> Value:
        """Read a value given on the command line.

        Raises:
            UsageError: It is not of the parameter's type, or out of its range.
        """
        value = self._convert(text)
        if self.choices and value not in self.choices:
            raise UsageError(f"{self.name}={text}: unknown value", did_you_mean(text, self.choices))
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._check_range(value, text)
        return value

    def _convert(self, text: str) -> Value:
        kind = type(self.default)
        if kind is bool:
            if text.lower() in ("true", "yes", "1", "on"):
                return True
            if text.lower() in ("false", "no", "0", "off"):
                return False
        elif kind in (int, float):
            try:
                return int(text) if kind is int else float(text)
            except ValueError:
                pass
        else:
            return text
        raise UsageError(f"{self.name}={text}: {self.name} must be {type_names[kind]}", self.meaning)

    def _check_range(self, value: float, text: str) -> None:
        limit = self.limit(value)
        if limit is not None:
            raise UsageError(f"{self.name}={text}: {self.name} must be {limit}", self.meaning)

    def limit(self, value: float) -> str | None:
        """Return the limit that a value breaks, in words: ``at least 1``; None where it breaks none."""
        maximum = LARGEST if self.maximum is None and type(self.default) is int else self.maximum
        if self.minimum is not None and not value >= self.minimum:
            return f"at least {self.minimum}"
        if maximum is not None and not value <= maximum:
            return f"at most {maximum}"
        return None


@dataclass(frozen=True, slots=True)
class Entry:
    """What a listing says of one choice.

    Args:
        name: As typed on the command line.
        summary: One line.
        reference: Paper, year, section and arXiv id, where there is one.
        parameters: What ``--set`` accepts.
        attributes: Facts that only entries of this kind have (a format's suffixes, a variant's exactness).
    """

    name: str
    summary: str
    reference: str = ""
    parameters: tuple[Parameter, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict)

    def settings(self, assignments: Sequence[str] = (), *, length: int | None = None) -> dict[str, Value]:
        """Return every parameter its value: the default, or what ``name=value`` sets; dashes may stand for underscores.

        Args:
            length: Number of positions that the pattern is to be shown on. Where the defaults are larger, and nothing
                is set, the parameters' examples are used.

        Raises:
            UsageError: An assignment has no ``=``, an unknown name, or a value that does not fit.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        small = not assignments and length is not None and self._is_too_large_for(length)
        values = {p.name: p.default if p.example is None or not small else p.example for p in self.parameters}
        for assignment in assignments:
            typed, equals, text = assignment.partition("=")
            name = typed.replace("-", "_")
            if not equals:
                raise UsageError(f"--set {assignment}: expected name=value")
            if name not in known:
                hint = did_you_mean(name, known) or f"{self.name} has no parameters"
                raise UsageError(f"{self.name} has no parameter {typed!r}", hint)
            values[name] = known[name].parse(text)
        return values

    def check(self, **settings: float) -> None:
        """Check that numbers given from Python lie in the parameters' ranges.

        Raises:
            ValueError: One does not.
        """
        for parameter in self.parameters:
            value = settings.get(parameter.name)
            limit = None if value is None else parameter.limit(value)
            if limit is not None:
                raise ValueError(f"{parameter.name} must be {limit}, got {value}")

    def told(self, settings: Mapping[str, object]) -> str:
        """Write the parameters' values for a person.

        >>> Entry("dsa", "", parameters=(Parameter("top_k", 0, "", zero="a quarter"),)).told({"top_k": 0, "seed": 1})
        'top_k=0 (a quarter), seed=1'
        """
        zeros = {parameter.name: parameter.zero for parameter in self.parameters if parameter.zero}
        return ", ".join(
            f"{name}={value}{f' ({zeros[name]})' if name in zeros and not value else ''}"
            for name, value in settings.items()
        )

    def _is_too_large_for(self, length: int) -> bool:
        shown = [p.default for p in self.parameters if p.example is not None]
        return any(isinstance(default, int) and default >= length for default in shown)


@cache
def entries(kind: str) -> Mapping[str, Entry]:
    """List what there is of a kind, by name, in alphabetical order, importing none of it."""
    return {entry.name: entry for entry, _ in _found(kind)}


def load(kind: str, name: str) -> ModuleType:
    """Import the module after a name.

    Raises:
        UsageError: Nothing of that kind has this name.
    """
    for entry, module in _found(kind):
        if entry.name == name:
            return import_module(module)
    singular = kind.removesuffix("s")
    raise UsageError(f"no {singular} named {name!r}", did_you_mean(name, entries(kind)))


@cache
def _found(kind: str) -> tuple[tuple[Entry, str], ...]:
    package = FOLDERS[kind]
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    found = []
    for path in Path(spec.submodule_search_locations[0]).glob("*.py"):
        entry = _read_entry(path)
        if entry is not None:
            found.append((entry, f"{package}.{path.stem}"))
    return tuple(sorted(found, key=lambda pair: pair[0].name))


def _read_entry(path: Path) -> Entry | None:
    text = path.read_text(encoding="utf-8")
    if "ENTRY" not in text:
        return None
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["ENTRY"]:
            entry = _evaluate(node.value)
            assert isinstance(entry, Entry), f"{path}: ENTRY is no Entry"
            return entry
    return None


def _evaluate(node: ast.expr) -> object:
    """Evaluate a literal in which `Entry` and `Parameter` may be called."""
    if isinstance(node, ast.Call):
        constructor = {"Entry": Entry, "Parameter": Parameter}[ast.unparse(node.func)]
        named = {keyword.arg: _evaluate(keyword.value) for keyword in node.keywords if keyword.arg}
        return constructor(*(_evaluate(argument) for argument in node.args), **named)
    if isinstance(node, ast.Tuple):
        return tuple(_evaluate(element) for element in node.elts)
    return ast.literal_eval(node)
