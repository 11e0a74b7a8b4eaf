"""How many tokens a model reads at most, and which: measured on its embeddings, since configs count in several ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

NO_LIMIT = 10**9

_ATTENTION = {
    functional.scaled_dot_product_attention,
    functional.softmax,
    torch.softmax,
    torch.bmm,
    torch.baddbmm,
}
"""Where these are reached, all that is embedded has been."""


class _Stop(Exception):
    """Nothing more is to be learned from the pass."""


class _Lookups(TorchFunctionMode):
    """Watches a pass until it looks consecutive rows up in a table: those are positions.

    `found` is the first of these rows, and how many the table has.
    """

    found: tuple[int, int] | None = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Look at what a function is given, and call it."""
        if func in _ATTENTION:
            raise _Stop
        if func is functional.embedding:
            rows: Tensor = args[0].reshape(-1)[:3]
            if rows.tolist() == list(range(int(rows[0]), int(rows[0]) + 3)):
                self.found = int(rows[0]), args[1].shape[0]
                raise _Stop
        return func(*args, **(kwargs or {}))


def token_limit(model: Any, tokenizer: Any, *, target: bool = False) -> int:
    """Return the number of tokens that a model reads at most; `NO_LIMIT` where there is no end to it.

    A table of positions has rows, and some families begin to number after the padding token's id: both are seen
    where the model reads three tokens. Models without such a table have a limit in their config.

    Args:
        target: Whether the decoder's limit is meant, of an encoder–decoder.
    """
    limit = _rows_of_positions(model, target) or _configured(model, target) or NO_LIMIT
    own = tokenizer.model_max_length
    return min(limit, own) if isinstance(own, int) else limit


def embedding_rows(model: Any, *, target: bool = False) -> int | None:
    """Return how many different tokens a model has; None where that is not to be seen."""
    with suppress(Exception):  # families without embeddings raise what they like
        table = (model.get_decoder() if target else model).get_input_embeddings()
        return int(table.num_embeddings)
    return None


def _rows_of_positions(model: Any, target: bool) -> int | None:
    part = model
    if model.config.is_encoder_decoder:
        part = model.get_decoder() if target else model.get_encoder()
    padding = getattr(model.config.get_text_config(), "pad_token_id", None)
    token = 3 if padding != 3 else 4
    device = "cpu" if model.device.type == "meta" else model.device
    lookups = _Lookups()
    # What stops the pass is ours; whatever else goes wrong in it leaves the config to be asked.
    with suppress(Exception), torch.inference_mode(), lookups:
        part(input_ids=torch.full((1, 3), token, device=device))
    if lookups.found is None:
        return None
    first, rows = lookups.found
    return rows - first if rows > first else None


def _configured(model: Any, target: bool) -> int | None:
    config = model.config.get_text_config()
    names = ("max_position_embeddings", "n_positions")
    if target:
        names = ("max_target_positions", "max_position_embeddings")
    found = (getattr(config, name, None) for name in names)
    return next((value for value in found if isinstance(value, int) and value > 0), None)
