"""What a person at a terminal is told to try next."""

from dataclasses import replace

import pytest

from attncli.cli.common import plan_output, tell_next
from attncli.cli.options import OutputOptions


@pytest.mark.parametrize(
    ("tty", "quiet", "text", "said"),
    [
        (True, 0, "a b", 'next: attncli show "a b" -m m\n'),
        (True, 0, "a b " * 30, 'next: attncli show "…" -m m\n'),
        (True, 1, "a b", ""),
        (False, 0, "a b", ""),
    ],
)
def test_the_next_command_fits_a_line_and_is_told_to_people_only(
    capsys: pytest.CaptureFixture[str], tty: bool, quiet: int, text: str, said: str
) -> None:
    plan = plan_output(OutputOptions(quiet=quiet), "Table", default="table")
    tell_next("attncli show TEXT -m m", text, replace(plan, screen=replace(plan.screen, tty=tty, width=80)))
    assert capsys.readouterr().err == said
