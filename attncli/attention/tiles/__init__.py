"""Attention a tile at a time."""
