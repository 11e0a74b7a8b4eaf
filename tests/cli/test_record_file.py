"""Records are appended whole, and a file is gone on with after its last whole one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attncli.cli.record_file import RecordFile
from attncli.errors import ReadError, UsageError, WriteError


def record(line: int, text: str = "it", **more: object) -> bytes:
    return json.dumps({"line": line, "text": text, **more}).encode() + b"\n"


def test_a_file_is_emptied_only_when_the_first_record_comes(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"old\n")
    records = RecordFile(path)
    assert path.read_bytes() == b"old\n"
    records.write(record(1))
    records.close()
    assert path.read_bytes() == record(1)


@pytest.mark.parametrize("rest", [b"", b'{"line": 3, "te', b"x" * 100])
def test_what_was_cut_short_is_written_again(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(record(1) + record(2, "x" * 100_000) + rest)
    records = RecordFile(path, resume=True)
    assert records.last is not None and records.last["line"] == 2
    records.write(record(3))
    records.close()
    assert [json.loads(line)["line"] for line in path.read_bytes().splitlines()] == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", b'{"line": 1, "te'])
def test_a_file_without_a_whole_record_begins_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(content)
    records = RecordFile(path, resume=True)
    assert records.last is None
    records.write(record(1))
    assert path.read_bytes() == record(1)
    records.close()


@pytest.mark.parametrize("content", [b"no JSON\n", b"[1]\n", b'{"kind": "encoder", "layer": 0}\n', b"\n"])
def test_another_file_is_not_gone_on_with(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(content)
    with pytest.raises(ReadError, match="does not end in a record"):
        RecordFile(path, resume=True)


def test_records_of_another_model_are_not_appended(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(record(1, model="a"))
    with pytest.raises(UsageError, match='had model "a", this one "b"'):
        RecordFile(path, resume=True).write(record(2, model="b"))
    assert path.read_bytes() == record(1, model="a")


def test_a_file_that_is_there_is_not_overwritten_where_that_is_unwanted(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.touch()
    with pytest.raises(WriteError):
        RecordFile(path, no_clobber=True).write(record(1))
