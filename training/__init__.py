"""Trains the small models that attncli ships: ``python -m training NAME``."""
