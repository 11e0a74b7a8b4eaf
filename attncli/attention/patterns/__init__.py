"""Patterns as runs of keys: counts, pictures and path lengths of long sequences."""
