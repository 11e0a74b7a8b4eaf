import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from commandline import Cli

from attncli.cli.main import command_names
from attncli.commands.schema import schema_list_view, schema_names, schema_text
from attncli.errors import UsageError
from attncli.models.tokens import words_of_text
from attncli.record import Provenance, SourceInfo
from attncli.render import Options
from attncli.render.json_format import render
from attncli.view import Header, Matrix, MatrixGrid


def grid(command: str, unit: str, *, top: int | None = None) -> dict:
    """What a command that shows matrices writes: two queries, three keys."""
    values = np.array([[1, 0, 0], [0.25, 0.75, 0]], np.float32)
    view = MatrixGrid(
        header=Header(
            command=command,
            title="a title",
            provenance=Provenance("0.1.0", torch="2.13.0", argv=("attncli", command), seed=7),
            source=SourceInfo("scratch", "scratch"),
            notes=("untrained",),
        ),
        matrices=(
            Matrix(
                values if unit == "weight" else np.ceil(values), kind="decoder", layer=3, head=5, kv_head=1
            ),
        ),
        query_tokens=words_of_text("a b"),
        key_tokens=words_of_text("a b c"),
        unit=unit,
        top=top,
        facts=({"density": 0.5, "keys_per_row": {"min": 1, "median": 1.5, "max": 2}},)
        if unit == "mask"
        else (),
    )
    return json.loads(render(view, Options()))


@pytest.mark.parametrize("name", schema_names())
def test_a_schema_is_one_of_draft_2020_12_and_describes_every_top_key(name: str) -> None:
    document = json.loads(schema_text(name))
    jsonschema.Draft202012Validator.check_schema(document)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert document["$id"] == f"urn:attncli:schema:1:{name}"
    parts = [
        document["$defs"][one["$ref"].split("/")[-1]] for one in document.get("oneOf", ()) if "$ref" in one
    ]
    keys = [key for part in parts or [document] for key in part["properties"].values()]
    described = [value for value in keys if "$ref" not in value]
    assert all(value["description"] for value in described)


@pytest.mark.parametrize("top", [None, 2])
@pytest.mark.parametrize(("command", "unit"), [("show", "weight"), ("mask", "mask")])
def test_matrices_follow_their_schema(command: str, unit: str, top: int | None) -> None:
    jsonschema.validate(grid(command, unit, top=top), json.loads(schema_text(command)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), 2),
        (("attention", 0, "weights", 0, 0), 1.5),
        (("attention", 0, "layer"), "L3"),
        (("attention", 0, "shape"), [2]),
        (("query_tokens", 0, "start"), -1),
        (("source", "kind"), "magic"),
    ],
)
def test_a_wrong_document_is_refused(path: tuple[str | int, ...], value: object) -> None:
    document = grid("show", "weight")
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json.loads(schema_text("show")))


def test_schemas_that_share_a_definition_say_the_same() -> None:
    seen: dict[str, object] = {}
    for name in schema_names():
        for key, definition in json.loads(schema_text(name))["$defs"].items():
            assert seen.setdefault(key, definition) == definition


def test_the_list_names_each_schema_by_its_command() -> None:
    assert [row[0] for row in schema_list_view().rows] == schema_names()
    assert {"show", "mask", "tokens", "list", "doctor"} <= set(schema_names())


def test_every_schema_is_of_a_command_and_every_command_with_json_has_one(cli: Cli) -> None:
    without = {"completion", "render", "schema"}  # a script, another command's JSON, the schemas themselves
    assert set(schema_names()) == set(command_names()) - without
    for name in without:
        refused = cli("schema", name)
        assert (refused.code, refused.out) == (2, "") and f"no schema for {name!r}" in refused.err


def test_an_unknown_schema_gets_a_hint() -> None:
    with pytest.raises(UsageError) as caught:
        schema_text("shwo")
    assert (caught.value.message, caught.value.hint) == ("no schema for 'shwo'", 'did you mean "show"?')


def test_a_schema_goes_into_a_file_too_and_is_json_alone(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "show.json"
    written = cli("schema", "show", "-o", str(path))
    assert (written.code, written.out) == (0, "") and path.read_text() == schema_text("show")
    assert cli("schema", "show", "-o", str(path), "--no-clobber").code == 1
    for wrong in (("-f", "csv"), ("-o", str(tmp_path / "show.csv"))):
        refused = cli("schema", "show", *wrong)
        assert (refused.code, refused.out) == (2, "") and "a schema is JSON" in refused.err
