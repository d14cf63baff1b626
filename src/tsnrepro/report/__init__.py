"""The report of a selection, and its deposit."""
