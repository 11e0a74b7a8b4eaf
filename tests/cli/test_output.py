"""Files that take another's place: whole, with its permissions, and never against what was asked."""

import stat
from pathlib import Path

import pytest

from attncli.cli import output
from attncli.cli.options import OutputOptions
from attncli.cli.output import Plan, deliver, plan, write_whole
from attncli.errors import TooLargeError, WriteError
from attncli.record import Provenance
from attncli.view import Column, Header, Table


def table() -> Table:
    return Table(Header(command="x", title="t", provenance=Provenance("0")), (Column("a"),), ((1,),))


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_replaced_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")
    path.chmod(mode)
    assert write_whole(path, b"new!") == 4
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new!", mode)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_has_come_up_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")
    with pytest.raises(WriteError, match="File exists"):
        write_whole(path, b"new", no_clobber=True)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.os, "fsync", full)
    with pytest.raises(WriteError, match="No space left"):
        write_whole(path, b"new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def texts(*formats: str, yes_large: bool = False) -> Plan:
    made = plan(OutputOptions(yes_large=yes_large), "MatrixGrid")
    return Plan(made.output, tuple((Path(f"x.{name}"), name) for name in formats), None, made.screen)


def test_ten_million_numbers_are_written_as_text_and_one_more_is_not() -> None:
    output.refuse_too_many(texts("csv"), 10, 1000, 1000, None)
    output.refuse_too_many(texts("csv"), 10, 1001, 5000, 1000 - 1)  # those listed count
    output.refuse_too_many(texts("npz", "png"), 11, 1000, 1000, None)
    output.refuse_too_many(texts("csv", yes_large=True), 11, 1000, 1000, None)
    with pytest.raises(TooLargeError, match=r"1 map of 10,000,001×1: 10,000,001 numbers.* as csv"):
        output.refuse_too_many(texts("npz", "csv"), 1, 10_000_001, 1, None)


def test_a_note_stands_once_in_the_answer_or_on_stderr(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    view = Table(
        Header(command="x", title="t", provenance=Provenance("0"), notes=("so",)), (Column("a"),), ((1,),)
    )
    deliver(view, plan(OutputOptions(format="csv"), "Table"))
    assert capsys.readouterr().err == "note: so\n"
    deliver(view, plan(OutputOptions(format="csv", quiet=1), "Table"))
    deliver(view, plan(OutputOptions(output=[str(tmp_path / "x.json")], quiet=1), "Table"))
    assert capsys.readouterr().err == ""
    deliver(view, plan(OutputOptions(format="table", width=80), "Table", default="table"))
    out, err = capsys.readouterr()
    assert out.count("so") == 1 and err == ""
