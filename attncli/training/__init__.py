"""Trains the small models that attncli ships: ``python -m attncli.training NAME``."""
