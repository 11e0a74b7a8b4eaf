"""Tests skip an oracle that is missing, so that one may develop without; here the first group must be there."""

from importlib.util import find_spec

import pytest


@pytest.mark.parametrize("name", ["onnx", "onnxruntime", "attn_gym", "einops", "transformers"])
def test_the_oracle_of_the_test_extra_is_installed(name: str) -> None:
    assert find_spec(name) is not None, 'pip install -c constraints.txt -e ".[test]"'
