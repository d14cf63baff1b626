"""Jobs: all that some hosts shall do, as data, and how it runs: in a guest, here, or over SSH."""
