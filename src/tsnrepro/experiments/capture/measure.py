"""Measure a trial of ``capture``: every frame at the member ports and at the listener, kept.

The members are captured where the first switch sends into them, behind the egress queue. So a
time stamp is a frame's departure, and of two copies the first to leave is known, not the first to
arrive.
"""

import base64
import gzip
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.common.topology import CARD, LISTENER, SWITCHES, TALKER
from tsnrepro.experiments.capture.plan import Factors
from tsnrepro.experiments.capture.trial_report import capture_name, recorded_report
from tsnrepro.records.store import COUNTERS_AFTER, COUNTERS_BEFORE, Trial
from tsnrepro.runner.backends.hosts import (
    LOG_BYTES,
    OVERHEAD_SECONDS,
    UDP_STREAM,
    CountersAround,
    HostsBackend,
)
from tsnrepro.runner.load import IntendedLoad
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.hosts.host import RemoteProcess
from tsnrepro.testbeds.protocol import HostTestbed, Testbed
from tsnrepro.testbeds.quiescence import settle
from tsnrepro.tools import dumpcap
from tsnrepro.tools.snapshot import Snapshot

STREAM = UDP_STREAM
# Headers with a VLAN tag and an R-TAG, and as much behind them as frames differ in.
_SNAP_BYTES = 128
# Of 80,000 headers a second, over a second. The kernel makes it at once: where it had to find three
# times 64 MiB, all processors stalled for 150 ms.
_BUFFER_MIB = 16
# A capture lies in the host's memory until its trial ends.
_FILE_MIB = 512
_COMMAND_SECONDS = 20
_FETCH_SECONDS = 120
# Hosts send frames of their own now and then; a capture that begins between two numbers begins
# again.
_BEGINNINGS = 12


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial: capture everywhere while iperf3 sends, and report on the captures.

    Raises TestbedError if the testbed has no hosts to capture on. Raises CommandError or ToolError
    if a capture or the test failed.
    """
    if not isinstance(testbed, HostTestbed):
        raise TestbedError(
            f"a testbed of kind {testbed.kind} has no frames to capture",
            "capture",
            "Measure it on `emulated`",
        )
    factors = Factors.of(trial)
    load = IntendedLoad.at_mbps(
        factors.configuration, factors.payload_bytes, factors.rate_mbps, factors.duration_s
    )
    capturing = _Capturing(testbed, measured, load)
    outcome = HostsBackend(testbed, trial, measured).udp(load, capturing.around())
    measured.values |= outcome.values(load.payload_bytes) | {"capture": capturing.describe()}
    _report(trial, measured)


def _report(trial: Trial, measured: Measurement) -> None:
    """Report on the captures as they are in the record, so that anyone can do the same from it."""
    document = {"trial": trial.label, "values": measured.values}

    def output(_: str, name: str) -> bytes:
        data = measured.outputs[name]
        return data.encode() if isinstance(data, str) else data

    report = recorded_report(output, document)
    measured.values["wire"] = report.document()
    for finding in report.disagreements("capture", "counters"):
        print(
            f"{trial.label}: {finding.where}, {finding.name}: {finding.found},"
            f" expected {finding.expected}"
        )


class _Capturing:
    """The captures of one trial: where, and what came of them."""

    def __init__(self, testbed: HostTestbed, measured: Measurement, load: IntendedLoad) -> None:
        self.testbed, self.measured, self.load = testbed, measured, load
        self.totals: dict[str, dict[str, int]] = {}
        self.talker = ""
        self.begun = 0
        self.read_ns: dict[str, list[int]] = {}
        self.members = [(SWITCHES[0], port) for port in testbed.member_ports()]
        self.places = [*self.members, (LISTENER, CARD)]
        self._files: dict[tuple[str, str], str] = {}
        self._processes: dict[tuple[str, str], RemoteProcess] = {}

    def describe(self) -> dict[str, Any]:
        """Return the record's values of the captures."""
        return {
            "members": [" ".join(place) for place in self.members],
            "listener": f"{LISTENER} {CARD}",
            "point": "egress of the sending switch, behind its queue; ingress of the listener",
            "talker": self.talker,
            "stream": asdict(STREAM),
            "snap_bytes": _SNAP_BYTES,
            "totals": self.totals,
            "begun": self.begun,
            "counters_read_ns": self.read_ns,
            "take_no_sequence": self.testbed.settings.frer.take_no_sequence,
        }

    @contextmanager
    def around(self) -> Iterator[CountersAround]:
        """Capture during the block, and keep the counters before and after it.

        Whatever happens in it, the captures end and their files are removed from the hosts.
        """
        self.talker = self._run(TALKER, ["cat", f"/sys/class/net/{CARD}/address"]).strip()
        try:
            counters = CountersAround(self._begin())
            self._keep(COUNTERS_BEFORE, counters.before)
            yield counters
            settle(self.testbed, self.load.payload_bytes)
            # The last reading is one of its own: when it was made must be known closely.
            self.testbed.quiescent_snapshot()
            counters.after = self._read_counters("after")
            self._keep(COUNTERS_AFTER, counters.after)
            time.sleep(dumpcap.FLUSH_SECONDS)
            self._each(self._end)
            self._each(self._fetch)
        finally:
            self._each(self._remove)

    def _keep(self, name: str, snapshot: Snapshot) -> None:
        self.measured.outputs[name] = json.dumps(snapshot.raw, indent=1)

    def _begin(self) -> Snapshot:
        """Start the captures so that they hold every frame since recovery started afresh."""
        for self.begun in range(1, _BEGINNINGS + 1):
            # With neighbours resolved and links quiet, hosts send fewer frames of their own.
            self._run(TALKER, ["ping", "-c", "1", "-W", "2", self.testbed.address(LISTENER)])
            self.testbed.configure(self.load.configuration, STREAM)
            self._each(self._start)
            before = self._read_counters("before")
            if before.hosts[SWITCHES[0]].station["generator"]["numbered"] == 0:
                return before
            self._each(self._remove)
        raise CommandError(
            f"in {_BEGINNINGS} tries a frame came between the start of sequence generation and the"
            " start of the captures",
            SWITCHES[0],
            "Find out which host does not stay quiet",
        )

    def _read_counters(self, when: str) -> Snapshot:
        """Read the counters of all hosts, and note from when to when, on the members' clock."""
        began = self.testbed.epoch_ns(SWITCHES[0])
        snapshot = self.testbed.snapshot()
        self.read_ns[when] = [began, self.testbed.epoch_ns(SWITCHES[0])]
        return snapshot

    def _run(self, host: str, argv: list[str]) -> str:
        return self.testbed.hosts[host].run(argv, deadline_s=_COMMAND_SECONDS).check().stdout

    def _each(self, action: Any) -> None:
        with ThreadPoolExecutor(len(self.places)) as pool:
            list(pool.map(action, self.places))

    def _start(self, place: tuple[str, str]) -> None:
        host, port = place
        self._files[place] = path = self._run(host, ["mktemp"]).strip()
        limits = {"snap_bytes": _SNAP_BYTES, "buffer_mib": _BUFFER_MIB, "file_mib": _FILE_MIB}
        argv = dumpcap.capture(port, path, self.talker, **limits)
        deadline_s = self.load.duration_s + OVERHEAD_SECONDS + _FETCH_SECONDS
        process = self.testbed.hosts[host].start(argv, deadline_s=deadline_s)
        output = []
        while not (line := process.read_line()).startswith(dumpcap.READY):
            output.append(line)
            if not line:
                raise CommandError(
                    f"the capture did not start: {' '.join(output)}", " ".join(place)
                )
        self._processes[place] = process

    def _end(self, place: tuple[str, str]) -> None:
        process = self._processes.pop(place)
        process.stop()
        done = process.wait()
        self.measured.commands.append(done.as_record())
        self.totals[" ".join(place)] = asdict(dumpcap.parse_totals(done.stdout))

    def _fetch(self, place: tuple[str, str]) -> None:
        # A command's output is text on its way; the record has the file as it was.
        script = 'gzip -1 -c "$1" | base64 -w 0'
        argv = ["sh", "-c", script, "sh", self._files[place]]
        done = (
            self.testbed.hosts[place[0]]
            .run(argv, deadline_s=_FETCH_SECONDS, limit_bytes=LOG_BYTES)
            .check()
        )
        self.measured.outputs[capture_name(*place)] = gzip.decompress(base64.b64decode(done.stdout))

    def _remove(self, place: tuple[str, str]) -> None:
        if process := self._processes.pop(place, None):
            process.stop()
            process.wait()
        if path := self._files.pop(place, None):
            self._run(place[0], ["rm", "-f", path])
