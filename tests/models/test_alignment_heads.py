"""``--head aligned`` stands for the heads that a model's own generation settings name."""

import json
from pathlib import Path

import pytest

from attncli.cli.options import ModelOptions
from attncli.errors import UsageError
from attncli.models.alignment_heads import spelled_out


@pytest.mark.parametrize(
    ("asked", "spelled"),
    [("aligned", "L1H0,L2H5"), ("aligned:mean", "L1H0,L2H5:mean"), ("3", "3"), (None, None)],
)
def test_aligned_is_replaced_by_the_heads_that_the_model_names(
    tmp_path: Path, asked: str | None, spelled: str | None
) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps({"alignment_heads": [[1, 0], [2, 5]]}))
    assert spelled_out(asked, ModelOptions(model=str(tmp_path))) == spelled


def test_a_model_that_names_none_is_told(tmp_path: Path) -> None:
    for model in (None, str(tmp_path)):
        with pytest.raises(UsageError, match="names no alignment heads"):
            spelled_out("aligned", ModelOptions(model=model))
