from pathlib import Path

import pytest

from attncli.errors import AttnCliError, ModelError, ReadError, UsageError
from attncli.models.refusals import Asked, first_sentence, loading, read_from, refused_as


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("There is no model.bin in ./m. Please look there.", "There is no model.bin in ./m"),
        ("one\n  two.\n\nThree.", "one two"),
        ("see e.g. the docs. `x` is wrong", "see e.g. the docs"),
        ("\x1b[31mred", "␛[31mred"),
        ("", "ValueError"),
    ],
)
def test_the_first_whole_sentence_is_told(said: str, told: str) -> None:
    assert first_sentence(ValueError(said)) == told


def test_a_long_sentence_ends_at_a_word() -> None:
    told = first_sentence(ValueError("word " * 200))
    assert len(told) <= 302 and told.endswith("word …")


def test_whatever_a_library_raises_becomes_our_error() -> None:
    with (
        pytest.raises(ReadError, match=r"^it says: no$"),
        refused_as(lambda why: ReadError(f"it says: {why}")),
    ):
        raise Exception("no. Never.")


@pytest.mark.parametrize("error", [UsageError("ours"), MemoryError(), RuntimeError("can't allocate memory")])
def test_our_errors_and_a_lack_of_memory_pass(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, loading("m", Asked()):
        raise error
    assert caught.value is error
    with pytest.raises(type(error)) as caught, refused_as(ReadError):
        raise error
    assert caught.value is error


def complaint(error: Exception, device: str = "cpu") -> AttnCliError:
    with pytest.raises(AttnCliError) as caught, loading("m", Asked(device=device)):
        raise error
    return caught.value


def test_a_file_that_the_system_refuses_is_named() -> None:
    error = complaint(PermissionError(13, "Permission denied", "m/config.json"))
    assert isinstance(error, ModelError) and error.message == "m: m/config.json: Permission denied"


def test_a_device_is_blamed_only_by_torch() -> None:
    assert complaint(RuntimeError("no such device"), "xpu").message.startswith("--device xpu: ")
    assert complaint(ValueError("the device in config.json")).exit_code == 4


def test_a_folder_that_is_there_is_never_told_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught, loading(str(tmp_path), Asked()):
        raise OSError("Error no file named x.bin. Look.")
    assert caught.value.message == f"{tmp_path}: transformers cannot load it: Error no file named x.bin"


def test_a_folder_is_no_file_to_read(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="Is a directory"), read_from(tmp_path):
        tmp_path.open()
