"""Columns of the tables of trials: quantity, unit and limits of each.

The schemas of measured and of imported trials, and the fields that an import's mapping may have,
are made from this list.
"""

import math
import re
from dataclasses import dataclass

EXPERIMENTS = ("loss", "tcp", "latency")
"""Experiments with a table of their own; imports are of these."""
LINK_RATES = ("link_rate_mbps", "member_link_rate_mbps")
"""Link rates that a trial may set where the testbed's links can be given a rate."""


@dataclass(frozen=True)
class Column:
    """A column: its quantity, its unit and its admissible numbers."""

    quantity: str
    """A quantity of :mod:`tsnrepro.imports.units`, or ``text``, or ``timestamp``."""
    unit: str = ""
    integer: bool = False
    above: float | None = None
    """Exclusive lower limit."""
    minimum: float | None = None
    maximum: float | None = None
    measured: bool = True
    """Whether measured trials have the column, and not only imported ones."""

    def problem_of(self, number: float) -> str | None:
        """Return why a number is not admissible, or None."""
        if not _is_finite(number):
            return "it is not a finite number"
        if self.above is not None and not number > self.above:
            return f"{number:g} is not above {self.above:g}"
        if self.minimum is not None and not number >= self.minimum:
            return f"{number:g} is below {self.minimum:g}"
        if self.maximum is not None and not number <= self.maximum:
            return f"{number:g} is above {self.maximum:g}"
        if self.integer and not float(number).is_integer():
            return f"{number!r} is not an integer"
        return None


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # JSON sets no limit to an integer
        return False


QUANTILES = {
    **{"p25_us": 0.25, "p50_us": 0.5, "p75_us": 0.75, "p90_us": 0.9, "p95_us": 0.95},
    **{"p99_us": 0.99, "p99_9_us": 0.999, "p99_99_us": 0.9999, "p99_999_us": 0.99999},
}
"""Quantiles of latencies by column; measured trials have those that sockperf prints, to P99.9."""
STATISTICS = ("mean_us", "sd_us", "min_us", *QUANTILES, "max_us")
"""Columns of the experiment ``latency`` that are statistics of its observations."""

_RATE = Column("rate", "Mb/s", above=0)
_SECONDS = Column("time", "s", above=0)
_COUNT = Column("count", "count", integer=True, minimum=0)
_NUMBER = Column("count", "count", integer=True, above=0)
# Not every load generator needs room for a sequence number; iperf3 does, see tables.py.
_PAYLOAD = Column("size", "bytes", integer=True, minimum=1, maximum=65507)
_COMMON = {
    "repetition": _NUMBER,
    "order": _COUNT,
    "configuration": Column("text"),
    "duration_s": _SECONDS,
    "started": Column("timestamp"),
}
_IMPORTED_QUANTILES = ("p95_us", "p99_99_us", "p99_999_us")

COLUMNS: dict[str, dict[str, Column]] = {
    "loss": {
        **_COMMON,
        "payload_bytes": _PAYLOAD,
        "target_mbps": _RATE,
        "offered_mbps": _RATE,
        "delivered_mbps": Column("rate", "Mb/s", minimum=0),
        "send_seconds": _SECONDS,
        "sent": _NUMBER,
        "received": _COUNT,
        "lost": _COUNT,
        "out_of_order": _COUNT,
        "loss_percent": Column("share", "percent", minimum=0, maximum=100),
        "copies": _COUNT,
        "eliminated": _COUNT,
        "unaccounted": Column("count", "count", integer=True),
    },
    "tcp": {
        **_COMMON,
        "seconds": _SECONDS,
        "goodput_mbps": _RATE,
        "sent_mbps": _RATE,
        "retransmits": _COUNT,
    },
    "latency": {
        **_COMMON,
        "payload_bytes": _PAYLOAD,
        "observations": _NUMBER,
        "sent": _COUNT,
        "received": _COUNT,
        "valid_seconds": _SECONDS,
        **{
            name: Column("time", "us", above=0, measured=name not in _IMPORTED_QUANTILES)
            for name in STATISTICS
        },
        "sd_us": Column("time", "us", minimum=0),
    },
}
_DROP = re.compile(r"drop_[a-z0-9_]+")


def column_of(experiment: str, name: str) -> Column | None:
    """Return a column of an experiment's table, or None if there is none of this name."""
    if experiment == "loss" and _DROP.fullmatch(name):
        return _COUNT
    return COLUMNS[experiment].get(name)
