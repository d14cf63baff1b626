"""What is no measurement: errors, usage texts, empty tables, and numbers that nobody measured."""

import math
import re
from collections.abc import Iterable, Sequence

from tsnrepro.errors import TsnreproError
from tsnrepro.records.foreign.fields import STATISTICS


class NoMeasurementError(TsnreproError):
    """A file that holds no measurement; ``what`` says why."""


# Only the beginning says what a file is; a log of a gigabyte is not searched for words.
HEAD_BYTES = 65536
SHOWN = 160

_USAGE = re.compile(r"^[ \t]*usage:?[ \t]+\S", re.IGNORECASE | re.MULTILINE)
_ERROR = re.compile(
    r"^.*(?:\berror\b|command not found|no such (?:file|device)|permission denied"
    r"|connection (?:refused|timed out|reset)|unable to connect|network is unreachable"
    r"|traceback \(most recent call last\)|segmentation fault|no messages were received"
    r"|unrecognized option|invalid option).*$",
    re.IGNORECASE | re.MULTILINE,
)
_MARKUP = re.compile(rb"^\s*<(?:!doctype html|html)", re.IGNORECASE)
_POINTER = b"version https://git-lfs.github.com/spec/"
_NEGATED = re.compile(r'"[\w ]+"\s*:\s*(?:false|null|0)\b|\bnot (?:synthetic|simulated)\b')
_GENERATED = re.compile(
    r'"(?:is_)?(?:generated|synthetic|simulated|mock|fake)"\s*:\s*(?:true|1|"(?:true|yes)")'
    r"|\b(?:synthetic|synthesi[sz]ed|simulated|randomly generated|made-up|fabricated"
    r"|generated (?:data|sample|values?|numbers?)|mock(?:ed)? data|dummy (?:data|values?)"
    r"|placeholder (?:data|values?))\b",
    re.IGNORECASE,
)
_STEMS = (
    "synthe",
    "simulat",
    "generated",
    "made-up",
    "fabricat",
    "mock",
    "fake",
    "dummy",
    "placeho",
)
_COUNTS = ("sent", "received", "observations")
_RESULTS = ("offered_mbps", "delivered_mbps", "goodput_mbps", "sent_mbps", *STATISTICS)
# Measured ratios of a mean to an extreme vary by percents from row to row.
CONSTANT_RATIO_SPREAD = 1e-3
ROWS_FOR_A_RATIO = 3


def refuse_empty(data: bytes) -> None:
    """Raise for a file whose bytes are no data at all.

    Raises
    ------
    NoMeasurementError
        It is empty, holds only NUL bytes or white space, is a page of a web server, or stands for
        a file that was not fetched.
    """
    if not data.strip(b"\0 \t\r\n"):
        raise NoMeasurementError("it is empty" if not data else "it holds only NUL and white space")
    if data.startswith(_POINTER):
        raise NoMeasurementError(
            "it is a Git LFS pointer, not the file", "", "Fetch the file: git lfs pull"
        )
    if _MARKUP.match(data[:HEAD_BYTES]):
        raise NoMeasurementError("it is an HTML page")


def complaint(text: str) -> str | None:
    """Return what a text says that is an error message or a usage text, else None."""
    head = text[:HEAD_BYTES]
    if match := _ERROR.search(head):
        return f"it is an error message: {match.group().strip()[:SHOWN]}"
    if _USAGE.search(head):
        return "it is a usage text"
    return None


def says_generated(text: str) -> str | None:
    """Return the words by which a file says that its numbers are not measured, else None."""
    head = text[:HEAD_BYTES].lower()
    # Few files have any of these letters, and finding none is quicker than matching words.
    if not any(letters in head for letters in _STEMS):
        return None
    match = _GENERATED.search(_NEGATED.sub("", head))
    return match.group() if match else None


def zeros_against_counts(rows: Sequence[dict[str, float]]) -> str | None:
    """Return what contradicts itself in rows whose rates and times are all zero, else None.

    A row maps our fields to numbers.
    """
    results = [row[name] for row in rows for name in row if name in _RESULTS]
    if not results or any(results):
        return None
    total = {name: sum(row.get(name, 0) for row in rows) for name in _COUNTS}
    counted = [f"{name} {number:g}" for name, number in total.items() if number]
    said = f", although it counts {', '.join(counted)}" if counted else ""
    return f"every rate and time in it is zero{said}"


def constant_ratios(rows: Iterable[dict[str, float]]) -> list[str]:
    """Return the statistics that are one and the same multiple of the mean in every row.

    So are placeholders (half of it, twice it, a tenth of it); an extreme, a quantile or a standard
    deviation that was measured is not.
    """
    found = []
    complete = [row for row in rows if row.get("mean_us")]
    for name in STATISTICS[1:]:
        ratios = [row[name] / row["mean_us"] for row in complete if name in row]
        means = {row["mean_us"] for row in complete if name in row}
        if len(ratios) < ROWS_FOR_A_RATIO or len(means) < ROWS_FOR_A_RATIO:
            continue
        middle = sum(ratios) / len(ratios)
        spread = math.sqrt(sum((r - middle) ** 2 for r in ratios) / (len(ratios) - 1))
        if spread < CONSTANT_RATIO_SPREAD * max(middle, 1e-12):
            found.append(f"{name} is {middle:.4g} x mean_us in all {len(ratios)} rows")
    return found
