"""Two runs side by side: how far apart the same heads are, and where."""
