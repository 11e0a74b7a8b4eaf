import json
from pathlib import Path

import jsonschema
import pytest

from attncli.commands.list_ import KINDS, list_view
from attncli.commands.schema import schema_text
from attncli.errors import UsageError
from attncli.registry import FOLDERS, entries
from attncli.render import Options
from attncli.render.json_format import render


def test_the_overview_counts_every_kind() -> None:
    rows = {str(row[0]): row[1:] for row in list_view().rows}
    assert tuple(rows) == KINDS
    for kind in FOLDERS:
        assert rows[kind] == (len(entries(kind)), tuple(entries(kind)))


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_kind_is_listed_with_its_parameters_and_where_they_come_from(kind: str) -> None:
    view = list_view(kind)
    details = view.extra["details"]
    assert isinstance(details, dict)
    assert [row[0] for row in view.rows] == list(entries(kind)) == list(details)
    for name, entry in entries(kind).items():
        told = [(one["name"], one["default"], one["minimum"]) for one in details[name]["parameters"]]
        assert told == [(one.name, one.default, one.minimum) for one in entry.parameters]


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_the_json_of_a_list_follows_its_schema(kind: str | None) -> None:
    document = json.loads(render(list_view(kind), Options()))
    jsonschema.validate(document, json.loads(schema_text("list")))


def test_the_masks_list_names_the_variants_whose_patterns_mask_shows_too() -> None:
    assert list_view("masks").header.notes[0].endswith(": " + ", ".join(entries("variants")))
    assert list_view("formats").header.notes == ()


def test_models_are_ours_and_those_of_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert list_view("models").header.notes[0].endswith(f"no model in {tmp_path}")
    snapshot = tmp_path / "models--org--tiny" / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    rows = list_view("models").rows
    assert [row[0] for row in rows] == ["tiny-decoder", "tiny-encoder", "tiny-translator", "org/tiny"]
    assert rows[-1] == ("org/tiny", None, str(snapshot)) and all(row[1] for row in rows[:-1])


def test_a_mistyped_kind_gets_a_hint() -> None:
    with pytest.raises(UsageError) as caught:
        list_view("variant")
    assert (caught.value.message, caught.value.hint) == (
        "cannot list 'variant'",
        'did you mean "variants"?',
    )
