"""What is told of a model before it is loaded."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from commandline import Cli

from attncli.cli.options import ModelOptions
from attncli.errors import AttnCliError
from attncli.models.before_loading import Wanted, check_before_loading
from attncli.observers.selection import parse_selection


@pytest.fixture
def unloadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it fail to open any model, so that what is told was told before."""

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("a model was opened")

    monkeypatch.setattr("attncli.models.loading._load", fail)
    monkeypatch.setattr("attncli.models.trained.TrainedSource.__init__", fail)


@pytest.mark.usefixtures("unloadable")
@pytest.mark.parametrize("command", ["show", "heads", "mask", "explain", "find"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--layer", "40"), "--layer 40: out of range\nhint: this model has layers 0 to 1 (-1 is the last)"),
        (("--kind", "cross"), "--kind cross: there is no cross-attention here"),
        (("--kind", "encodr"), '--kind encodr: unknown kind\nhint: did you mean "encoder"?'),
        (("--dtype", "float1"), '--dtype float1: unknown type\nhint: did you mean "float16"?'),
        (("--device", "gpu"), '--device gpu: unknown device\nhint: did you mean "cpu"?'),
    ],
)
def test_what_a_model_does_not_have_is_told_before_it_is_loaded(
    cli: Cli, tiny_bert: str, command: str, options: tuple[str, ...], message: str
) -> None:
    more = ("--from", "it", "--to", "was") if command == "find" else ()
    found = cli(command, "it was", "-m", tiny_bert, *options, *more)
    assert found.code == 2 and message in found.err and not found.out


@pytest.mark.usefixtures("unloadable")
@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("show", "it was", "--query", "zebra"), 'no token "zebra" in the text'),
        (("show", "it was", "--key", "zebra"), 'no token "zebra" in the text'),
        (("show", "it was", "--head", "9"), "--head 9: out of range"),
        (("explain", "it was", "--query", "zebra"), 'no token "zebra" in the text'),
        (("find", "it was", "--from", "it", "--to", "zebra"), '--to zebra: there is no "zebra" in the text'),
        (("show", "it " * 90), "reads at most 16"),
    ],
)
def test_what_a_text_does_not_have_is_told_before_a_model_is_loaded(
    cli: Cli, tiny_bert: str, typed: tuple[str, ...], message: str
) -> None:
    found = cli(*typed, "-m", tiny_bert)
    assert found.code == 2 and message in found.err and not found.out


@pytest.mark.usefixtures("unloadable")
@pytest.mark.parametrize("options", [("--layer", "7"), ("--head", "4"), ("--query", "zebra")])
def test_a_shipped_model_is_asked_by_its_card(cli: Cli, options: tuple[str, ...]) -> None:
    assert cli("show", "it was", *options).code == 2
    assert cli("show", "it was", *options, "-m", "tiny-encoder").code == 2


@pytest.mark.usefixtures("unloadable")
def test_a_folder_that_is_not_there_is_told_first(cli: Cli) -> None:
    assert cli("show", "it was", "-m", "./nope").code == 4


def test_cuda_is_refused_where_torch_was_built_without_it(
    tiny_bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    version = tmp_path / "torch" / "version.py"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch")
    version.write_text("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n")
    check_before_loading(ModelOptions(tiny_bert, device="cuda:1"), Wanted("it"))
    version.write_text("cuda: Optional[str] = None\nhip: Optional[str] = None\n")
    with pytest.raises(AttnCliError, match="built without CUDA"):
        check_before_loading(ModelOptions(tiny_bert, device="cuda:1"), Wanted("it"))


@pytest.mark.parametrize(
    "change",
    [
        {"text_config": {"model_type": "llama"}, "num_hidden_layers": 1},
        {"num_hidden_layers": None},
        {"num_hidden_layers": 1, "layers": [1, 2, 3]},
        {"num_hidden_layers": 1, "decoder_layers": 12},
    ],
)
def test_a_config_that_leaves_it_open_refuses_no_layer(
    tiny_bert: str, tmp_path: Path, change: dict[str, Any]
) -> None:
    for file in Path(tiny_bert).iterdir():
        (tmp_path / file.name).symlink_to(file)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    check_before_loading(
        ModelOptions(str(tmp_path)), Wanted("it", selections=[parse_selection("9", "layer")])
    )
