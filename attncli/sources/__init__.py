"""Where attention comes from. A source's file has an `ENTRY` and makes something that follows `record.Source`."""
