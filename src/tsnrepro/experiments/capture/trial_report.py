"""The report on a recorded trial's captures, computed from its record."""

from collections.abc import Callable
from typing import Any

from tsnrepro.common.errors import RecordError
from tsnrepro.common.topology import LISTENER
from tsnrepro.experiments.capture.capture_file import Capture, read_capture
from tsnrepro.experiments.capture.counters import ReadingTimes, TrialCounters, trial_counters
from tsnrepro.experiments.capture.dissect import mac
from tsnrepro.experiments.capture.report import WireReport, report_captures
from tsnrepro.records.store import COUNTERS_AFTER, COUNTERS_BEFORE
from tsnrepro.tools.frerctl import StreamFilter
from tsnrepro.tools.snapshot import Snapshot, recorded_snapshot

_Output = Callable[[str, str], bytes]
"""Returns an output of a trial, decompressed, by the names of both; as a raw store does."""
_READINGS = ("before", "after")
# Prefix of the accounting's locations behind the listener's card.
_BEHIND_CARD = f"{LISTENER} "


def capture_name(host: str, port: str) -> str:
    """Return the name of a capture among a trial's outputs."""
    return f"capture-{host}-{port}.pcapng.gz"


def _recorded_counters(output: _Output, document: dict[str, Any]) -> TrialCounters:
    trial, values = document["trial"], document["values"]

    def read(name: str) -> Snapshot:
        return recorded_snapshot(output(trial, name).decode())

    drops = values["accounting"]["drops"]
    return trial_counters(
        read(COUNTERS_BEFORE),
        read(COUNTERS_AFTER),
        received=values["result"]["received"],
        dropped_behind_card={p: n for p, n in drops.items() if p.startswith(_BEHIND_CARD)},
        take_no_sequence=values["capture"]["take_no_sequence"],
        read=ReadingTimes(*(tuple(values["capture"]["counters_read_ns"][k]) for k in _READINGS)),
    )


def recorded_report(output: _Output, document: dict[str, Any]) -> WireReport:
    """Return the report on a recorded trial of the experiment ``capture``.

    Raises RecordError if the trial has no captures, or they cannot be read.
    """
    trial, values = document["trial"], document["values"]
    if "capture" not in values:
        raise RecordError("the trial has no captures", trial, "Measure `capture` instead")
    recorded = values["capture"]

    def read(point: str) -> Capture:
        name = capture_name(*point.split())
        return read_capture(output(trial, name), f"{trial}/{name}")

    return report_captures(
        {point.split()[1]: read(point) for point in recorded["members"]},
        read(recorded["listener"]),
        StreamFilter(**recorded["stream"]),
        _recorded_counters(output, document),
        mac(recorded["talker"]),
    )
