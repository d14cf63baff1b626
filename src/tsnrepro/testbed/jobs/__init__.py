"""Jobs: all that some hosts shall do, as data, and how it runs in a guest or on this machine."""
