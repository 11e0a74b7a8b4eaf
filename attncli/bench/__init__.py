"""Measures what attention costs."""
