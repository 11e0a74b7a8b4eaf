import gzip
import struct
import zlib
from pathlib import Path

import pytest

from attncli.errors import ReadError
from training.texts import DICTIONARY, NOVELS, find_texts


def paragraph(number: int) -> str:
    return f"Paragraph {number} goes on for\nsome time, so that it is long enough to be kept, and ends."


BOOK = "\n\n".join(map(paragraph, range(1000))) + "\n\nshort"


def r_object(lines: list[str]) -> bytes:
    """Write strings as R does: flags of which the last byte is 9, length, bytes; zlib after the size."""
    strings = [b"\x00\x04\x00\x09" + struct.pack(">i", len(line.encode())) + line.encode() for line in lines]
    raw = b"X\n\x00\x00\x00\x03" + b"".join(strings)
    return struct.pack(">i", len(raw)) + zlib.compress(raw)


def test_broken_lines_are_joined_and_every_part_is_trained_on_or_held_out(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(BOOK)
    (text,) = find_texts([str(tmp_path / "book.txt")])
    expected = {" ".join(paragraph(number).split()) for number in range(1000)}
    assert set(text.training) | set(text.held_out) == expected
    assert not set(text.training) & set(text.held_out)
    assert 0.02 < len(text.held_out) / 1000 < 0.08


def test_packages_are_found_in_the_folder_they_were_unpacked_into(tmp_path: Path) -> None:
    for name, content in (
        (NOVELS, r_object(BOOK.split("\n")[:900]) + r_object(BOOK.split("\n")[900:])),
        (DICTIONARY, gzip.compress(BOOK.encode())),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(content)
    novels, dictionary = find_texts([str(tmp_path)])
    assert novels.training == dictionary.training and novels.sha256 == dictionary.sha256
    assert "Austen" in novels.name and "Bierce" in dictionary.name


def test_where_there_is_no_text_it_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ReadError) as caught:
        find_texts([str(tmp_path)])
    assert "apt-get install" in (caught.value.hint or "")


def test_a_broken_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.gz").write_bytes(b"no gzip")
    with pytest.raises(ReadError, match="cannot be read"):
        find_texts([str(tmp_path / "broken.gz")])
