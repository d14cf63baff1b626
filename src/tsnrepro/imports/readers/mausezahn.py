"""mausezahn run logs: how many frames were sent, and how fast.

A log says nothing of what arrived: such a trial has an offered load and no loss.
"""

import re

from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import MappedTable
from tsnrepro.imports.readers.row import DataRow, FileRows, Known
from tsnrepro.imports.refusal import NoMeasurementError, complaint

_RUN = re.compile(
    r"(?:will send (?P<frames>\d{1,18}) frames\.\.\.\s{0,9})?"
    r"(?P<seconds>\b\d{1,12}\.\d{1,9}) seconds \((?P<rate>\d{1,18}) packets per second\)"
)
_ENDLESS = "will send frames infinitely"


def read(file: SourceFile, _: MappedTable) -> FileRows:
    """Return one row a run, with the columns frames, seconds and packets_per_second.

    The seconds are printed with two decimals and the rate as a whole number, so where the log
    says how many frames were to be sent, the time of sending is their ratio.

    Raises
    ------
    NoMeasurementError
        No run came to its end: mausezahn was stopped, failed, or printed its usage.
    """
    text, rows = file.said(), []
    for number, match in enumerate(_RUN.finditer(text), start=1):
        frames, rate = match["frames"], int(match["rate"])
        known: Known = {"sent": int(frames)} if frames else {}
        if frames and rate:
            known["send_seconds"] = int(frames) / rate
        cells = {"frames": frames or "", "seconds": match["seconds"]}
        rows.append(DataRow(f"run {number}", cells | {"packets_per_second": match["rate"]}, known))
    if not rows:
        stopped = "no run came to its end: it was to send until stopped, and no count was printed"
        reason = stopped if _ENDLESS in text else complaint(text)
        raise NoMeasurementError(reason or "no run came to its end: no rate was printed")
    return FileRows(rows)
