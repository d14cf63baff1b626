"""Jobs: the topology and commands of a trial as data, run in a guest, locally, or over SSH."""
