"""Readers of the formats of imported files: one module per format."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsnrepro.common.errors import RecordError
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import MappedTable, Times
from tsnrepro.imports.readers.row import FileRows, one_row, statistics

if TYPE_CHECKING:
    import numpy as np

_MODULES = {
    "csv": "csv",
    "json": "json_records",
    "iperf3": "iperf3",
    "mausezahn": "mausezahn",
    "sockperf": "sockperf",
}


def read_rows(file: SourceFile, table: MappedTable) -> FileRows:
    """Return the rows of a file, by the reader of the table's format.

    Raises
    ------
    NoMeasurementError, RecordError
        As the reader.
    """
    if table.times is None:
        # Most imports need neither NumPy nor pyarrow.
        reader = import_module(f"tsnrepro.imports.readers.{_MODULES[table.format]}")
        return reader.read(file, table)
    from tsnrepro.imports.readers import packet_times  # noqa: PLC0415

    found = packet_times.read(file, table.times, table.row_range)
    known = statistics(found.latencies_us) | {"sent": found.sent, "received": found.received}
    if found.span_s > 0:
        known["valid_seconds"] = found.span_s
    skipped = {"skipped": found.skipped, "skipped_rows": found.skipped_rows}
    return one_row(known, has_observations=True, **skipped)


def read_observations(file: SourceFile, source: dict[str, Any]) -> "np.ndarray":
    """Return the latencies of a file in microseconds, in order, shape (observations,).

    Parameters
    ----------
    file
        The original.
    source
        ``format``; for times their columns and ``row_range``; ``halve`` if the file has round trips
        and the trial half round trips.

    Raises
    ------
    NoMeasurementError, RecordError
        As the reader.
    """
    from tsnrepro.imports.readers import packet_times, sockperf  # noqa: PLC0415

    if source["format"] == "sockperf":
        return sockperf.observations(file)
    times = Times.model_validate(source["times"])
    found = packet_times.read(file, times, source.get("row_range")).latencies_us
    return found / 2 if source.get("halve") else found


def recorded_observations(testbed_folder: Path, document: dict[str, Any]) -> "np.ndarray":
    """Return all observations of an imported trial; none if the data set has only statistics.

    Raises
    ------
    RecordError
        The original file is missing or was altered.
    """
    import numpy as np  # noqa: PLC0415

    source = document["source"].get("observations")
    if source is None:
        return np.empty(0)
    path = testbed_folder / source["original"]
    if not path.is_file():
        raise RecordError(
            "the original file of a trial is missing", str(path), "Import the data set again"
        )
    file = SourceFile(path, source["file"])
    if file.sha256 != source["sha256"]:
        raise RecordError(
            "the file does not match its checksum: it was altered",
            str(path),
            "Remove it and import the data set again",
        )
    return read_observations(file, source)
