import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from attncli import registry
from attncli.errors import UsageError
from attncli.registry import FOLDERS, Entry, Parameter, Value, entries, load

WINDOW = Parameter("window", 3, "keys visible to a row", minimum=1, maximum=9)
MODE = Parameter("mode", "soft", "how to cut", choices=("soft", "hard"))
SCALE = Parameter("scale", 0.5, "multiplies the scores", minimum=0.0)
FLAG = Parameter("causal", True, "whether later keys are hidden")
ENTRY = Entry("sliding", "a summary", parameters=(WINDOW, MODE, SCALE, FLAG))

ENTRIES = [(kind, name) for kind in FOLDERS for name in entries(kind)]


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_what_a_listing_reads_is_what_the_module_has(kind: str, name: str) -> None:
    assert load(kind, name).ENTRY == entries(kind)[name]


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_every_entry_says_what_it_is_and_its_defaults_are_allowed(kind: str, name: str) -> None:
    entry = entries(kind)[name]
    assert entry.summary
    assert not entry.summary.endswith(".")
    for parameter in entry.parameters:
        assert parameter.meaning
        if parameter.default is not None:
            assert parameter.parse(str(parameter.default)) == parameter.default


def test_dashes_stand_for_underscores_in_what_is_set() -> None:
    entry = Entry("dsa", "s", parameters=(Parameter("top_k", 0, "m"),))
    assert entry.settings(["top-k=3"]) == entry.settings(["top_k=3"]) == {"top_k": 3}
    with pytest.raises(UsageError, match="no parameter 'top-n'"):
        entry.settings(["top-n=3"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder of masks, in a package of its own."""
    package = tmp_path / "someones_masks"
    package.mkdir()
    (package / "__init__.py").write_text('"""Masks."""\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "FOLDERS", {"masks": "someones_masks"})
    registry.entries.cache_clear()
    registry._found.cache_clear()
    yield package
    for name in [name for name in sys.modules if name.startswith("someones_masks")]:
        del sys.modules[name]
    registry.entries.cache_clear()
    registry._found.cache_clear()


def test_a_file_that_is_dropped_in_is_found_without_being_imported(folder: Path) -> None:
    (folder / "odd.py").write_text(
        "from attncli.registry import Entry, Parameter\n"
        'ENTRY = Entry("odd", summary="s", parameters=(Parameter("n", -1, "m", minimum=-2),), attributes={"a": (1,)})\n'
        "LOADED = True\n"
    )
    expected = Entry("odd", "s", parameters=(Parameter("n", -1, "m", minimum=-2),), attributes={"a": (1,)})
    assert entries("masks") == {"odd": expected}
    assert "someones_masks.odd" not in sys.modules
    assert load("masks", "odd").LOADED
    assert import_module("someones_masks.odd").ENTRY == expected


def test_entries_come_in_alphabetical_order_and_other_files_are_left_alone(folder: Path) -> None:
    for name in ("b", "c", "a"):
        text = f"from attncli.registry import Entry\nENTRY = Entry({name + 'x'!r}, {name!r})\n"
        (folder / f"{name}.py").write_text(text)
    (folder / "helper.py").write_text("# this has no ENTRY\nx = 1\n")
    assert list(entries("masks")) == ["ax", "bx", "cx"]


def test_an_unknown_name_is_answered_with_the_nearest(folder: Path) -> None:
    (folder / "causal.py").write_text('ENTRY = Entry("causal", "s")\n')
    with pytest.raises(UsageError) as caught:
        load("masks", "casual")
    assert (caught.value.message, caught.value.hint) == ("no mask named 'casual'", 'did you mean "causal"?')


def test_settings_are_the_defaults_with_what_was_set() -> None:
    assert ENTRY.settings() == {"window": 3, "mode": "soft", "scale": 0.5, "causal": True}
    assert ENTRY.settings(["window=9", "scale=2", "causal=no"]) == {
        "window": 9,
        "mode": "soft",
        "scale": 2.0,
        "causal": False,
    }


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        (WINDOW, "1", 1),
        (WINDOW, "9", 9),
        (MODE, "hard", "hard"),
        (SCALE, "1e-3", 0.001),
        (FLAG, "ON", True),
        (FLAG, "0", False),
    ],
)
def test_a_value_has_its_parameters_type(parameter: Parameter, text: str, value: Value) -> None:
    parsed = parameter.parse(text)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("assignment", "message", "hint"),
    [
        ("window", "--set window: expected name=value", None),
        ("windw=3", "sliding has no parameter 'windw'", 'did you mean "window"?'),
        ("window=0", "window=0: window must be at least 1", "keys visible to a row"),
        ("window=10", "window=10: window must be at most 9", "keys visible to a row"),
        ("window=1.5", "window=1.5: window must be a whole number", "keys visible to a row"),
        ("window=", "window=: window must be a whole number", "keys visible to a row"),
        ("scale=x", "scale=x: scale must be a number", "multiplies the scores"),
        ("scale=nan", "scale=nan: scale must be at least 0.0", "multiplies the scores"),
        ("mode=sft", "mode=sft: unknown value", 'did you mean "soft"?'),
        ("causal=maybe", "causal=maybe: causal must be true or false", "whether later keys are hidden"),
    ],
)
def test_a_wrong_setting_is_told_with_what_would_be_right(
    assignment: str, message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as caught:
        ENTRY.settings([assignment])
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_an_entry_without_parameters_says_so() -> None:
    with pytest.raises(UsageError) as caught:
        Entry("full", "s").settings(["window=3"])
    assert caught.value.hint == "full has no parameters"
