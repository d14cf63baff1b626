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

    from tsnrepro.imports.readers.packet_times import PacketTimes

_MODULES = {
    "csv": "csv",
    "json": "json_records",
    "iperf3": "iperf3",
    "mausezahn": "mausezahn",
    "sockperf": "sockperf",
}


def read_rows(file: SourceFile, table: MappedTable, listener: SourceFile | None = None) -> FileRows:
    """Return the rows of a file, by the reader of the table's format.

    ``listener`` has the times of receipt, if the file has only those of sending.

    Raises
    ------
    NoMeasurementError, RecordError
        As the reader.
    """
    if table.times is None:
        # Most imports need neither NumPy nor pyarrow.
        reader = import_module(f"tsnrepro.imports.readers.{_MODULES[table.format]}")
        return reader.read(file, table)
    found = _packet_times(file, table.times, table.row_range, listener)
    known = statistics(found.latencies_us) | {"sent": found.sent, "received": found.received}
    if found.span_s > 0:
        known["valid_seconds"] = found.span_s
    skipped = {"skipped": found.skipped, "skipped_rows": found.skipped_rows}
    return one_row(known, has_observations=True, **skipped)


def _packet_times(
    file: SourceFile,
    times: Times,
    row_range: tuple[int, int] | None,
    listener: SourceFile | None,
) -> "PacketTimes":
    from tsnrepro.imports.readers import joined_times, packet_times  # noqa: PLC0415

    if listener is not None:
        return joined_times.read(file, listener, times)
    return packet_times.read(file, times, row_range)


def read_observations(
    file: SourceFile, source: dict[str, Any], listener: SourceFile | None = None
) -> "np.ndarray":
    """Return the latencies of a file in microseconds, in order, shape (observations,).

    Parameters
    ----------
    file
        The original.
    source
        ``format``; for times their columns and ``row_range``; ``halve`` if the file has round trips
        and the trial half round trips.
    listener
        The original of the listener's file, if the times of receipt are in another file.

    Raises
    ------
    NoMeasurementError, RecordError
        As the reader.
    """
    from tsnrepro.imports.readers import sockperf  # noqa: PLC0415

    if source["format"] == "sockperf":
        return sockperf.observations(file)
    times = Times.model_validate(source["times"])
    found = _packet_times(file, times, source.get("row_range"), listener).latencies_us
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
    listener = source.get("listener")
    return read_observations(
        _original(testbed_folder, source), source, listener and _original(testbed_folder, listener)
    )


def _original(testbed_folder: Path, source: dict[str, Any]) -> SourceFile:
    """Return the original of a file, which has its checksum."""
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
    return file
