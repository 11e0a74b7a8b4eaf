"""One query's weights in the shape of a picture, in numbers that can be worked out by hand."""

from dataclasses import replace

import numpy as np
from render_samples import header, tokens

from attncli.render.patches import as_patches
from attncli.render.scales import scale_of
from attncli.view import Matrix, MatrixGrid, Picture

TEXTS = ["[CLS]", "[REG1]", "r0c0", "r0c1", "r0c2", "r1c0", "r1c1", "r1c2"]
WEIGHTS = np.array([[0.2, 0.1, 0.05, 0.06, 0.07, 0.15, 0.16, 0.21], [1, 0, 0, 0, 0, 0, 0, 0]], np.float32)


def over(query: int) -> MatrixGrid:
    picture = Picture(np.zeros((4, 6, 3), np.uint8), rows=2, columns=3, query=query)
    matrix = Matrix(WEIGHTS, kind="encoder", layer=0, head=1)
    keys = tokens(TEXTS)
    return MatrixGrid(header(), (matrix,), (keys[0], keys[6]), keys, picture=picture)


def test_each_patch_has_its_weight_and_the_special_tokens_theirs_beside_it() -> None:
    grid = as_patches(over(0))
    np.testing.assert_array_equal(grid.matrices[0].values, WEIGHTS[0, 2:].reshape(2, 3))
    assert [token.text for token in grid.query_tokens] == ["r0", "r1"]
    assert [token.text for token in grid.key_tokens] == ["c0", "c1", "c2"]
    assert grid.facts == ({"on_special_tokens": 0.3},) and grid.about == "[CLS] attends to patches"


def test_a_patch_that_attends_is_known_by_its_place_among_the_patches() -> None:
    grids = as_patches(over(0)), as_patches(over(1))
    assert [grid.picture.query for grid in grids if grid.picture] == [-2, 4]
    assert grids[1].about == "r1c1 attends to patches"


def test_the_scale_ends_at_the_largest_weight_on_a_patch() -> None:
    assert scale_of(as_patches(over(0))).high == np.float32(0.21)
    assert scale_of(as_patches(over(1))).high == 1.0  # nothing there: any scale will do
    assert scale_of(replace(over(0), picture=None)).high == 1.0


def test_a_grid_without_a_picture_stays_as_it_is() -> None:
    grid = replace(over(0), picture=None)
    assert as_patches(grid) is grid
