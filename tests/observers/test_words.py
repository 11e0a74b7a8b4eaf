import numpy as np

from attncli.observers.words import merge, word_starts, word_tokens
from attncli.record import Token
from attncli.view import Matrix


def token(position: int, text: str, start: int | None, **more) -> Token:
    end = None if start is None else start + len(text.strip())
    return Token(position, position, text, text.strip(), start=start, end=end, **more)


PIECES = (
    token(0, "[CLS]", None, special=True),
    token(1, "un", 0),
    token(2, "happi", 2),
    token(3, "ly", 7),
    token(4, "so", 10),
    token(5, ".", 12),
)


def test_pieces_without_a_blank_between_them_are_a_word_and_punctuation_is_not() -> None:
    assert word_starts(PIECES) == [0, 1, 4, 5]
    merged = word_tokens(PIECES, [0, 1, 4, 5])
    assert [(word.position, word.label) for word in merged] == [
        (0, "[CLS]"),
        (1, "unhappily"),
        (4, "so"),
        (5, "."),
    ]
    assert (merged[1].start, merged[1].end, merged[1].id) == (0, 9, None)


def test_a_piece_that_brings_its_own_blank_begins_a_word() -> None:
    pieces = (Token(0, 0, "the", "the", start=0, end=3), Token(1, 1, " cat", "·cat", start=3, end=7))
    assert word_starts(pieces) == [0, 1]


def test_pieces_of_one_character_belong_together() -> None:
    pieces = (
        Token(0, 0, "\ufffd", "x", start=0, end=1, bytes="f0", written="🙂"),
        Token(1, 1, "\ufffd", "x", start=0, end=1, bytes="9f", written="🙂"),
        Token(2, 2, "!", "!", start=1, end=2),
    )
    assert word_starts(pieces) == [0, 2]


def test_keys_are_summed_and_rows_averaged_so_that_rows_sum_to_one() -> None:
    values = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.2, 0.6]], np.float32)
    merged = merge(Matrix(values, np.tri(3, dtype=bool), kind="decoder", layer=1, head=2), [0, 1], [0, 1])
    np.testing.assert_allclose(merged.values, [[1, 0], [0.35, 0.65]], atol=1e-7)
    assert merged.allowed is not None and merged.allowed.tolist() == [[True, False], [True, True]]
    assert (merged.layer, merged.head) == (1, 2)
