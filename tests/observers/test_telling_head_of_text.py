"""Which head has most to say of a text."""

import torch

from attncli.observers.strongest_head import TellingHeadOfText
from attncli.record import AttentionLayer, Kind, Token, WeightBlock

WORDS = ("<s>", "my", "cat", ",", "my", "dog")
TOKENS = tuple(Token(place, place, word, word, special=place == 0) for place, word in enumerate(WORDS))


def seen(weights: torch.Tensor, kind: Kind = "decoder", parts: int = 1) -> tuple[int, int, int] | None:
    telling = TellingHeadOfText(kind, TOKENS, TOKENS)
    layer = AttentionLayer(kind, 3, 2, 2, "layer")
    assert telling.request(layer) is not None
    for rows in torch.arange(len(TOKENS)).tensor_split(parts):
        part = range(int(rows[0]), int(rows[-1]) + 1)
        telling.update(WeightBlock(layer, (0, 1), part, weights[None, :, rows], None))
    return telling.found()


def attending(*pairs: tuple[int, int]) -> torch.Tensor:
    weights = torch.zeros(6, 6)
    for row, column in pairs:
        weights[row, column] = 1.0
    return weights


def test_weight_on_first_tokens_punctuation_and_neighbours_does_not_count() -> None:
    busy = attending((1, 0), (2, 1), (3, 3), (5, 3), (4, 4))
    quiet = attending((5, 2))
    for parts in (1, 3):
        assert seen(torch.stack([busy, quiet]), parts=parts) == (3, 1, 2)


def test_of_equals_the_earlier_is_taken() -> None:
    assert seen(torch.zeros(2, 6, 6)) == (3, 0, 2)
