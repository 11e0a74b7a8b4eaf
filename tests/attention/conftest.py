"""What the tests of attention share."""

from __future__ import annotations

import jaxtyping
import pytest


@pytest.fixture
def as_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run without the check of shapes that only tests have, to see the errors that users see."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
