"""What of a run's values cannot be: beyond its own limits, or beyond what its unit allows.

python tests/printed_values.py results       every values.json below a folder
"""

import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tsnrepro.records.values import VALUES_FILE, Result, load_file
from tsnrepro.results.runs import bare

# Quantities that are never below zero, by unit.
_NOT_NEGATIVE = {"us", "µs", "ms", "s", "h", "Mb/s", "frames/s", "1/s", "B", "bytes", "MB", "kB"}
# Percentages that are no shares of a whole; a rate during a fault is of that before.
_NO_SHARE = {"difference", "error", "margin", "variation", "overhead", "power", "target", "gain"}
_NO_SHARE |= {"during"}
# A rate of a short trial over a token bucket exceeds the line's by its burst.
_MOST_PERCENT = 101.0
_ROUNDING = 1e-9


def implausible(path: Path) -> list[str]:
    """Return what cannot be of the values in a file, each with its key."""
    return [f"{item.key}: {why}" for item in load_file(path).values() for why in _wrong(item)]


def _wrong(item: Result) -> Iterator[str]:
    if not item.is_number and item.low is None and item.high is None:
        return
    words = set(re.split(r"[._]", item.key))
    numbers = [n for n in (item.value, item.low, item.high) if isinstance(n, int | float)]
    if item.is_number:
        yield from _beside_its_limits(item)
    if item.low is not None and item.low == item.high:
        yield f"limits without width, {item.low}"
    if item.unit in _NOT_NEGATIVE and "difference" not in words and min(numbers) < 0:
        yield f"{min(numbers)} {item.unit}"
    share = item.unit == "%" and not words & _NO_SHARE
    if share and not all(0 <= number <= _MOST_PERCENT for number in numbers):
        yield f"no share of a whole: {numbers} %"
    if item.key.endswith((".p", ".p_value")) and not all(0 <= number <= 1 for number in numbers):
        yield f"no probability: {numbers}"
    yield from _printed(item)


def _beside_its_limits(item: Result) -> Iterator[str]:
    value = float(item.value)
    slack = _ROUNDING * abs(value)
    low = -math.inf if item.low is None else item.low
    high = math.inf if item.high is None else item.high
    if not low - slack <= value <= high + slack:
        yield f"{value} outside its limits {low} to {high}"
    if item.key.endswith(".count"):
        # A mean of counts says over which runs it is one.
        if item.method == "count" and (value < 0 or not value.is_integer()):
            yield f"a count of {value}"
        if value < 0:
            yield f"a negative count, {value}"
    degenerate = any(math.isclose(value, 100 * math.sqrt(n), rel_tol=1e-6) for n in range(2, 40))
    if "variation" in item.key.split(".") and item.unit == "%" and degenerate:
        yield f"{value} %, the variation of a single run that is not zero"


def _printed(item: Result) -> Iterator[str]:
    text = bare(item)
    if re.search(r"[-−]0(\.0+)?(?![\d.])", text):
        yield f"prints as {text}"
    if match := re.search(r"\[(.+), (.+)\]|\((.+) … (.+)\)", text):
        low, high = [group for group in match.groups() if group is not None]
        if low == high and text.startswith(low) and "<" not in low:
            yield f"prints as {text}"


def main() -> int:
    problems = 0
    for folder in sys.argv[1:]:
        for path in sorted(Path(folder).rglob(VALUES_FILE)):
            for text in implausible(path):
                problems += 1
                print(f"{path}: {text}")
    print(f"{problems} implausible values")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
