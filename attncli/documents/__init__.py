"""Saved runs, read back into views, without a model."""
