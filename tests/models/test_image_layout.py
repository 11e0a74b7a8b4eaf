"""Runs of image tokens are laid out as a processor meant them."""

from attncli.models.image_layout import Facts, merged, runs_of, views_of

SQUARE = Facts((60, 60))


def views(pattern: str, facts: Facts) -> list[tuple[str, int, int]]:
    runs = runs_of([one == "i" for one in pattern], list(pattern))
    return [(view.name, view.rows, view.columns) for view in views_of(runs, facts)[0]]


def test_one_run_is_a_square_or_of_the_pictures_shape() -> None:
    assert views("ab" + "i" * 9 + "c", SQUARE) == [("", 3, 3)]
    assert views("i" * 12, Facts((60, 80))) == [("", 3, 4)]
    assert views("i" * 10, SQUARE) == [("[CLS]", 0, 0), ("", 3, 3)]


def test_equal_runs_with_one_mark_between_are_rows() -> None:
    assert views("iii|iii|e", Facts((40, 60))) == [("", 2, 3)]


def test_tiles_without_names_lie_as_the_picture_is_wide() -> None:
    facts = Facts((40, 60), tile_length=4, tiled=True)
    runs = runs_of([True] * 28, ["i"] * 28)
    found, labels = views_of(runs, facts)
    assert [view.tile for view in found] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), None]
    assert (labels[5], labels[24]) == ("tile2 r0c1", "global r0c0")
    tiles, whole = merged(found)
    assert (tiles.rows, tiles.columns, whole.name) == (4, 6, "global")
    assert tiles.places[:6] == (0, 1, 4, 5, 8, 9)


def test_where_crops_stand_apart_the_whole_comes_first() -> None:
    assert views("<iiii>xx<iiii>xx<iiii>", Facts((30, 60), tiled=True)) == [
        ("global", 2, 2),
        ("tile1", 2, 2),
        ("tile2", 2, 2),
    ]


def test_a_resamplers_tokens_have_no_place() -> None:
    runs = runs_of([True] * 4, ["i"] * 4)
    found, labels = views_of(runs, Facts((60, 60), resampled=True))
    assert merged(found) == [] and labels == {0: "#0", 1: "#1", 2: "#2", 3: "#3"}
