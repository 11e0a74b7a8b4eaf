"""What an option's value may be, for completion in a shell: declared beside it, worked out when a shell asks.

Nothing here imports torch or transformers: a shell asks at every press of the tab key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, cast

Names = Iterable[str] | Mapping[str, str]
"""Words; of a mapping with what each of them means."""

FILES: Literal[":files"] = ":files"
FOLDERS: Literal[":folders"] = ":folders"
"""What tells a shell to offer paths by itself: it knows its user's ways with blanks, ~ and quotes."""

_OF_METAVAR: Mapping[str | None, Literal[":files", ":folders"]] = {"FILE": FILES, "DIR": FOLDERS}


@dataclass(frozen=True, slots=True)
class Choices:
    """Which values a parameter takes. An option for a ``FILE`` or a ``DIR`` needs none: its metavar says it.

    Args:
        names: The words, or a function that gives them when they are asked for.
        paths: `FILES` or `FOLDERS`, where such may stand there too.
        many: Whether a value is a list with commas.
        command: The only command where this holds, for a parameter that several share.
        given: Gives the words by what was typed of the other parameters, in place of `names`.
    """

    names: Names | Callable[[], Names] = ()
    paths: Literal["", ":files", ":folders"] = ""
    many: bool = False
    command: str = ""
    given: Callable[[Mapping[str, Any]], Names] | None = None

    def offer(self, typed: str, others: Mapping[str, Any] | None = None) -> Iterator[tuple[str, str]]:
        """Yield the values that may follow what was typed, each with its meaning.

        >>> list(Choices({"full": "all pairs", "flash": ""}, many=True).offer("full,f"))
        [('full,flash', '')]
        >>> list(Choices(["coreference"], FILES).offer("co"))
        [('coreference', ''), ('co', ':files')]
        """
        names = self.names() if callable(self.names) else self.names
        names = names if self.given is None else self.given(others or {})
        meanings = names if isinstance(names, Mapping) else dict.fromkeys(names, "")
        listed, comma, last = typed.rpartition(",") if self.many else ("", "", typed)
        for name, meaning in meanings.items():
            if name.startswith(last) and name not in listed.split(","):
                yield f"{listed}{comma}{name}", meaning
        if self.paths:
            yield typed, self.paths


def completer(
    declared: Sequence[Choices], metavar: str | None
) -> Callable[[Any, str], list[tuple[str, str]]] | None:
    """Make what Typer calls to complete a parameter's value; None where nothing is known of it."""
    known = list(declared) or ([Choices(paths=_OF_METAVAR[metavar])] if metavar in _OF_METAVAR else [])
    if not known:
        return None

    def complete(ctx: Any, incomplete: str) -> list[tuple[str, str]]:
        here = [choices for choices in known if choices.command in ("", ctx.info_name)]
        # Before an option's missing value the parser has not come to name the arguments.
        others = {**ctx.params, "arguments": ctx.args}
        return [offered for choices in here for offered in choices.offer(incomplete, others)]

    return complete


def entries_of(*kinds: str, **more: str) -> Callable[[], Names]:
    """Return what is registered of some kinds, with summaries, and more words before it; of one name the first."""

    def names() -> Names:
        from attncli.registry import entries

        found = dict(more)
        for kind in kinds:
            found |= {name: entry.summary for name, entry in entries(kind).items() if name not in found}
        return found

    return names


def settings_of(given: Mapping[str, Any]) -> Names:
    """Return the parameters of the variant or mask that was named, each with ``=``."""
    from attncli.registry import entries

    name = str(given.get("variant") or given.get("name") or next(iter(given.get("arguments", ())), ""))
    entry = entries("masks").get(name) or entries("variants").get(name)
    known = () if entry is None else entry.parameters
    return {f"{one.name}=": f"{one.meaning}; {one.default} by default" for one in known}


def settings_of_variants(given: Mapping[str, Any]) -> Names:
    """Return the parameters of the variants that were named, or of all, as ``variant.name=``."""
    from attncli.registry import entries

    named = str(given.get("variants") or "").split(",")
    chosen = [entry for name, entry in entries("variants").items() if name in named or named == [""]]
    return {
        f"{entry.name}.{one.name}=": f"{one.meaning}; {one.default} by default"
        for entry in chosen
        for one in entry.parameters
    }


def found_at(place: str) -> Callable[[], Names]:
    """Return a function that looks up ``module:name`` when a shell asks; a function there is called."""

    def names() -> Names:
        module, _, name = place.partition(":")
        found = getattr(import_module(module), name)
        return cast(Names, found() if callable(found) else found)

    return names


TOPICS = ("scaling", "order")
"""What ``explain`` explains besides a row."""

MODELS = found_at("attncli.models.folders:model_choices")
SHIPPED = found_at("attncli.models.shipped:shipped_models")
DEVICE_MAPS = found_at("attncli.models.loading:DEVICE_MAPS")
LABELLED_SETS = found_at("attncli.inputs.labelled_pairs:set_names")
SCHEMAS = found_at("attncli.commands.schema:schema_names")
