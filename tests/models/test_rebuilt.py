import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from attncli.models.rebuilt import BUILT, complete, note_on_class, way_to_split


def tokenizer(pre_tokenizer: object = None) -> Tokenizer:
    made = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1, "<x>": 2}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizer or pre_tokenizers.WhitespaceSplit()
    return made


def beside(folder: Path, **files: object) -> Path:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_tokens_that_other_files_name_are_added_in_the_order_of_their_ids(tmp_path: Path) -> None:
    made = tokenizer()
    decoder = {"4": {"content": "<b>", "special": True, "lstrip": False}}
    config = {"added_tokens_decoder": decoder, "pad_token": "<pad>", "unk_token": "[UNK]"}
    complete(made, beside(tmp_path, added_tokens={"<a>": 3}, tokenizer_config=config))
    added = {
        number: (token.content, token.special) for number, token in made.get_added_tokens_decoder().items()
    }
    assert added == {3: ("<a>", False), 4: ("<b>", True), 5: ("<pad>", True), 0: ("[UNK]", True)}
    assert made.encode("the<a>").tokens == ["the", "<a>"]


def test_the_same_tokens_as_transformers_adds(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    config = {"tokenizer_class": "TokenizersBackend", "unk_token": "[UNK]", "eos_token": "<x>"}
    folder = beside(
        tmp_path, added_tokens={"<a>": 3, "<b>": 4}, tokenizer_config=config, config={"model_type": "llama"}
    )
    made = tokenizer()
    made.save(str(folder / "tokenizer.json"))
    complete(made, folder)
    text = "the<a> <b>the<x>"
    assert made.encode(text).ids == AutoTokenizer.from_pretrained(folder)(text)["input_ids"]


@pytest.mark.parametrize(
    ("way", "name"), [(way, name) for way, names in BUILT.items() for name in names.split()]
)
def test_a_class_of_transformers_splits_as_the_table_says(way: str, name: str) -> None:
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    kind = tokenizer_class_from_name(f"{name}Tokenizer")
    if kind is None:
        pytest.skip(f"this version of transformers has no {name}Tokenizer")
    assert way_to_split(kind().backend_tokenizer) == way


def test_a_class_that_splits_in_its_own_way_is_told(tmp_path: Path) -> None:
    note = note_on_class(
        tokenizer(), beside(tmp_path, tokenizer_config={"tokenizer_class": "Qwen2TokenizerFast"})
    )
    assert note is not None and "Qwen2Tokenizer splits a text in its own way" in note
    bytes_too = tokenizer(pre_tokenizers.ByteLevel())
    assert (
        note_on_class(bytes_too, beside(tmp_path, tokenizer_config={"tokenizer_class": "GPT2Tokenizer"}))
        is None
    )
    plain = beside(tmp_path, tokenizer_config={"tokenizer_class": "TokenizersBackend"})
    assert note_on_class(tokenizer(), plain) is None


def test_without_a_named_class_the_family_has_one(tmp_path: Path) -> None:
    folder = beside(tmp_path, config={"model_type": "bert"})
    assert "bertTokenizer" in (note_on_class(tokenizer(), folder) or "")
    assert note_on_class(tokenizer(pre_tokenizers.BertPreTokenizer()), folder) is None
