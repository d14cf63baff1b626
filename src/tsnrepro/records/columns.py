"""Columns of the tables of trials: their quantity, our unit, their limits, and who has them.

The schemas of our own trials and of imported ones, and what a mapping of an import may fill, are
made from this one list.
"""

import math
import re
from dataclasses import dataclass

EXPERIMENTS = ("loss", "tcp", "latency")
"""Experiments with a table of their own; imports are of these."""
LINK_RATES = ("link_rate_mbps", "member_link_rate_mbps")
"""Link rates that a trial may have of its own where a testbed's links can be given a rate."""


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: its quantity, its unit, and which numbers it admits."""

    quantity: str
    """A quantity of :mod:`tsnrepro.imports.units`, or ``word``, or ``moment``."""
    unit: str = ""
    whole: bool = False
    above: float | None = None
    """The number has to be greater than this."""
    least: float | None = None
    most: float | None = None
    own: bool = True
    """Whether our own trials have it, and not only imported ones."""

    def trouble(self, number: float) -> str | None:
        """Return what is wrong with a number, in words, or None."""
        if not _is_finite(number):
            return "it is no finite number"
        if self.above is not None and not number > self.above:
            return f"{number:g} is not above {self.above:g}"
        if self.least is not None and not number >= self.least:
            return f"{number:g} is below {self.least:g}"
        if self.most is not None and not number <= self.most:
            return f"{number:g} is above {self.most:g}"
        if self.whole and not float(number).is_integer():
            return f"{number!r} is not a whole number"
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
"""Quantiles of latencies by column; our own trials have those that sockperf prints, to P99.9."""
STATISTICS = ("mean_us", "sd_us", "min_us", *QUANTILES, "max_us")
"""Columns of the experiment ``latency`` that come from the same observations."""

_RATE = NumberColumn("rate", "Mb/s", above=0)
_SECONDS = NumberColumn("time", "s", above=0)
_COUNT = NumberColumn("count", "count", whole=True, least=0)
_NUMBER = NumberColumn("count", "count", whole=True, above=0)
# Not every generator of load needs room for a sequence number; ours do, see tables.py.
_PAYLOAD = NumberColumn("size", "bytes", whole=True, least=1, most=65507)
_COMMON = {
    "repetition": _NUMBER,
    "order": _COUNT,
    "configuration": NumberColumn("word"),
    "duration_s": _SECONDS,
    "started": NumberColumn("moment"),
}
_IMPORTED_QUANTILES = ("p95_us", "p99_99_us", "p99_999_us")

COLUMNS: dict[str, dict[str, NumberColumn]] = {
    "loss": {
        **_COMMON,
        "payload_bytes": _PAYLOAD,
        "target_mbps": _RATE,
        "offered_mbps": _RATE,
        "delivered_mbps": NumberColumn("rate", "Mb/s", least=0),
        "send_seconds": _SECONDS,
        "sent": _NUMBER,
        "received": _COUNT,
        "lost": _COUNT,
        "out_of_order": _COUNT,
        "loss_percent": NumberColumn("share", "percent", least=0, most=100),
        "copies": _COUNT,
        "eliminated": _COUNT,
        "unaccounted": NumberColumn("count", "count", whole=True),
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
            name: NumberColumn("time", "us", above=0, own=name not in _IMPORTED_QUANTILES)
            for name in STATISTICS
        },
        "sd_us": NumberColumn("time", "us", least=0),
    },
}
_DROP = re.compile(r"drop_[a-z0-9_]+")


def column_of(experiment: str, name: str) -> NumberColumn | None:
    """Return a column of an experiment's table, or None where it has none of this name."""
    if experiment == "loss" and _DROP.fullmatch(name):
        return _COUNT
    return COLUMNS[experiment].get(name)
