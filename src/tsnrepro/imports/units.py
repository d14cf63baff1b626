"""Units of imported columns and their conversion factors."""

from fractions import Fraction
from functools import cache

from tsnrepro.common.errors import ConfigurationError

# Factors to bit/s, to a ratio, to seconds, to bytes, to one.
_RATE = {
    1: ("bit/s", "bits/s", "bits/sec", "b/s", "bps"),
    8: ("B/s", "byte/s", "bytes/s", "Bytes/sec"),
    10**3: ("kbit/s", "kbits/s", "Kbits/sec", "kb/s", "kbps", "Kbps"),
    10**6: ("Mbit/s", "Mbits/s", "Mbits/sec", "Mb/s", "Mbps", "mbps"),
    10**9: ("Gbit/s", "Gbits/s", "Gbits/sec", "Gb/s", "Gbps", "gbps"),
    10**12: ("Tbit/s", "Tbits/sec", "Tb/s", "Tbps"),
    2**10: ("Kibit/s",),
    2**20: ("Mibit/s",),
    2**30: ("Gibit/s",),
    8 * 10**3: ("kB/s",),
    8 * 10**6: ("MB/s",),
    8 * 10**9: ("GB/s",),
    # iperf3 counts bytes in powers of two where it counts bits in powers of ten.
    8 * 2**10: ("KBytes/sec", "KiB/s"),
    8 * 2**20: ("MBytes/sec", "MiB/s"),
    8 * 2**30: ("GBytes/sec", "GiB/s"),
    8 * 2**40: ("TBytes/sec",),
}
_SHARE = {
    1: ("ratio", "1"),
    Fraction(1, 100): ("percent", "%"),
    Fraction(1, 10**6): ("ppm",),
}
_TIME = {
    Fraction(1, 10**12): ("ps",),
    Fraction(1, 10**9): ("ns", "nsec"),
    Fraction(1, 10**6): ("us", "µs", "μs", "usec"),
    Fraction(1, 10**3): ("ms", "msec"),
    1: ("s", "sec"),
    60: ("min",),
}
_SIZE = {1: ("bytes", "byte", "B"), Fraction(1, 8): ("bits", "bit"), 10**3: ("kB",)}
_COUNT = {1: ("count", "1"), 10**3: ("thousand",), 10**6: ("million",)}

_TABLES = {"rate": _RATE, "share": _SHARE, "time": _TIME, "size": _SIZE, "count": _COUNT}

FACTORS: dict[str, dict[str, Fraction]] = {
    quantity: {name: Fraction(factor) for factor, names in table.items() for name in names}
    for quantity, table in _TABLES.items()
}


@cache
def factor(quantity: str, unit: str, target: str) -> Fraction:
    """Return the exact factor from ``unit`` to the unit ``target``.

    Raises
    ------
    ConfigurationError
        The quantity has no such unit. Capitals count: Mb/s are bits, MB/s are bytes.
    """
    units = FACTORS[quantity]
    if unit not in units:
        raise ConfigurationError(
            f"'{unit}' is not a unit of a {quantity}", "", f"There are: {', '.join(units)}"
        )
    return units[unit] / units[target]


def scaled(number: int | float, by: Fraction) -> int | float:
    """Return a number times an exact factor, rounded at most twice."""
    above, below = by.numerator, by.denominator
    if below == 1:
        return number if above == 1 else number * above
    return number / below if above == 1 else number * above / below
