"""Foreign data: what others measured, read through a mapping file into the raw store."""
