"""Round trips beside a load: what every kind of testbed returns of them."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

# What a record keeps every observation in.
LOG = "sockperf-log.csv.gz"
# Of the model: whole picoseconds, as numpy saves them.
HALF_ROUND_TRIPS = "half-round-trips-ps.npy.gz"
# Long enough to tell how fast one request follows another.
SHORT_SECONDS = 1.0


@dataclass(frozen=True)
class RoundTrips:
    """Half round trips in microseconds, in order, and the time in which they were taken."""

    half_us: npt.NDArray[np.float64] = field(repr=False)
    seconds: float
