import numpy as np

from attncli.maps.hints import head_to_show, what_to_look_at
from attncli.record import HeadRole, Token, Tokens
from attncli.view import Matrix

INDUCTION = HeadRole("decoder", 1, 3, "induction", 0.7)
PREVIOUS = HeadRole("decoder", 0, 2, "previous_token", 0.9)
ALIGNMENT = HeadRole("cross", 1, 0, "alignment", 1.0)


def tokens(*words: str) -> Tokens:
    ids = {word: number for number, word in enumerate(dict.fromkeys(words))}
    return tuple(
        Token(place, ids[word], word, word, special=word == "<s>") for place, word in enumerate(words)
    )


def attending(
    rows: int, pairs: dict[tuple[int, int], float], layer: int, head: int, kind="decoder"
) -> Matrix:
    values = np.zeros((rows, rows), np.float32)
    for pair, weight in pairs.items():
        values[pair] = weight
    return Matrix(values, None, kind=kind, layer=layer, head=head)


TEXT = tokens("<s>", "a", "cat", "or", "a", "dog")


def test_an_induction_head_is_pointed_at_where_a_token_came_before() -> None:
    matrix = attending(6, {(4, 2): 0.81, (3, 1): 0.95}, 1, 3)
    hint = what_to_look_at([matrix], [PREVIOUS, INDUCTION], TEXT, TEXT)
    assert hint is not None and hint.startswith("look at L1H3, an induction head")
    assert hint.endswith('Row "a" (2nd) has .81 on "cat"')


def test_where_it_does_nothing_here_the_next_role_is_pointed_at() -> None:
    idle = attending(6, {(4, 2): 0.1}, 1, 3)
    back = attending(6, {(row, row - 1): 0.5 + 0.1 * (row > 2) for row in range(1, 6)}, 0, 2)
    hint = what_to_look_at([idle, back], [PREVIOUS, INDUCTION], TEXT, TEXT)
    assert hint == "look at L0H2: each token attends to the one before it, with .56 of its weight on average"


def test_a_token_of_blanks_alone_keeps_its_name() -> None:
    text = tokens("<s>", "·", "·", "·")
    hint = what_to_look_at([attending(4, {(3, 2): 0.9}, 1, 3)], [INDUCTION], text, text)
    assert hint is not None and hint.endswith('Row "·" (3rd) has .90 on "·" (2nd)')


def test_heads_that_are_not_shown_or_known_for_nothing_are_not_pointed_at() -> None:
    other = attending(6, {(4, 2): 0.9}, 1, 2)
    assert what_to_look_at([other], [PREVIOUS, INDUCTION], TEXT, TEXT) is None
    assert what_to_look_at([attending(6, {(4, 2): 0.9}, 1, 3)], [], TEXT, TEXT) is None


def test_of_picked_rows_only_those_shown_are_counted() -> None:
    values = np.array([[0.25, 0.75]], np.float32)
    matrix = Matrix(values, None, kind="decoder", layer=1, head=3)
    hint = what_to_look_at([matrix], [INDUCTION], TEXT[4:5], TEXT[1:3])
    assert hint is not None and hint.endswith('Row "a" has .75 on "cat"')


def test_a_translation_s_row_is_told_by_what_it_is_about_to_write() -> None:
    said, written = tokens("may", "first", "ten"), tokens("<s>", "10", "-", "05")
    values = np.array([[0.1, 0.1, 0.8], [0.9, 0.1, 0.0], [0.7, 0.2, 0.1], [0.3, 0.3, 0.4]], np.float32)
    matrix = Matrix(values, None, kind="cross", layer=1, head=0)
    hint = what_to_look_at([matrix], [ALIGNMENT], written, said)
    assert hint is not None and hint.endswith('Row "<s>" is about to write "10", and has .80 on "ten"')


def test_the_head_to_show_depends_on_whether_a_token_comes_again() -> None:
    assert head_to_show([PREVIOUS, INDUCTION], TEXT) == INDUCTION
    assert head_to_show([PREVIOUS, INDUCTION], tokens("<s>", "a", "cat")) == PREVIOUS
    assert head_to_show([], TEXT) is None
