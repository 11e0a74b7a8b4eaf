"""What formats for a terminal share."""
