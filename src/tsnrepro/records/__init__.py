"""Records: the raw store of trials, their accounting and their typed tables."""
