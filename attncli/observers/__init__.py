"""Observers: what is kept of the blocks of weights that stream by, one file each.

None depends on how the rows, heads and keys are cut into blocks. What each keeps is the memory it takes.
"""

from attncli.observers.allowed_keys import AllowedSpans
from attncli.observers.masks import MaskOnly
from attncli.observers.pooled import PooledPicture
from attncli.observers.row_numbers import HeadNumbers, RowNumbers
from attncli.observers.strongest import StrongestKeys
from attncli.observers.weight_received import WeightReceived
from attncli.observers.weights import FullWeights
from attncli.observers.word_pairs import WordWeights

__all__ = [
    "AllowedSpans",
    "FullWeights",
    "HeadNumbers",
    "MaskOnly",
    "PooledPicture",
    "RowNumbers",
    "StrongestKeys",
    "WeightReceived",
    "WordWeights",
]
