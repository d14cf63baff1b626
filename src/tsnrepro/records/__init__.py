"""Records: what was measured, kept whole, and read back as typed tables."""
