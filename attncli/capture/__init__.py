"""Watching a model while it runs: its attention operations become blocks of weights."""
