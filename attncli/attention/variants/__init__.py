"""Attention variants, one file each, with an `ENTRY`."""
