"""Where attention comes from. A file with an `ENTRY` makes something that follows `record.Source`."""
