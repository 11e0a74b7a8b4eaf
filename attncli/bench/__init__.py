"""Measures what attention costs: time and memory over the sequence's length, beside PyTorch's own kernels.

    lengths ─┐
    names ───┼─ plan ─→ Contender × length ─ check, predict, measure ─→ Cell ─ fit, report ─→ Curves
    settings ┘

The same function timed twice, one after the other, may seem a fifth faster than itself: other programs, the clock and
the caches change meanwhile. So every contender runs once a round, in shuffled order; what is compared are the ratios
within a round; and the reference runs twice, to show how far two equal things come apart.
"""
