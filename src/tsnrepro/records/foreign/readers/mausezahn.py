"""mausezahn run logs: how many frames were sent, and how fast.

A log says nothing of what arrived: such a trial has an offered load and no loss.
"""

import re

from tsnrepro.records.foreign.readers.row import Known, Reading, Row
from tsnrepro.records.foreign.refusal import NoMeasurementError, complaint

_RUN = re.compile(
    r"(?:will send (?P<frames>\d+) frames\.\.\.\s*)?"
    r"(?P<seconds>\d+\.\d+) seconds \((?P<rate>\d+) packets per second\)"
)
_ENDLESS = "will send frames infinitely"


def read(text: str) -> Reading:
    """Return one row a run, with the columns frames, seconds and packets_per_second.

    The seconds are printed with two decimals and the rate as a whole number, so where the log
    says how many frames were to be sent, the time of sending is their ratio.

    Raises
    ------
    NoMeasurementError
        No run came to its end: mausezahn was stopped, failed, or printed its usage.
    """
    rows = []
    for number, match in enumerate(_RUN.finditer(text), start=1):
        frames, rate = match["frames"], int(match["rate"])
        known: Known = {}
        if frames:
            known["sent"] = int(frames)
            if rate:
                known["send_seconds"] = int(frames) / rate
        cells = {
            "frames": frames or "",
            "seconds": match["seconds"],
            "packets_per_second": match["rate"],
        }
        rows.append(Row(f"run {number}", cells, known))
    if not rows:
        stopped = "no run came to its end: it was to send until stopped, and no count was printed"
        reason = stopped if _ENDLESS in text else complaint(text)
        raise NoMeasurementError(reason or "no run came to its end: no rate was printed")
    return Reading(rows)
