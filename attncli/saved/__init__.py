"""A saved run, read back into the view it was written from: the way from bytes to a picture without any model."""
