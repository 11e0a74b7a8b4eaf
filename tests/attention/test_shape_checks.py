"""The shapes that annotations promise are checked while the tests run."""

from __future__ import annotations

import jaxtyping
import pytest
import torch

from attncli.attention.core import attention_scores
from attncli.attention.variants import linear


def test_a_wrong_shape_is_caught():
    with pytest.raises(jaxtyping.TypeCheckError):
        attention_scores(torch.zeros(2, 3, 4), torch.zeros(2, 5, 6))


def test_a_wrong_type_is_caught():
    with pytest.raises(jaxtyping.TypeCheckError):
        linear.feature_map(torch.zeros(3, dtype=torch.int64))
