"""mausezahn's output: how many frames were sent, and at which rate.

It does not contain what arrived: such a trial has an offered load and no loss.
"""

import re

from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import MappedTable
from tsnrepro.imports.readers.row import DataRow, FileRows, Known
from tsnrepro.imports.screening import NoMeasurementError, why_not_output_of

_RUN = re.compile(
    r"(?:will send (?P<frames>\d{1,18}) frames\.\.\.\s{0,9})?"
    r"(?P<seconds>\b\d{1,12}\.\d{1,9}) seconds \((?P<rate>\d{1,18}) packets per second\)"
)
_ENDLESS = "will send frames infinitely"


def read(file: SourceFile, _: MappedTable) -> FileRows:
    """Return one row per run, with the columns frames, seconds and packets_per_second.

    The seconds are printed with two decimals and the rate as an integer, so if the number of frames
    is known, the time of sending is computed as the ratio of frames and rate.

    Raises
    ------
    NoMeasurementError
        No run was completed: mausezahn was stopped, failed, or printed its usage.
    """
    text, rows = file.tool_output(), []
    for number, match in enumerate(_RUN.finditer(text), start=1):
        frames, rate = match["frames"], int(match["rate"])
        known: Known = {"sent": int(frames)} if frames else {}
        if frames and rate:
            known["send_seconds"] = int(frames) / rate
        cells = {"frames": frames or "", "seconds": match["seconds"]}
        rows.append(DataRow(f"run {number}", cells | {"packets_per_second": match["rate"]}, known))
    if not rows:
        stopped = "no run was completed: it sent until stopped, and no count was printed"
        reason = stopped if _ENDLESS in text else why_not_output_of("mausezahn", text)
        raise NoMeasurementError(reason or "no run was completed: no rate was printed")
    return FileRows(rows)
