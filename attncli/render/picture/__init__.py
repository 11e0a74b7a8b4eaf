"""What pictures share."""
