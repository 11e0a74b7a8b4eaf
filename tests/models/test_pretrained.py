import pytest
import tiny

from attncli.errors import UsageError
from attncli.models.loading import Loaded, load
from attncli.models.prepared_text import prepare


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return load(str(tiny.write_bert(tmp_path_factory.mktemp("bert"))))


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return load(str(tiny.write_marian(tmp_path_factory.mktemp("marian"))))


def labels(tokens) -> list[str]:
    return [token.label for token in tokens]


def test_a_text_becomes_tokens_with_the_models_specials(bert: Loaded) -> None:
    made = prepare(bert, "The animals")
    assert labels(made.queries["encoder"]) == ["[CLS]", "the", "animal", "‿s", "[SEP]"]
    assert [token.special for token in made.queries["encoder"]] == [True, False, False, False, True]


def test_a_pair_is_joined_as_the_model_wants_it(bert: Loaded) -> None:
    made = prepare(bert, "the animal", "it")
    assert labels(made.keys["encoder"]) == ["[CLS]", "the", "animal", "[SEP]", "it", "[SEP]"]
    assert made.inputs["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1]]


def test_a_text_of_one_token_works(bert: Loaded) -> None:
    assert len(prepare(bert, "it").queries["encoder"]) == 3


def test_an_empty_text_is_refused(bert: Loaded) -> None:
    with pytest.raises(UsageError, match="the text is empty"):
        prepare(bert, "")


def test_a_text_longer_than_the_model_names_both_numbers_and_both_ways_out(bert: Loaded) -> None:
    with pytest.raises(UsageError, match=r"the text has 22 tokens; .* reads at most 16") as caught:
        prepare(bert, "the " * 20)
    hint = "--truncate cuts it to 16; attncli show --stride 8 reads it all, in windows"
    assert caught.value.hint == hint


def test_truncate_cuts_and_says_what(bert: Loaded) -> None:
    made = prepare(bert, "the " * 20, truncate=True)
    assert len(made.queries["encoder"]) == 16 and labels(made.queries["encoder"])[-1] == "[SEP]"
    assert made.notes == ("cut to the model's 16 tokens: 6 are left out",)


def test_without_a_pair_only_the_encoder_of_two_stacks_runs(marian: Loaded) -> None:
    made = prepare(marian, "the animal was tired")
    assert list(made.queries) == ["encoder"] and made.encoder_only
    assert "--pair" in made.notes[0]


def test_the_decoder_reads_the_start_token_and_then_the_target_but_its_last(marian: Loaded) -> None:
    made = prepare(marian, "the animal was tired", "it was")
    assert labels(made.queries["cross"]) == ["[PAD]", "it"]
    assert [token.position for token in made.queries["cross"]] == [0, 1]
    assert len(made.keys["cross"]) == 4
    assert made.inputs["decoder_input_ids"].shape == (1, 2)


def test_an_empty_pair_is_refused(marian: Loaded) -> None:
    with pytest.raises(UsageError, match="--pair is empty"):
        prepare(marian, "it", "")
