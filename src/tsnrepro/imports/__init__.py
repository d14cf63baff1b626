"""Imports: third-party data sets, read through a mapping into the raw store."""
