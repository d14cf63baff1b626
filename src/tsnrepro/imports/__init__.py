"""Data sets of others: what they measured, read through a mapping into the raw store."""
