"""Readers: one module a kind of file, each from bytes to rows."""
