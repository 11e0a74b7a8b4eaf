"""Heads that link one word to another."""
