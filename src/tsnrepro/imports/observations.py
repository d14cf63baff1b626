"""Single observations of imported trials: the way back to their file."""

from pathlib import Path
from typing import Any

import numpy as np

from tsnrepro.common.errors import RecordError
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import Times
from tsnrepro.imports.readers import packet_times, sockperf_rows


def read_observations(file: SourceFile, how: dict[str, Any]) -> np.ndarray:
    """Return the latencies of a file in microseconds, in order, as its trial calls them.

    Parameters
    ----------
    file
        The original.
    how
        ``format``; for times their columns and ``row_range``; ``halve`` where the file holds
        round trips.

    Raises
    ------
    NoMeasurementError, RecordError
        As the reader of the format.
    """
    if how["format"] == "sockperf":
        return sockperf_rows.observations(file)
    times = Times.model_validate(how["times"])
    found = packet_times.read(file, times, how.get("row_range")).latencies_us
    return found / 2 if how.get("halve") else found


def observations_of(testbed_folder: Path, document: dict[str, Any]) -> np.ndarray:
    """Return every observation of an imported trial, none where the data set has statistics only.

    Raises
    ------
    RecordError
        The original file is missing or was altered.
    """
    how = document["source"].get("observations")
    if how is None:
        return np.empty(0)
    path = testbed_folder / how["original"]
    if not path.is_file():
        raise RecordError(
            "the original file of a trial is missing", str(path), "Import the data set again"
        )
    file = SourceFile(path, how["file"])
    if file.sha256 != how["sha256"]:
        raise RecordError(
            "the file does not match its checksum: it was altered",
            str(path),
            "Remove it and import the data set again",
        )
    return read_observations(file, how)
