"""What attention knows of word order: the same words in two orders, with and without positions."""

from __future__ import annotations

import torch

from attncli.explain.row import Reordered
from attncli.models.scratch import ScratchSource

SENTENCE = "the dog bit the man"
ORDER = (0, 4, 2, 3, 1)
"""What becomes of it: the man bit the dog."""


def reorder(*, layers: int = 1, heads: int = 1, d_model: int = 64, seed: int = 0) -> Reordered:
    """Send a sentence and the same words in another order through the from-scratch model, and undo the order.

    Without positions and without a mask, attention gives each word the same result in any order: it is equivariant
    under permutations, ``f(P·X) = P·f(X)``. Positions, or a causal mask, tell the orders apart.

    Reference:
        Vaswani et al. 2017, §3.5, arXiv 1706.03762.
    """
    source, decoder = (
        ScratchSource(SENTENCE, layers=layers, heads=heads, d_model=d_model, causal=causal, seed=seed)
        for causal in (False, True)
    )
    found = {
        "no positions": _differences(source, positions=False),
        "positions": _differences(source, positions=True),
        "no positions, causal mask": _differences(decoder, positions=False),
    }
    words = tuple(token.text for token in source.source_tokens)
    return Reordered(
        words=words,
        order=ORDER,
        differences={name: tuple(rows) for name, (rows, _) in found.items()},
        largest=found["no positions"][1],
        depth=layers,
        heads=heads,
    )


@torch.inference_mode()
def _differences(source: ScratchSource, *, positions: bool) -> tuple[list[float], float]:
    """Return each word's largest difference between the two orders, put back in one order, and the largest output."""
    words = source.embed(source.source_tokens, positions=False)
    places = source.embed(source.source_tokens, positions=positions) - words
    order = torch.tensor(ORDER)
    plain, turned = (source.forward(x + places) for x in (words, words[:, order]))
    undone = turned[:, order.argsort()]
    return (plain - undone).abs().amax(dim=-1)[0].tolist(), float(plain.abs().max())
