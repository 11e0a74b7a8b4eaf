from pathlib import Path

import pytest

from attncli.errors import ReadError, UsageError
from attncli.inputs.media import check_exists, refuse_medium


def test_a_picture_that_is_there_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(UsageError, match=r"a.jpg is a picture, where a text is read"):
        refuse_medium(str(tmp_path / "a.jpg"))


@pytest.mark.parametrize("text", ["gone.jpg", "a cat.", None, "x" * 5000 + ".png", "\0.png"])
def test_other_texts_are_texts(text: str | None) -> None:
    refuse_medium(text)


def test_only_names_of_pictures_and_sounds_must_exist() -> None:
    check_exists("a cat")
    with pytest.raises(ReadError, match=r"gone.mp3: no such file"):
        check_exists("gone.mp3")
