"""sockperf's output: the summary, with or without colour codes, and the log of observations."""

import re
from collections.abc import Iterator

from tsnrepro.common.errors import ToolError
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import MappedTable
from tsnrepro.imports.plausibility import against_log
from tsnrepro.imports.readers.row import FileRows, Known, numbers_of, one_row, statistics
from tsnrepro.imports.screening import NoMeasurementError, why_not_output_of
from tsnrepro.records.columns import QUANTILES
from tsnrepro.tools import sockperf

_COLUMN = b"txTime"
# Columns have a blank behind their commas.
_DECIMAL_COMMA = re.compile(rb"\d,\d")
_SUMMARY = "[Valid Duration]"


def read(file: SourceFile, _: MappedTable) -> FileRows:
    """Return the file's one test as a row of half round trips; ``--full-rtt`` is halved.

    Raises
    ------
    NoMeasurementError
        It is an error or usage message, has several tests, or a log that is truncated or
        contradicts its summary.
    """
    header = _log(file)
    if header is None:
        return one_row(_summary(file.tool_output()))
    head = file.head[: header.start()].decode("utf-8", "replace")
    counted, parameters = statistics(observations(file)), _parameters(head)
    if _SUMMARY not in head:
        return one_row(parameters | counted, has_observations=True)
    known = parameters | _summary(head)
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

    header = _log(file)
    if header is None:
        raise NoMeasurementError("it is not a full log of sockperf")
    parts, count, others = [], 0, []
    blocks = _watched(_behind(file, header.end()), others)
    for rows in sockperf.observed_rows(blocks):
        if not rows.endswith((b"\n", b"\r")):
            raise NoMeasurementError("the last row of its log is broken off")
        try:
            parts += sockperf.log_columns(rows, header)
        except ToolError as error:
            if _DECIMAL_COMMA.search(rows):
                raise NoMeasurementError("its numbers have a decimal comma") from error
            where = f"among observations {count} to {count + rows.count(10) - 1}"
            raise NoMeasurementError(f"{error.what}, {where}") from error
        count += len(parts[-1])
    others += [block for block in blocks if _COLUMN in block]
    if others:
        raise NoMeasurementError("it has several logs", "", "Store one test per file")
    if not count:
        raise NoMeasurementError("its log has no observation")
    return np.concatenate(parts)


def _parameters(head: str) -> Known:
    try:
        payload = sockperf.payload_bytes(head)
    except ToolError as error:
        raise NoMeasurementError(error.what, "", error.remedy) from error
    return {} if payload is None else {"payload_bytes": payload}


def _log(file: SourceFile) -> re.Match[bytes] | None:
    """Return the header line of a full log."""
    found = sockperf.LOG_HEADER.search(file.head)
    if found is None and file.size > len(file.head):
        found = sockperf.LOG_HEADER.search(file.clean)
    return found


def _watched(blocks: Iterator[bytes], others: list[bytes]) -> Iterator[bytes]:
    """Yield blocks, and collect those with the header of another log."""
    for block in blocks:
        others += [block] if _COLUMN in block else []
        yield block


def _behind(file: SourceFile, start: int) -> Iterator[bytes]:
    """Yield the file's content from an offset, as blocks of whole lines."""
    for block in file.blocks():
        yield block[start:]
        start = max(start - len(block), 0)


def _summary(text: str) -> Known:
    if text.count("[Total Run]") > 1:
        raise NoMeasurementError("it has several tests", "", "Store one test per file")
    try:
        result = sockperf.parse(text)
    except (ToolError, ValueError) as error:
        raise NoMeasurementError(why_not_output_of("sockperf", text) or str(error)) from error
    quantiles = {
        column: result.percentiles_us[printed]
        for column, share in QUANTILES.items()
        if (printed := f"{100 * share:.3f}") in result.percentiles_us
    }
    return {
        "sent": result.sent,
        "received": result.received,
        "observations": result.observations,
        "valid_seconds": result.valid_seconds,
        **{"mean_us": result.mean_us, "sd_us": result.sd_us, "min_us": result.min_us},
        **quantiles,
        "max_us": result.max_us,
    }
