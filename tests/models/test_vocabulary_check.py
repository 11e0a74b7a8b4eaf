import json
from pathlib import Path

import pytest
import tiny
from tokenizers import Tokenizer, processors

from attncli.errors import ModelError
from attncli.models.loading import load
from attncli.models.prepared_text import encode


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return tiny.write_bert(tmp_path)


def save_vocabulary(folder: Path, file: str, content: str, kind: str) -> Path:
    (folder / "tokenizer.json").unlink()
    (folder / file).write_text(content)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    return folder


def test_a_tokenizer_that_reads_the_vocabulary_is_taken(bert: Path) -> None:
    loaded = load(str(save_vocabulary(bert, "vocab.txt", "\n".join(tiny.WORDS), "BertTokenizer")))
    assert loaded.tokenizer("the animal")["input_ids"] == [2, 4, 5, 3]


@pytest.mark.parametrize("kind", ["LlamaTokenizer", "RobertaTokenizer", "T5Tokenizer"])
def test_a_tokenizer_that_passes_the_vocabulary_by_is_refused(bert: Path, kind: str) -> None:
    with pytest.raises(ModelError, match="14 of 14 tokens have another id or none") as caught:
        load(str(save_vocabulary(bert, "vocab.txt", "\n".join(tiny.WORDS), kind)))
    assert f"makes a {kind} that does not fit vocab.txt" in caught.value.message


def test_a_tokenizer_that_passes_vocab_json_by_is_refused(bert: Path) -> None:
    vocabulary = json.dumps({word: number for number, word in enumerate(tiny.WORDS)})
    with pytest.raises(ModelError, match=r"does not fit vocab.json: 10 of 14 .*\(the: 4 there, none in"):
        load(str(save_vocabulary(bert, "vocab.json", vocabulary, "BertTokenizer")))


def test_special_tokens_in_front_shift_a_vocabulary(bert: Path) -> None:
    (bert / "bpe.codes").write_text("t h 3\n")
    counted = "".join(f"{word} 7\n" for word in tiny.WORDS[4:])
    assert (
        load(str(save_vocabulary(bert, "vocab.txt", counted, "PhobertTokenizer"))).tokenizer.is_fast is False
    )


def test_many_unknown_tokens_are_told(bert: Path) -> None:
    notes = encode(load(str(bert)), "the zebra was otherwise tired .")[2]
    assert notes == ("2 of the text's 6 tokens are [UNK]: the model's vocabulary does not have them",)


def test_characters_in_no_token_are_told(bert: Path) -> None:
    notes = encode(load(str(bert)), "the \N{ZERO WIDTH JOINER}animal was\u0301 tired")[2]
    assert len(notes) == 1 and notes[0].startswith("2 characters of the text are in no token")


def test_two_texts_that_nothing_parts_and_a_start_token_that_is_lost_are_told(tmp_path: Path) -> None:
    folder = tiny.write_llama(tmp_path)
    made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    made.add_special_tokens(["[CLS]"])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", pair="$A $B", special_tokens=[("[CLS]", 2)]
    )
    made.save(str(folder / "tokenizer.json"))
    loaded = load(str(folder))
    assert encode(loaded, "the animal", "it was")[2] == (
        "the tokenizer adds [CLS] to one text, but not to two: it has no template for a pair",
        "nothing stands between the two texts: the model reads them as one",
    )
    assert encode(loaded, "the animal")[2] == ()


def test_a_template_for_two_texts_is_nothing_to_tell(bert: Path) -> None:
    assert encode(load(str(bert)), "the animal", "it was")[2] == ()
