"""The maths of attention, from scratch in plain torch."""
