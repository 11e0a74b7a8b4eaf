"""Observers: what is kept of the blocks of weights that stream by, one file each.

None depends on how the rows, heads and keys are cut into blocks. What each keeps is the memory it takes.
"""
