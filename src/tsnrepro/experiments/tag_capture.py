"""Experiment ``tag_capture``: every frame at the member ports and at the listener, kept.

The members are captured where the first switch sends into them, behind the egress queue: XDP takes
the frames in at the other end before a capture there could see them. So a time stamp is a frame's
departure, and of two copies the first to leave is known, not the first to arrive.
"""

import base64
import gzip
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from tsnrepro.errors import CommandError, TestbedError
from tsnrepro.experiments import iperf3_trial
from tsnrepro.experiments.plan import planned_in_blocks
from tsnrepro.experiments.run import Measurement, Planned
from tsnrepro.records.accounting import account
from tsnrepro.records.store import Trial
from tsnrepro.settings import Campaign
from tsnrepro.settings.wire import TagCaptureSettings
from tsnrepro.testbed.emulated import CARD, LISTENER, SWITCHES, TALKER, EmulatedTestbed
from tsnrepro.testbed.snapshot import Snapshot
from tsnrepro.tools import dumpcap, iperf3
from tsnrepro.tools.frerctl import StreamFilter
from tsnrepro.wire.recorded import AFTER, BEFORE, capture_name, recorded_report

STREAM = StreamFilter("udp", iperf3.PORT, iperf3.MIN_UDP_PAYLOAD_BYTES)
# Headers with a VLAN tag and an R-TAG, and as much behind them as tells frames apart.
SNAP_BYTES = 128
BUFFER_MIB = 64
# A capture lies in the host's memory until its trial ends.
FILE_MIB = 512
# Starting and fetching the captures; only the first estimate of time uses it.
SET_UP_SECONDS = 4.0
COMMAND_SECONDS = 20
FETCH_SECONDS = 120
# Hosts speak unasked now and then; a capture that begins between two numbers begins again.
BEGINNINGS = 12


def plan(campaign: Campaign) -> list[Planned]:
    """Return the trials: every configuration, payload, load and repetition."""
    settings: TagCaptureSettings | None = campaign.tag_capture
    if settings is None:
        return []
    return planned_in_blocks(_trials(settings), campaign.seed, SET_UP_SECONDS)


def _trials(settings: TagCaptureSettings) -> list[Trial]:
    return [
        Trial(
            "tag_capture",
            f"{configuration}-{part.payload_bytes}B-{rate:g}M",
            {
                "configuration": configuration,
                "payload_bytes": part.payload_bytes,
                "rate_mbps": rate,
                "duration_s": part.duration_s,
            },
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for part in settings.parts
        for rate in part.rates_mbps
        for configuration in settings.configurations
    ]


def measure(testbed: EmulatedTestbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial: capture everywhere while iperf3 sends, and report on the captures.

    Raises
    ------
    TestbedError
        The testbed has no hosts to capture on.
    CommandError, ToolError
        A capture or the test failed.
    """
    if testbed.kind == "model":
        raise TestbedError(
            "the model has no frames to capture", "tag_capture", "Measure it on `emulated`"
        )
    factors = trial.factors
    capturing = _Capturing(testbed, float(factors["duration_s"]))
    settle_s = iperf3_trial.settle_seconds(factors["payload_bytes"])
    client = iperf3.udp_client(
        testbed.address(LISTENER),
        factors["payload_bytes"],
        factors["rate_mbps"],
        factors["duration_s"],
    )
    with capturing.running(factors["configuration"]) as before:
        measured.outputs[BEFORE] = json.dumps(before.raw, indent=1)
        done = iperf3_trial.run_test(testbed, client, factors["duration_s"])
        measured.commands.append(iperf3_trial.command(done))
        measured.outputs |= {"iperf3.json": done.stdout, "iperf3.stderr.txt": done.stderr}
        time.sleep(settle_s)
        after = capturing.read_counters("after")
        measured.outputs[AFTER] = json.dumps(after.raw, indent=1)
        time.sleep(dumpcap.FLUSH_SECONDS)
    measured.outputs |= capturing.outputs
    measured.commands += capturing.commands
    result = iperf3.parse_udp(done.check().stdout)
    accounting = account(before, after, result.sent, result.received, testbed.host_of)
    measured.values |= {
        "result": asdict(result) | {"lost": result.lost},
        "accounting": asdict(accounting) | {"unaccounted": accounting.unaccounted},
        "recovery": after.hosts["sw2"].station["recovery"],
        "capture": capturing.describe(),
    }
    _report(trial, measured)


def _report(trial: Trial, measured: Measurement) -> None:
    """Report on the captures as they are in the record, so that anyone can do the same from it."""
    document = {"trial": trial.label, "values": measured.values}
    report = recorded_report(_Kept(measured), document)
    measured.values["wire"] = report.document()
    for finding in report.disagreements("capture", "counters"):
        print(
            f"{trial.label}: {finding.where}, {finding.name}: {finding.found},"
            f" expected {finding.expected}"
        )


class _Kept:
    """The outputs of a measurement, read as those of a record."""

    def __init__(self, measured: Measurement) -> None:
        self._outputs = measured.outputs

    def output_bytes(self, trial: str, name: str) -> bytes:
        data = self._outputs[name]
        return data.encode() if isinstance(data, str) else data

    def output(self, trial: str, name: str) -> str:
        return self.output_bytes(trial, name).decode()


@dataclass
class _Capturing:
    """The captures of one trial: where, and what came of them."""

    testbed: EmulatedTestbed
    duration_s: float
    outputs: dict[str, str | bytes] = field(default_factory=dict)
    commands: list[dict[str, Any]] = field(default_factory=list)
    totals: dict[str, dict[str, int]] = field(default_factory=dict)
    talker: str = ""
    begun: int = 0
    read_ns: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.members = [(SWITCHES[0], port) for port in self.testbed.member_ports()]
        self.places = [*self.members, (LISTENER, CARD)]
        self._files: dict[tuple[str, str], str] = {}
        self._processes: dict[tuple[str, str], Any] = {}

    def describe(self) -> dict[str, Any]:
        """Return what the record says of the captures."""
        return {
            "members": [" ".join(place) for place in self.members],
            "listener": f"{LISTENER} {CARD}",
            "point": "egress of the sending switch, behind its queue; ingress of the listener",
            "talker": self.talker,
            "stream": asdict(STREAM),
            "snap_bytes": SNAP_BYTES,
            "totals": self.totals,
            "begun": self.begun,
            "counters_read_ns": self.read_ns,
            "take_no_sequence": self.testbed.settings.frer.take_no_sequence,
        }

    @contextmanager
    def running(self, configuration: Any):
        """Capture during the block, which gets the counters as they are at its start.

        Whatever happens in it, the captures end and their files are removed from the hosts.
        """
        self.talker = self._run(TALKER, ["cat", f"/sys/class/net/{CARD}/address"]).strip()
        try:
            before = self._begin(configuration)
            yield before
            self._each(self._end)
            self._each(self._fetch)
        finally:
            self._each(self._remove)

    def _begin(self, configuration: Any) -> Snapshot:
        """Start the captures so that they hold every frame since recovery started afresh."""
        for self.begun in range(1, BEGINNINGS + 1):
            # Known neighbours and quiet links: fewer frames that nobody asked for.
            self._run(TALKER, ["ping", "-c", "1", "-W", "2", self.testbed.address(LISTENER)])
            self.testbed.configure(configuration, STREAM)
            self._each(self._start)
            before = self.read_counters("before")
            if before.hosts[SWITCHES[0]].station["generator"]["numbered"] == 0:
                return before
            self._each(self._remove)
        raise CommandError(
            f"in {BEGINNINGS} tries a frame came between the start of sequence generation and the"
            " start of the captures",
            SWITCHES[0],
            "Find out which host does not stay quiet",
        )

    def read_counters(self, when: str) -> Snapshot:
        """Read the counters of all hosts, and note from when to when that took."""
        began = time.time_ns()
        snapshot = self.testbed.snapshot()
        self.read_ns[when] = [began, time.time_ns()]
        return snapshot

    def _run(self, host: str, argv: list[str]) -> str:
        return self.testbed.hosts[host].run(argv, deadline_s=COMMAND_SECONDS).check().stdout

    def _each(self, action: Any) -> None:
        with ThreadPoolExecutor(len(self.places)) as pool:
            list(pool.map(action, self.places))

    def _start(self, place: tuple[str, str]) -> None:
        host, port = place
        self._files[place] = path = self._run(host, ["mktemp"]).strip()
        limits = {"snap_bytes": SNAP_BYTES, "buffer_mib": BUFFER_MIB, "file_mib": FILE_MIB}
        argv = dumpcap.capture(port, path, self.talker, **limits)
        deadline_s = self.duration_s + iperf3_trial.OVERHEAD_SECONDS + FETCH_SECONDS
        process = self.testbed.hosts[host].start(argv, deadline_s=deadline_s)
        said = []
        while not (line := process.read_line()).startswith(dumpcap.READY):
            said.append(line)
            if not line:
                raise CommandError(f"the capture did not start: {' '.join(said)}", " ".join(place))
        self._processes[place] = process

    def _end(self, place: tuple[str, str]) -> None:
        process = self._processes.pop(place)
        process.stop()
        done = process.wait()
        self.commands.append(iperf3_trial.command(done))
        self.totals[" ".join(place)] = asdict(dumpcap.parse_totals(done.stdout))

    def _fetch(self, place: tuple[str, str]) -> None:
        # A command's output is text on its way; the record has the file as it was.
        script = 'gzip -1 -c "$1" | base64 -w 0'
        argv = ["sh", "-c", script, "sh", self._files[place]]
        done = self.testbed.hosts[place[0]].run(argv, deadline_s=FETCH_SECONDS).check()
        self.outputs[capture_name(*place)] = gzip.decompress(base64.b64decode(done.stdout))

    def _remove(self, place: tuple[str, str]) -> None:
        if process := self._processes.pop(place, None):
            process.stop()
            process.wait()
        if path := self._files.pop(place, None):
            self._run(place[0], ["rm", "-f", path])
