from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from render_samples import grid, header, signed, variants

from attncli.documents.schema import json_schema
from attncli.record import SourceInfo
from attncli.render import Options, json_format
from attncli.view import MatrixGrid


def schema(name: str) -> dict[str, object]:
    return json_schema(name)


def document(view: MatrixGrid, command: str = "compare") -> dict[str, object]:
    made = replace(header(command=command), source=SourceInfo("scratch", "scratch"))
    return json.loads(json_format.render(replace(view, header=made), Options()))


@pytest.mark.parametrize("unit", ["weight", "signed"])
@pytest.mark.parametrize("top", [None, 2])
def test_compared_variants_follow_their_schema(unit: str, top: int | None) -> None:
    jsonschema.validate(document(replace(variants(4, unit), top=top)), schema("compare"))


@pytest.mark.parametrize("key", ["name", "relative_error", "kl_bits", "max_abs_error", "weights"])
def test_a_compared_variant_without_one_of_its_keys_is_refused(key: str) -> None:
    made = document(variants(4))
    del made["attention"][1][key]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(made, schema("compare"))


def test_only_scratch_sources_are_compared() -> None:
    made = document(variants(4))
    made["source"]["kind"] = "pretrained"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(made, schema("compare"))


@pytest.mark.parametrize("top", [None, 2])
def test_only_signed_numbers_may_be_below_nought(top: int | None) -> None:
    made = document(replace(signed(4), top=top), "show")
    jsonschema.validate(made, schema("show"))
    made["unit"] = "weight"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(made, schema("show"))


def test_a_named_matrix_follows_the_schema_of_show() -> None:
    view = grid(["a", "b"], 1, 2)
    named = tuple(replace(matrix, label=f"head {matrix.head}") for matrix in view.matrices)
    jsonschema.validate(document(replace(view, matrices=named), "show"), schema("show"))
