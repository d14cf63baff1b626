"""sockperf's output: the summary, with or without colour codes, and the log of observations."""

from collections.abc import Iterator

from tsnrepro.common.errors import ToolError
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import MappedTable
from tsnrepro.imports.plausibility import against_log
from tsnrepro.imports.readers.row import FileRows, Known, numbers_of, one_row, statistics
from tsnrepro.imports.screening import NoMeasurementError, error_in
from tsnrepro.records.columns import QUANTILES
from tsnrepro.tools import sockperf

_SUMMARY = "[Valid Duration]"
_ROUND_TRIP = "avg-rtt="
_NAMES = ["packet", "sent_s", "received_s", "latency_us"]


def read(file: SourceFile, _: MappedTable) -> FileRows:
    """Return the file's one test as a row of half round trips; ``--full-rtt`` is halved.

    Raises
    ------
    NoMeasurementError
        It is an error or usage message, has several tests, or a log that is truncated or
        contradicts its summary.
    """
    start = _log(file)
    if start is None:
        return one_row(_summary(file.tool_output()))
    counted = statistics(observations(file))
    head = file.head[: start[0]].decode("utf-8", "replace")
    if _SUMMARY not in head:
        return one_row(counted, has_observations=True)
    known = _summary(head)
    if problem := next(against_log(numbers_of(known), numbers_of(counted), {}), None):
        raise NoMeasurementError(problem)
    return one_row(known, has_observations=True)


def observations(file: SourceFile):
    """Return every half round trip of a full log in microseconds, in order, as an array.

    Raises
    ------
    NoMeasurementError
        It is not a full log of sockperf, or one of its rows is not an observation.
    """
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    start = _log(file)
    if start is None:
        raise NoMeasurementError("it is not a full log of sockperf")
    parts, count = [], 0
    for block in _bodies(file, start[0]):
        try:
            table = csv.read_csv(
                pa.BufferReader(block),
                csv.ReadOptions(column_names=_NAMES),
                csv.ParseOptions(quote_char=False),
                csv.ConvertOptions(
                    include_columns=_NAMES[-1:],
                    column_types={_NAMES[-1]: pa.float64()},
                    null_values=[],
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid as error:
            where = f"among observations {count} to {count + block.count(10) - 1}"
            raise NoMeasurementError(f"its log has an invalid row, {where}: {error}") from error
        parts.append(table[_NAMES[-1]].to_numpy())
        count += len(parts[-1])
    if not count:
        raise NoMeasurementError("its log has no observation")
    observed = np.concatenate(parts)
    return observed / 2 if start[1] else observed


def _log(file: SourceFile) -> tuple[int, bool] | None:
    """Return the offset of a full log's observations, and whether they are whole round trips."""
    found = sockperf.LOG_HEADER.search(file.head)
    if found is None and file.size > len(file.head):
        found = sockperf.LOG_HEADER.search(file.clean)
    return (found.end(), found[1] == b"rtt") if found else None


def _bodies(file: SourceFile, start: int) -> Iterator[bytes]:
    """Yield the lines of observations; a rule of dashes ends a complete log."""
    for block in file.blocks():
        body, start = block[start:], max(start - len(block), 0)
        # Searched for from the end, because a log is long.
        end = body.rfind(sockperf.LOG_RULE, max(len(body) - sockperf.LOG_TAIL_BYTES, 0)) + 1
        if not end and body.startswith(sockperf.LOG_RULE[1:]):
            return
        if body := body[:end] if end else body:
            yield body


def _summary(text: str) -> Known:
    if text.count("[Total Run]") > 1:
        raise NoMeasurementError("it has several tests", "", "Store one test per file")
    half = 0.5 if _ROUND_TRIP in text else 1
    try:
        result = sockperf.parse(text.replace(_ROUND_TRIP, "avg-latency="))
    except (ToolError, ValueError) as error:
        raise NoMeasurementError(error_in(text) or str(error)) from error
    quantiles = {
        column: result.percentiles_us[printed]
        for column, share in QUANTILES.items()
        if (printed := f"{100 * share:.3f}") in result.percentiles_us
    }
    latencies = {
        **{"mean_us": result.mean_us, "sd_us": result.sd_us, "min_us": result.min_us},
        **quantiles,
        "max_us": result.max_us,
    }
    return {
        "sent": result.sent,
        "received": result.received,
        "observations": result.observations,
        "valid_seconds": result.valid_seconds,
        **{name: half * value for name, value in latencies.items()},
    }
