"""Observers: what is kept of the blocks of weights that stream by, one file each.

None depends on how the rows, heads and keys are cut into blocks. What each keeps is the memory it takes.
"""

from attncli.analysis.observers.allowed_spans import AllowedSpans
from attncli.analysis.observers.full_weights import FullWeights
from attncli.analysis.observers.mask_only import MaskOnly
from attncli.analysis.observers.pooled_picture import PooledPicture
from attncli.analysis.observers.row_numbers import HeadNumbers, RowNumbers
from attncli.analysis.observers.strongest_keys import StrongestKeys
from attncli.analysis.observers.weight_received import WeightReceived
from attncli.analysis.observers.word_weights import WordWeights

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
