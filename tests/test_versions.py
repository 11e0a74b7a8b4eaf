"""A library that is too old is named, in place of an internal error."""

import pytest
from commandline import Cli

from attncli import versions


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What is said to be installed: by default what is needed."""
    found = {"transformers": "5.3.0", "typer": "0.29.0"}
    monkeypatch.setattr(
        versions, "requires", lambda name: ["transformers>=5.3", "typer>=0.29", 'peft>=1; extra == "peft"']
    )
    monkeypatch.setattr(versions, "version", lambda name: found[name])
    return found


def test_new_enough_versions_are_not_told(installed: dict[str, str]) -> None:
    assert versions.too_old() is None


def test_a_version_that_is_too_old_is_told_with_the_command_that_mends_it(installed: dict[str, str]) -> None:
    installed["transformers"] = "5.0.0"
    assert (
        versions.too_old() == 'needs transformers ≥ 5.3, 5.0.0 is installed: pip install "transformers>=5.3"'
    )


def test_an_unexpected_error_with_an_old_library_is_told_as_that(
    cli: Cli, installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> None:
        raise AttributeError("type object 'AttentionInterface' has no attribute 'get_interface'")

    monkeypatch.setattr("attncli.cli.common.choose_kind", fails)
    installed["transformers"] = "5.0.0"
    result = cli("show", "a b")
    assert (result.code, result.out) == (1, "") and "attncli needs transformers ≥ 5.3" in result.err
    installed["transformers"] = "5.3.0"
    assert cli("show", "a b").code == 70
