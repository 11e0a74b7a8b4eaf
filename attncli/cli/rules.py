"""Which options go together: rules stand as data beside the options, and one function checks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from attncli.cli.choices import SHIPPED
from attncli.errors import UsageError

GIVEN: ContextVar[Mapping[str, Any]] = ContextVar("GIVEN", default=MappingProxyType({}))
"""The options that the user really gave, with their values; an argument goes by its metavar, or as ``-``."""

FACTS = {
    "@pretrained": "a pretrained model",
    "@trained": "a trained model",
    "@untrained": "the scratch model",
    "@maps": "a saved run of show, mask or compare",
    "@ranking": "a saved ranking of heads",
    "@finding": "a saved run of find",
    "@difference": "a saved run of diff",
    "@curves": "a saved benchmark",
}
"""What may hold besides the options that were given, in words; of an input (``@sound``) its own name."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What each of some options needs, or does not go with. Names are separated by blanks.

    Args:
        options: The options; those that a command does not have are never given.
        needs: Options and facts of which one must be there too.
        excludes: Options and facts of which none may be there.
        unless: Values of the option to which the rule does not apply.
        hint: What to do.
    """

    options: str
    needs: str = ""
    excludes: str = ""
    unless: str = ""
    hint: str = "leave one of them out"

    def check(self, given: Mapping[str, Any], facts: Iterable[str]) -> None:
        """Check the rule.

        Raises:
            UsageError: It is broken.
        """
        there = {*given, *facts}
        needed, excluded = self.needs.split(), self.excludes.split()
        for option in self.options.split():
            if option not in given or str(given[option]) in self.unless.split():
                continue
            if needed and there.isdisjoint(needed):
                what = " or ".join(FACTS.get(name, name) for name in needed)
                raise UsageError(f"{option} needs {what}", self.hint)
            for other in excluded:
                if other in facts:
                    raise UsageError(
                        f"{option} cannot be used with {FACTS.get(other, f'a {other[1:]}')}", self.hint
                    )
                if other in there:
                    raise UsageError(f"{option} and {other} were both given", self.hint)


def check_rules(rules: Iterable[Rule], *facts: str) -> None:
    """Check rules against what was given.

    Args:
        facts: What else holds, of `FACTS`.

    Raises:
        UsageError: The first rule that is broken.
    """
    given = GIVEN.get()
    model = given.get("--model")
    known = (*facts, *_facts_of(model))
    for rule in rules:
        rule.check(given, known)


def _facts_of(model: str | None) -> tuple[str, ...]:
    """Return what holds of the model that was named."""
    if model in (None, "scratch"):
        return ("@untrained",)
    return ("@trained",) if model in SHIPPED() else ("@trained", "@pretrained")
