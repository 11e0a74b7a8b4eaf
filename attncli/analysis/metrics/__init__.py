"""Head metrics, one file each, with an `ENTRY`."""
