import json
import shutil
import subprocess
from importlib import metadata

import jsonschema
import pytest

from attncli.commands import doctor
from attncli.commands.doctor import Check, doctor_view, fail_if_ill, font_checks, torch_checks, version_checks
from attncli.commands.schema import schema_text
from attncli.errors import CheckFailed
from attncli.render import Options
from attncli.render.json_format import render


def find(checks, item: str) -> Check:
    return next(check for check in checks if check.item == item)


def test_the_json_follows_its_schema() -> None:
    document = json.loads(render(doctor_view(quick=True), Options()))
    jsonschema.validate(document, json.loads(schema_text("doctor")))
    assert document["ok"] is True


def test_installed_versions_are_those_of_the_metadata() -> None:
    checks = list(version_checks())
    assert find(checks, "torch").value == metadata.version("torch")
    assert {check.status for check in checks} == {"ok"}


def test_a_missing_library_fails_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LIBRARIES", ("no-such-library",))
    check = find(version_checks(), "no-such-library")
    assert (check.value, check.status, check.hint) == (
        "missing",
        "fail",
        "pip install --upgrade no-such-library",
    )


def test_an_old_library_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_needed", lambda: {"rich": "15.10"})
    monkeypatch.setattr(metadata, "version", lambda name: "15.9.1+local")
    assert find(version_checks(), "rich").value == "15.9.1+local, older than 15.10"
    assert find(version_checks(), "rich").status == "fail"


def test_a_torch_that_does_not_start_is_told_by_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ASK_TORCH", "import no_such_torch")
    [check] = torch_checks()
    assert check.status == "fail"
    assert check.value == "does not start: ModuleNotFoundError: No module named 'no_such_torch'"


def test_a_torch_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ASK_TORCH", "import time; time.sleep(60)")
    monkeypatch.setattr(doctor, "PATIENCE", 0.1)
    [check] = torch_checks()
    assert (check.value, check.status) == ("does not answer within 0.1 seconds", "fail")


def test_torch_tells_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = '{"threads": 3, "cuda": [["H200", 150323855360]], "mps": false}'
    monkeypatch.setattr(doctor, "ASK_TORCH", f"print({answer!r})")
    checks = list(torch_checks())
    assert find(checks, "cuda").value == "H200, 140 GiB"
    assert find(checks, "torch threads").value == "3"


def test_fonts_that_are_absent_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        found = "Noto Sans CJK JP,Noto Sans CJK JP Thin\n" if command[1] == ":lang=ja" else ""
        return subprocess.CompletedProcess(command, 0, found, "")

    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/fc-list")
    monkeypatch.setattr(subprocess, "run", listed)
    checks = list(font_checks())
    assert (find(checks, "CJK").value, find(checks, "CJK").status) == ("Noto Sans CJK JP", "ok")
    assert (find(checks, "emoji").value, find(checks, "emoji").status) == ("none", "warn")


def test_the_colour_decision_is_told_with_its_reason() -> None:
    view = doctor_view(quick=True, colors={"stdout": ("none", "NO_COLOR is set")})
    assert ("terminal", "stdout colour", "none: NO_COLOR is set", "ok", "") in view.rows


def test_little_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "available_bytes", lambda: 3 * 2**28)
    check = find(doctor.machine_checks(), "available")
    assert (check.value, check.status) == ("768 MiB", "warn")


def test_only_a_failure_ends_with_the_exit_code_of_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "font_checks", lambda: [Check("fonts", "CJK", "none", "warn")])
    fail_if_ill(doctor_view(quick=True))
    monkeypatch.setattr(doctor, "font_checks", lambda: [Check("fonts", "all", "gone", "fail", "mend it")])
    view = doctor_view(quick=True)
    with pytest.raises(CheckFailed, match=r"1 of .* checks failed: all") as caught:
        fail_if_ill(view)
    assert (caught.value.exit_code, caught.value.hint, view.extra["ok"]) == (3, "mend it", False)
