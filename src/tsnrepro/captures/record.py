"""The report of a recorded trial, computed again from its captures and counters alone."""

from collections.abc import Callable
from typing import Any

from tsnrepro.captures.capture_file import Capture, read_capture
from tsnrepro.captures.counters import Counted, ReadingTimes, counted_between
from tsnrepro.captures.dissect import mac
from tsnrepro.captures.report import WireReport, report_on
from tsnrepro.common.errors import RecordError
from tsnrepro.common.topology import LISTENER
from tsnrepro.records.outputs import COUNTERS_AFTER, COUNTERS_BEFORE
from tsnrepro.tools.counters import Snapshot, recorded_snapshot
from tsnrepro.tools.frerctl import StreamFilter

_Output = Callable[[str, str], bytes]
"""Gives an output of a trial, unpacked, by the names of both, as a raw store does."""
_READINGS = ("before", "after")
# Drops behind the listener's card, by the first words of their place in the accounting.
_BEHIND_CARD = f"{LISTENER} "


def capture_name(host: str, port: str) -> str:
    """Return the name of a capture among a trial's outputs."""
    return f"capture-{host}-{port}.pcapng.gz"


def _recorded_counters(output: _Output, document: dict[str, Any]) -> Counted:
    """Return the counters of a recorded trial of the experiment ``capture``."""
    trial, values = document["trial"], document["values"]

    def read(name: str) -> Snapshot:
        return recorded_snapshot(output(trial, name).decode())

    drops = values["accounting"]["drops"]
    return counted_between(
        read(COUNTERS_BEFORE),
        read(COUNTERS_AFTER),
        received=values["result"]["received"],
        dropped_behind_card={p: n for p, n in drops.items() if p.startswith(_BEHIND_CARD)},
        take_no_sequence=values["capture"]["take_no_sequence"],
        read=ReadingTimes(*(tuple(values["capture"]["counters_read_ns"][k]) for k in _READINGS)),
    )


def recorded_report(output: _Output, document: dict[str, Any]) -> WireReport:
    """Return the report of a recorded trial of the experiment ``capture``.

    Raises
    ------
    RecordError
        The trial has no captures, or they cannot be read.
    """
    trial, values = document["trial"], document["values"]
    if "capture" not in values:
        raise RecordError("the trial has no captures", trial, "Measure `capture` instead")
    kept = values["capture"]

    def read(place: str) -> Capture:
        name = capture_name(*place.split())
        return read_capture(output(trial, name), f"{trial}/{name}")

    return report_on(
        {place.split()[1]: read(place) for place in kept["members"]},
        read(kept["listener"]),
        StreamFilter(**kept["stream"]),
        _recorded_counters(output, document),
        mac(kept["talker"]),
    )
