"""Half round trips of one request at a time: what every back end returns of them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tsnrepro.tools.sockperf import SockperfResult


@dataclass(frozen=True)
class RoundTrips:
    """Half round trips in microseconds, in order; what sockperf reports of them; and recovery."""

    half_us: npt.NDArray[np.float64] = field(repr=False)
    report: SockperfResult
    recovery: dict[str, Any] | None
