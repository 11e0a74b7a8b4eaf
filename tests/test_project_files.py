import re
import subprocess
import tomllib
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def pins(file: str = "constraints.txt") -> dict[str, str]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_dependency_is_pinned_to_a_version_that_it_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    needed = [line for line in chain(project["dependencies"], *extras) if not line.startswith("attncli")]
    for line in needed:
        name, minimum = re.fullmatch(r"([\w-]+)>=([\d.]+)", line).groups()
        version = pins()[canonical(name)]
        assert [int(part) for part in version.split(".")[:2]] >= [int(part) for part in minimum.split(".")]


def test_the_lowest_versions_that_are_tested_are_those_that_are_promised() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest = pins("constraints-lowest.txt")
    for line in project["dependencies"]:
        name, minimum = line.split(">=")
        if name != "torch":  # of which one build alone is at hand
            assert lowest[name] == ".".join([*minimum.split("."), "0", "0"][: lowest[name].count(".") + 1])


def test_pins_are_exact_sorted_and_free_of_local_builds() -> None:
    names = list(pins())
    assert names == sorted(names)
    assert all(re.fullmatch(r"[\w.]+", version) for version in pins().values())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that has nothing but its CI script."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text((ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    return tmp_path


def run_ci(checkout: Path, readme: str) -> subprocess.CompletedProcess[str]:
    (checkout / "README.md").write_text(readme, encoding="utf-8")
    return subprocess.run(
        ["bash", str(checkout / ".ci" / "run")], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [("true && true", 0), ("true && false && true", 1), ("exit 7", 7), ("false\ntrue", 1)],
)
def test_ci_ends_as_the_readmes_command_does(command: str, code: int, checkout: Path) -> None:
    done = run_ci(
        checkout, f"# x\n<!-- ci:begin -->\n```\n{command}\n```\n<!-- ci:end -->\n\n```\nexit 9\n```\n"
    )
    assert (done.returncode, done.stdout) == (code, f"{command}\n")


def test_ci_works_on_a_copy(checkout: Path) -> None:
    readme = "<!-- ci:begin -->\n```sh\ntest -f README.md && touch made && pwd\n```\n<!-- ci:end -->\n"
    done = run_ci(checkout, readme)
    assert done.returncode == 0
    assert not (checkout / "made").exists()
    assert not Path(done.stdout.splitlines()[-1]).exists()


def test_ci_without_a_command_says_so(checkout: Path) -> None:
    done = run_ci(checkout, "# no markers here\n")
    assert done.returncode == 2
    assert "README.md has no test command" in done.stderr


def test_the_five_targets_are_in_the_makefile_and_the_contributors_guide() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for target in ("setup", "fmt", "check", "test", "bench"):
        assert f"\n{target}:" in makefile
        assert f"`make {target}`" in guide


def test_the_shipped_models_lie_in_the_package_and_are_small() -> None:
    folders = sorted((ROOT / "attncli" / "shipped_models").iterdir())
    assert [folder.name for folder in folders] == ["tiny-decoder", "tiny-encoder", "tiny-translator"]
    for folder in folders:
        names = {path.name for path in folder.iterdir()}
        assert {"model.safetensors", "tokenizer.json", "card.json", "README.md", "curve.csv"} <= names
    assert sum(path.stat().st_size for folder in folders for path in folder.iterdir()) < 6_000_000


def test_the_package_s_data_files_are_not_ignored_so_that_the_wheel_has_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["attncli"]}
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8")
    assert not any(name in ignored for name in ("models", "safetensors", "*.json", "*.csv", "*.txt", "*.md"))


def test_no_files_import_each_other_in_a_circle_lazily_or_for_types_either() -> None:
    grimp = pytest.importorskip("grimp", reason="comes with import-linter")
    graph = grimp.build_graph("attncli", exclude_type_checking_imports=False, cache_dir=None)
    order = TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
    order.prepare()  # raises CycleError, which names them


def test_commands_holds_commands_only() -> None:
    folder = ROOT / "attncli" / "commands"
    for path in folder.glob("*.py"):
        assert path.stem == "__init__" or f"def {path.stem}(" in path.read_text(encoding="utf-8"), path
