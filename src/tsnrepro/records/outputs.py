"""Names that outputs have in the records of trials, for those who write and who read them."""

ARRIVALS = "arrivals.parquet"
"""A listener's record of every datagram; see :func:`tsnrepro.native.streams.log.compress`."""
SOCKPERF_LOG = "sockperf-log.csv.gz"
"""Every half round trip, as sockperf logs it."""
HALF_ROUND_TRIPS = "half-round-trips-ps.npy.gz"
"""The model's: whole picoseconds, as numpy saves them."""
COUNTERS_BEFORE, COUNTERS_AFTER = "counters-before.json.gz", "counters-after.json.gz"
"""What the tools printed on every host."""
QUEUE_DEPTH = "queue-depth.csv.gz"
"""The model's: how full a queue was at most in each of many spans of time."""


def arrivals_of(stream: int) -> str:
    """Return the name of a listener's record of one of several streams."""
    return f"arrivals-{stream:02d}.parquet"
