import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from commandline import Cli
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from attncli.commands.schema import schema_text
from attncli.commands.tokens import tokens_view
from attncli.errors import ModelError, UsageError
from attncli.render import Options
from attncli.render.json_format import render


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A folder with a tokenizer of single bytes."""
    pieces = {piece: i for i, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(pieces, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path)


def column(view, name: str) -> list[object]:
    index = [column.name for column in view.columns].index(name)
    return [row[index] for row in view.rows]


def test_without_a_model_a_text_is_cut_as_show_cuts_it(cli: Cli) -> None:
    view = tokens_view("be, or be")
    shown = cli("show", "be, or be", "--json").json["query_tokens"]
    assert column(view, "label") == [token["label"] for token in shown]
    assert column(view, "id") == [token["id"] for token in shown]
    assert view.header.notes[0].startswith("as tiny-decoder cuts the text")


def test_a_class_that_may_cut_in_another_way_is_told(model: str) -> None:
    Path(model, "tokenizer_config.json").write_text('{"tokenizer_class": "Qwen2Tokenizer"}', encoding="utf-8")
    assert "Qwen2Tokenizer splits a text in its own way" in tokens_view("a", model).header.notes[0]


def test_bytes_and_the_second_text_have_columns_only_where_they_occur(model: str) -> None:
    assert [c.name for c in tokens_view("a", model).columns][-1] == "special"
    view = tokens_view("é", model, pair="b")
    assert column(view, "bytes") == ["c3", "a9", None]
    assert column(view, "sequence") == [0, 0, 1]
    assert view.header.notes[-1] == "2 tokens are bytes of characters that were cut apart"


def test_the_scratch_model_has_words_for_tokens() -> None:
    view = tokens_view("be, or be", "scratch")
    assert column(view, "label") == ["be", ",", "or", "be"]
    assert column(view, "id") == [0, 1, 2, 0]
    assert column(view, "start") == [0, 2, 4, 7]
    assert view.header.title == "4 tokens"
    assert view.header.notes == ("the scratch model's tokens are words and punctuation",)


def test_two_texts_without_a_model_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--pair needs --model"):
        tokens_view("a", pair="b")


def test_a_model_that_is_not_here_is_a_model_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="model no/such: no such folder, not in "):
        tokens_view("a", "no/such", offline=True)


def test_the_json_follows_its_schema(model: str) -> None:
    for view in (tokens_view(""), tokens_view("né 🙂", model, pair="\x1b")):
        document = json.loads(render(view, Options()))
        jsonschema.validate(document, json.loads(schema_text("tokens")))
    assert [token["bytes"] for token in document["tokens"]][1:3] == ["c3", "a9"]


LIGHT = """
import sys
from attncli.commands import completion, doctor, list_, schema, tokens
tokens.tokens_view("to be", {model!r})
list_.list_view(), list_.list_view("variants"), list_.list_view("models")
schema.schema_list_view()
doctor.doctor_view(quick=True)
heavy = {{"torch", "transformers", "matplotlib", "numpy", "huggingface_hub"}} & set(sys.modules)
sys.exit(f"loaded {{sorted(heavy)}}" if heavy else 0)
"""


def test_the_light_commands_load_nothing_heavy(model: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT.format(model=model)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.models
def test_a_real_model_cuts_a_rare_word(model_folder: Callable[[str], Path]) -> None:
    view = tokens_view("Unbelievably!", str(model_folder("all-minilm-l6-v2")))
    assert column(view, "label") == ["[CLS]", "un", "‿bel", "‿ie", "‿va", "‿bly", "!", "[SEP]"]
    assert column(view, "end") == [None, 2, 5, 7, 9, 12, 13, None]
