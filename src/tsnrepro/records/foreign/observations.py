"""Single observations of imported trials: their statistics, and the way back to their file."""

from pathlib import Path
from typing import Any

import numpy as np

from tsnrepro.errors import RecordError
from tsnrepro.records.foreign.mapping import Times
from tsnrepro.records.foreign.readers import sockperf_output, times_csv
from tsnrepro.records.foreign.readers.row import Known
from tsnrepro.records.foreign.source import SourceFile

_QUANTILES = {
    **{"p25_us": 0.25, "p50_us": 0.5, "p75_us": 0.75, "p90_us": 0.9, "p99_us": 0.99},
    **{"p99_9_us": 0.999, "p99_99_us": 0.9999, "p99_999_us": 0.99999},
}


def statistics(latencies_us: np.ndarray) -> Known:
    """Return the fields of the experiment ``latency`` that observations determine.

    A quantile is the smallest observation that at least its share does not exceed. The standard
    deviation is the sample's (n - 1); one observation has none.
    """
    shares = list(_QUANTILES.values())
    found = np.quantile(latencies_us, shares, method="inverted_cdf")
    known: Known = {
        "observations": len(latencies_us),
        "mean_us": float(latencies_us.mean()),
        "min_us": float(latencies_us.min()),
        "max_us": float(latencies_us.max()),
        **{name: float(value) for name, value in zip(_QUANTILES, found, strict=True)},
    }
    if len(latencies_us) > 1:
        known["sd_us"] = float(latencies_us.std(ddof=1))
    return known


def read_observations(file: SourceFile, how: dict[str, Any]) -> np.ndarray:
    """Return the latencies of a file in microseconds, in order, as its trial calls them.

    Parameters
    ----------
    file
        The original.
    how
        ``format``; for times their columns; ``halve`` where the file holds round trips.

    Raises
    ------
    NoMeasurementError, RecordError
        As the reader of the format.
    """
    if how["format"] == "times":
        found = times_csv.read(file.clean, Times.model_validate(how["times"])).latencies_us
        return found / 2 if how.get("halve") else found
    _, observed = sockperf_output.read(file.clean)
    if observed is None:
        raise RecordError("it is no full log of sockperf", file.relative)
    return observed


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
    try:
        file = SourceFile(path, how["file"], path.read_bytes())
    except FileNotFoundError as error:
        raise RecordError(
            "the original file of a trial is missing", str(path), "Import the data set again"
        ) from error
    if file.sha256 != how["sha256"]:
        raise RecordError(
            "the file does not match its checksum: it was altered",
            str(path),
            "Remove it and import the data set again",
        )
    return read_observations(file, how)
