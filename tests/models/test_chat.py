"""The parts of a conversation, by templates of several makes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny

from attncli.errors import UsageError
from attncli.models.chat import converse, prepare_chat
from attncli.models.loading import Loaded, load

MARKS = "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }} </{{ m['role'] }}> {% endfor %}"
DEFAULT_SYSTEM = "{% if messages[0]['role'] != 'system' %}<system> be kind </system> {% endif %}"
ANSWER = "{% if add_generation_prompt %}<assistant>{% endif %}"
ALTERNATING = (
    "{% for m in messages %}{% if m['role'] == 'system' or (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}[{{ m['content'].strip() }}]{% endfor %}"
)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return load(str(tiny.write_llama(tmp_path_factory.mktemp("llama"))))


class Templated:
    """A tokenizer with another template."""

    def __init__(self, tokenizer: Any, template: str) -> None:
        self._tokenizer, self.chat_template = tokenizer, template

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._tokenizer(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def apply_chat_template(self, messages: Any, **options: Any) -> Any:
        return self._tokenizer.apply_chat_template(messages, chat_template=self.chat_template, **options)


def with_template(made: Loaded, template: str) -> Loaded:
    return replace(made, tokenizer=Templated(made.tokenizer, template))


@pytest.mark.parametrize("system", [None, "too tired"])
def test_the_three_parts_are_found_also_a_default_system_part(llama: Loaded, system: str | None) -> None:
    made = converse(with_template(llama, DEFAULT_SYSTEM + MARKS + ANSWER), "the animal", system)
    assert made.text[: made.user] == f"<system> {system or 'be kind'} </system> "
    assert made.text[made.user : made.assistant] == "<user> the animal </user> "
    assert made.text[made.assistant :] == "<assistant>"


def test_a_template_that_forbids_two_messages_still_tells_where_the_user_begins(llama: Loaded) -> None:
    made = converse(with_template(llama, ALTERNATING), " the animal ", None)
    assert (made.text[made.user : made.assistant], made.text[made.assistant :]) == ("[the animal]", "")


def test_a_template_that_takes_no_system_message_says_so(llama: Loaded) -> None:
    with pytest.raises(UsageError, match="template takes no such conversation: roles must alternate"):
        converse(with_template(llama, ALTERNATING), "the animal", "be kind")


def test_each_token_is_marked_with_its_part(llama: Loaded) -> None:
    made = prepare_chat(with_template(llama, "{{ messages[0]['content'] }} it was"), "the animal", None)
    tokens = made.queries["decoder"]
    assert [token.text for token in tokens] == ["the", "animal", "it", "was"]
    parts = prepare_chat(with_template(llama, MARKS + ANSWER), "the animal", "it").queries["decoder"]
    words = [(token.text, token.segment) for token in parts if token.text in ("the", "animal", "it")]
    assert words == [("it", "system"), ("the", "user"), ("animal", "user")]
    assert parts[-1].segment == "assistant"


def test_the_parts_positions_are_told(llama: Loaded) -> None:
    notes = prepare_chat(with_template(llama, MARKS), "the animal", "it").notes
    assert notes[-1].startswith("parts of the conversation (▸ where one begins): system 0–")
    assert "user" in notes[-1] and "assistant" not in notes[-1]


def test_a_model_without_a_template_is_refused(llama: Loaded) -> None:
    with pytest.raises(UsageError, match="has no chat template"):
        prepare_chat(llama, "the animal")


def test_an_empty_message_is_refused(llama: Loaded) -> None:
    with pytest.raises(UsageError, match="text is empty"):
        prepare_chat(llama, "")


@pytest.mark.models
def test_a_trained_models_conversation_is_divided_at_its_marks(model_folder: Any) -> None:
    folder: Path = model_folder("smollm2-135m")
    tokens = prepare_chat(load(str(folder)), "Name a colour.").queries["decoder"]
    starts = [t.label for t, before in zip(tokens[1:], tokens, strict=False) if t.segment != before.segment]
    assert starts == ["<|im_start|>", "<|im_start|>"]
    assert [t.label for t in tokens if t.segment == "assistant"] == ["<|im_start|>", "ass", "istant", "⏎"]
