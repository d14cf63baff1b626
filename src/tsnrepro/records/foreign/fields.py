"""Our fields of a trial, by experiment: what a mapping may fill, its quantity and its limits."""

import re
from dataclasses import dataclass

EXPERIMENTS = ("sweep", "tcp", "latency")


@dataclass(frozen=True)
class Field:
    """One field: its quantity, the unit of our column, and which numbers it admits."""

    quantity: str
    """``word``, ``moment``, or a quantity of :mod:`tsnrepro.records.foreign.units`."""
    unit: str = ""
    whole: bool = False
    above: float | None = None
    """The number has to be greater than this."""
    least: float | None = None
    most: float | None = None

    def trouble(self, number: float) -> str | None:
        """Return what is wrong with a number, in words, or None."""
        if self.above is not None and not number > self.above:
            return f"{number:g} is not above {self.above:g}"
        if self.least is not None and not number >= self.least:
            return f"{number:g} is below {self.least:g}"
        if self.most is not None and not number <= self.most:
            return f"{number:g} is above {self.most:g}"
        if self.whole and number != int(number):
            return f"{number!r} is no whole number"
        return None


_RATE = Field("rate", "Mb/s", above=0)
_SECONDS = Field("time", "s", above=0)
_MICROSECONDS = Field("time", "us", above=0)
_COUNT = Field("count", "count", whole=True, least=0)
_PAYLOAD = Field("size", "bytes", whole=True, least=1, most=65507)

_OF_ALL = {
    "configuration": Field("word"),
    "duration_s": _SECONDS,
    "repetition": Field("count", "count", whole=True, least=1),
    "order": _COUNT,
    "started": Field("moment"),
}
_LATENCIES = ("mean", "min", "p25", "p50", "p75", "p90", "p99", "p99_9", "p99_99", "p99_999", "max")

FIELDS: dict[str, dict[str, Field]] = {
    "sweep": {
        **_OF_ALL,
        "payload_bytes": _PAYLOAD,
        "target_mbps": _RATE,
        "offered_mbps": _RATE,
        "delivered_mbps": Field("rate", "Mb/s", least=0),
        "send_seconds": _SECONDS,
        "sent": Field("count", "count", whole=True, above=0),
        "received": _COUNT,
        "lost": _COUNT,
        "out_of_order": _COUNT,
        "loss_percent": Field("share", "percent", least=0, most=100),
        "copies": _COUNT,
        "eliminated": _COUNT,
        "unaccounted": Field("count", "count", whole=True),
    },
    "tcp": {
        **_OF_ALL,
        "seconds": _SECONDS,
        "goodput_mbps": _RATE,
        "sent_mbps": _RATE,
        "retransmits": _COUNT,
    },
    "latency": {
        **_OF_ALL,
        "payload_bytes": _PAYLOAD,
        "observations": Field("count", "count", whole=True, above=0),
        "sent": _COUNT,
        "received": _COUNT,
        "valid_seconds": _SECONDS,
        "sd_us": Field("time", "us", least=0),
        **{f"{name}_us": _MICROSECONDS for name in _LATENCIES},
    },
}
_DROP = re.compile(r"drop_[a-z0-9_]+")

FACTORS = ("configuration", "payload_bytes", "target_mbps", "duration_s")
"""Fields that say what was measured; the others, but for those below, what came out."""
NUMBERING = ("repetition", "order", "started")
NEEDED = {"sweep": ("configuration", "payload_bytes"), "tcp": ("configuration",)} | {
    "latency": ("configuration", "payload_bytes")
}
STATISTICS = tuple(f"{name}_us" for name in ("mean", "sd", *_LATENCIES[1:]))
"""Numbers of the experiment ``latency`` that come from the same observations."""


def field_of(experiment: str, name: str) -> Field | None:
    """Return a field of an experiment by the name of our column, or None."""
    if experiment == "sweep" and _DROP.fullmatch(name):
        return _COUNT
    return FIELDS[experiment].get(name)


def names_of(experiment: str) -> list[str]:
    """Return the names of an experiment's fields, for messages."""
    return [*FIELDS[experiment], *(["drop_<place>"] if experiment == "sweep" else [])]
