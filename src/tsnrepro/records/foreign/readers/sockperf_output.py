"""sockperf's output: the summary, with or without colour codes, and the log of all observations."""

from typing import TYPE_CHECKING

from tsnrepro.errors import ToolError
from tsnrepro.records.foreign.readers.row import Known, Reading, Row
from tsnrepro.records.foreign.refusal import NoMeasurementError, complaint
from tsnrepro.tools import sockperf

if TYPE_CHECKING:
    import numpy as np

_SUMMARY = b"[Valid Duration]"
_ROUND_TRIP = "avg-rtt="


def read(data: bytes) -> tuple[Reading, "np.ndarray | None"]:
    """Return the file's one test as a row, and its observations where the file holds them.

    Latencies are half round trips in microseconds; what ``--full-rtt`` printed is halved.

    Raises
    ------
    NoMeasurementError
        It is an error or a usage text, holds several tests, or a log that breaks off.
    """
    start = sockperf.log_start(data)
    head = data if start < 0 else data[:start]
    observations = None if start < 0 else _observations(data)
    if _SUMMARY in head or observations is None:
        known = _summary(head.decode("utf-8", "replace"))
        if observations is not None and len(observations) != known["observations"]:
            raise NoMeasurementError(
                f"its log holds {len(observations)} of {known['observations']} observations"
            )
    else:
        from tsnrepro.records.foreign.observations import statistics  # noqa: PLC0415 - numpy

        known = statistics(observations)
    return Reading([Row("", dict(known), known)]), observations


def _observations(data: bytes) -> "np.ndarray":
    try:
        return sockperf.parse_log(data)["half_round_trip_us"].to_numpy()
    except ToolError as error:
        raise NoMeasurementError(error.what) from error


def _summary(text: str) -> Known:
    if text.count("[Total Run]") > 1:
        raise NoMeasurementError("it holds several tests", "", "Store one test a file")
    halve = _ROUND_TRIP in text
    try:
        result = sockperf.parse(text.replace(_ROUND_TRIP, "avg-latency="))
    except ToolError as error:
        raise NoMeasurementError(complaint(text) or error.what) from error
    latencies = {
        "mean_us": result.mean_us,
        "sd_us": result.sd_us,
        "min_us": result.min_us,
        "max_us": result.max_us,
        **{_column(printed): value for printed, value in result.percentiles_us.items()},
    }
    return {
        "sent": result.sent,
        "received": result.received,
        "observations": result.observations,
        "valid_seconds": result.valid_seconds,
        **{name: value / 2 if halve else value for name, value in latencies.items()},
    }


def _column(printed: str) -> str:
    """Return our column of a percentile as sockperf prints it: ``99.900`` is ``p99_9_us``."""
    digits = printed.rstrip("0").rstrip(".") if "." in printed else printed
    return f"p{digits.replace('.', '_')}_us"
