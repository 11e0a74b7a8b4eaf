"""Heads ranked over texts: metrics, sums, baselines, labels."""
