import pytest

from attncli.errors import (
    AttnCliError,
    CaptureError,
    CheckFailed,
    ClosedPipe,
    ModelError,
    ReadError,
    TooLargeError,
    UsageError,
    WriteError,
    did_you_mean,
)

EXIT_CODES = {
    ReadError: 1,
    WriteError: 1,
    CaptureError: 1,
    UsageError: 2,
    CheckFailed: 3,
    ModelError: 4,
    TooLargeError: 5,
    ClosedPipe: 141,
}


@pytest.mark.parametrize(("error", "code"), EXIT_CODES.items())
def test_each_mistake_has_its_exit_code(error: type[AttnCliError], code: int) -> None:
    made = error("what was wrong", "what to do")
    assert (made.exit_code, made.message, made.hint, str(made)) == (
        code,
        "what was wrong",
        "what to do",
        "what was wrong",
    )


def test_no_kind_of_error_is_left_out_above() -> None:
    assert set(AttnCliError.__subclasses__()) == set(EXIT_CODES)


def test_a_hint_may_be_missing() -> None:
    assert AttnCliError("a").hint is None
    assert AttnCliError("a").exit_code == 1


@pytest.mark.parametrize(
    ("name", "choices", "hint"),
    [
        ("CAUSAL", ["causal", "full"], 'did you mean "causal"?'),
        ("slidng", ["causal", "sliding"], 'did you mean "sliding"?'),
        ("x", ["causal", "full"], "choose from: causal, full"),
        ("x", [], None),
        ("x", [f"choice{number}" for number in range(25)], None),
    ],
)
def test_a_mistyped_name_is_answered_with_what_is_near(
    name: str, choices: list[str], hint: str | None
) -> None:
    assert did_you_mean(name, choices) == hint
    assert did_you_mean(name, iter(choices)) == hint
