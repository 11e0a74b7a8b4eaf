"""One row of attention, step by step."""
