"""Agreement of clocks: what linuxptp prints, who is refused and why, and real clocks."""

import os
import shutil
import subprocess
import textwrap
import time
from dataclasses import replace

import pytest
from sound_outputs import PHC2SYS, RECEIVER, STREAM, TRANSMITTER

from tsnrepro.common.errors import ToolError
from tsnrepro.native import streams
from tsnrepro.native.streams.command import ListenerResult, PortReport, TalkerResult
from tsnrepro.testbeds.hosts import clocks
from tsnrepro.testbeds.hosts.clocks import (
    ClockOffset,
    ClockReading,
    ClockSync,
    ClockSyncFailure,
    PtpState,
)
from tsnrepro.testbeds.hosts.host import Completed
from tsnrepro.tools import linuxptp

MS = 1_000_000
FIRST = ClockReading("one", 100 * MS, 10 * MS, 37, 1)
OTHER = ClockReading("two", 102 * MS, 999 * MS, 37, 1)
LAST = ClockReading("one", 104 * MS, 14 * MS, 37, 1)
TALKER = PtpState("gm", 1, -40.0, 300.0, ("SLAVE",))
LISTENER = PtpState("gm", 2, 60.0, 500.0, ("MASTER", "SLAVE"))
LOCKED = [ClockOffset(-30, 200, "s2"), ClockOffset(10, 800, "s2")]


def test_what_pmc_prints_is_read():
    assert linuxptp.parse_ptp_state(TRANSMITTER) == PtpState(
        "624c0b.fffe.e2f8c6", 0, 0.0, 0.0, ("MASTER",)
    )
    receiver = linuxptp.parse_ptp_state(RECEIVER)
    assert (receiver.offset_ns, receiver.mean_path_delay_ns) == (-573.0, 1412.0)
    assert receiver.port_states == ("UNCALIBRATED", "LISTENING")
    assert not receiver.synchronised
    old_spelling = TRANSMITTER.replace("MANAGEMENT", "MANAGMENT")
    assert linuxptp.parse_ptp_state(old_spelling).synchronised


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no response from ptp4l: no output"),
        (
            "sending: GET CURRENT_DATA_SET\n",
            "no response from ptp4l: sending: GET CURRENT_DATA_SET",
        ),
        (RECEIVER.replace("offsetFromMaster", "offset"), "offsetFromMaster"),
        (RECEIVER.replace("-573.0", "far"), "far"),
        (
            RECEIVER.replace("RESPONSE MANAGEMENT PARENT", "COMMAND MANAGEMENT PARENT"),
            "PARENT_DATA",
        ),
    ],
)
def test_what_pmc_did_not_say_is_named(text, said):
    with pytest.raises(ToolError, match=said):
        linuxptp.parse_ptp_state(text)


def test_what_phc2sys_prints_is_read():
    found = linuxptp.parse_phc2sys(PHC2SYS)
    assert [o.offset_ns for o in found] == [-21, 9100, 130, -5300, 390, 41]
    assert [o.delay_ns for o in found] == [1400, 87000, 510, 6700, 1600, 0]
    assert [o.state for o in found] == ["s2", "s1", "s2", "s2", None, None]
    with pytest.raises(ToolError, match=r"printed no offset: .*Waiting"):
        linuxptp.parse_phc2sys("phc2sys[1.000]: Waiting for ptp4l...\n")


# --- judging --------------------------------------------------------------------------------


def test_one_kernel_is_one_clock():
    other = replace(OTHER, boot_id="one", monotonic_ns=12 * MS)
    found = clocks.evaluate_one_kernel(FIRST, other, LAST)
    assert found == ClockSync(
        1.0, "one kernel, one clock", {"boot_id": "one", "round_trip_ns": 4 * MS}
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"monotonic_ns": 15 * MS}, "copies of one machine"),
        ({"monotonic_ns": 9 * MS}, "copies of one machine"),
        ({"monotonic_ns": 12 * MS, "tai_ns": 99 * MS}, "outside the talker's readings"),
        ({"monotonic_ns": 12 * MS, "tai_ns": 105 * MS}, "outside the talker's readings"),
    ],
)
def test_a_boot_identity_alone_proves_nothing(change, said):
    found = clocks.evaluate_one_kernel(FIRST, replace(OTHER, boot_id="one", **change), LAST)
    assert isinstance(found, ClockSyncFailure)
    assert said in found.reason


def test_the_uncertainty_is_the_sum_of_what_linuxptp_says():
    """40 + (30 + 100 or 10 + 400, the larger) at the talker, 60 at the listener, 1 to read."""
    found = clocks.evaluate_time_service(FIRST, OTHER, LAST, (TALKER, LISTENER), (LOCKED, []))
    assert isinstance(found, ClockSync)
    assert found.uncertainty_ns == 40 + 410 + 60 + 1
    assert found.evidence["shares_ns"] == [450, 60]


@pytest.mark.parametrize(
    ("readings", "states", "offsets", "said"),
    [
        ({}, (TALKER, replace(LISTENER, grandmaster="other")), ([], []), "different grandmasters"),
        (
            {},
            (replace(TALKER, port_states=("UNCALIBRATED",)), LISTENER),
            ([], []),
            "talker's PTP ports are UNCALIBRATED, none SLAVE",
        ),
        (
            {},
            (TALKER, LISTENER),
            ([], [*LOCKED, ClockOffset(5, 5, "s1")]),
            "listener's phc2sys is in servo state s1",
        ),
        (
            {"tai_offset_s": 0},
            (TALKER, LISTENER),
            ([], []),
            "37 s ahead of UTC at the talker and 0",
        ),
        ({"tai_ns": 104 * MS + 102}, (TALKER, LISTENER), ([], []), "outside the talker's readings"),
    ],
)
def test_a_time_service_that_does_not_hold_is_refused(readings, states, offsets, said):
    found = clocks.evaluate_time_service(FIRST, replace(OTHER, **readings), LAST, states, offsets)
    assert isinstance(found, ClockSyncFailure)
    assert said in found.reason


@pytest.mark.parametrize(
    ("latency", "uncertainty", "stated"),
    [
        (1000, 100, True),
        (1000, 100.1, False),
        (0, 0, False),
        (-5, 0, False),
        (float("nan"), 0, False),
    ],
)
def test_a_latency_is_stated_from_ten_times_the_uncertainty_on(latency, uncertainty, stated):
    good, tried = ClockSync(0, "exact"), ClockSync(uncertainty, "tried")
    assert (clocks.why_not_one_way(latency, tried, good) is None) == stated
    assert (clocks.why_not_one_way(latency, good, tried) is None) == stated


def test_a_refusal_tells_when_it_came_up():
    good = ClockSync(0, "exact")
    found = clocks.why_not_one_way(1000, good, ClockSyncFailure("two grandmasters"))
    assert found == ClockSyncFailure("after the run: two grandmasters")
    found = clocks.why_not_one_way(1000, ClockSync(500, "linuxptp"), good)
    assert found is not None
    assert "before the run the clocks are synchronized to 500 ns (linuxptp)" in found.reason


SENT = TalkerResult(
    clock="tai",
    tai_offset_s=37,
    clock_step_ns=4,
    stamp_clock="none",
    ended_by="count",
    payload_bytes=18,
    attempts=1,
    sent=1,
    send_errors={},
    refused_reports=0,
    late=0,
    unsent=0,
    late_tolerance_ns=10_000,
    worst_late_ns=0,
    txtime_missed=0,
    txtime_invalid=0,
    missing_stamps=0,
    start_ns=1,
    first_ns=1,
    last_ns=1,
    achieved_pps=None,
    payload_mbps=None,
)
GOT = ListenerResult("tai", 37, -9, "tai", "count", 1, 0, {}, [PortReport(**STREAM)])


@pytest.mark.parametrize("receipt", ["application", "kernel"])
@pytest.mark.parametrize("stamp_clock", ["tai", "phc"])
def test_times_of_one_clock_compare(receipt, stamp_clock):
    got = replace(GOT, stamp_clock=stamp_clock)
    assert clocks.why_not_these_clocks(SENT, got, receipt) is None


@pytest.mark.parametrize(
    ("sent", "got", "said"),
    [
        ({}, {"clock": "realtime"}, "talker's times are on tai, the listener's on realtime"),
        ({}, {"tai_offset_s": 0}, "37 s ahead of UTC at the talker and 0 s"),
        ({"clock_step_ns": -20_000}, {}, "talker's clock was set by -20000 ns"),
        ({}, {"clock_step_ns": 10_001}, "listener's clock was set by 10001 ns"),
        ({}, {"stamp_clock": "none"}, "receive time stamping was not enabled"),
        (
            {"clock": "realtime"},
            {"clock": "realtime", "stamp_clock": "phc"},
            "stamps are on TAI, the talker's times on realtime",
        ),
    ],
)
def test_times_of_two_clocks_do_not_compare(sent, got, said):
    found = clocks.why_not_these_clocks(replace(SENT, **sent), replace(GOT, **got), "kernel")
    assert found is not None
    assert said in found.reason


# --- real clocks ----------------------------------------------------------------------------


class ThisMachine:
    """A host whose commands run here; its boot identity may be another's."""

    def __init__(self, name: str, boot_id: str | None = None) -> None:
        self.name, self._boot_id = name, boot_id

    def run(self, argv: list[str], *, deadline_s: float) -> Completed:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=deadline_s, check=False)
        out = done.stdout
        if self._boot_id and "--show-clock" in " ".join(argv):
            out = self._boot_id + out[out.index("\n") :]
        return Completed(self.name, tuple(argv), done.returncode, out, done.stderr, 0.0, 0.0)

    def start(self, argv: list[str], *, deadline_s: float):
        raise NotImplementedError


@pytest.fixture(scope="module")
def programs():
    return str(streams.talker()), str(streams.listener())


def test_this_machine_agrees_with_itself(programs):
    found = clocks.compare_clocks(ThisMachine("talker"), ThisMachine("listener"), programs)
    assert isinstance(found, ClockSync)
    assert found.method == "one kernel, one clock"
    assert found.uncertainty_ns <= 1000


def test_machines_apart_without_a_time_service_do_not_agree(programs):
    found = clocks.compare_clocks(ThisMachine("talker"), ThisMachine("b", "other"), programs)
    assert isinstance(found, ClockSyncFailure)
    assert "no time service" in found.reason


def test_show_clock_reads_this_machines_clocks(programs):
    before = time.clock_gettime_ns(time.CLOCK_TAI)
    reading = clocks.read_clocks(ThisMachine("talker"), programs[0])
    assert before <= reading.tai_ns <= time.clock_gettime_ns(time.CLOCK_TAI)
    with open("/proc/sys/kernel/random/boot_id") as file:
        assert reading.boot_id == file.read().strip()


PTP4L = """\
[global]
time_stamping software
network_transport L2
free_running 1
slaveOnly {receiver}
logAnnounceInterval -2
logSyncInterval -4
logMinDelayReqInterval -4
uds_address {folder}/ptp4l-{receiver}
[v{receiver}]
"""
# Two namespaces, one pair of cards; what is started in them ends with them.
DOMAIN = """\
set -e
ip link set lo up
unshare --net --kill-child sleep 60 & other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
ip link add v0 type veth peer name v1 netns $other
ip link set v0 up
nsenter --target $other --net ip link set v1 up
ptp4l -f "$1/conf-0" &
nsenter --target $other --net ptp4l -f "$1/conf-1" &
echo up
wait
"""


@pytest.fixture
def ptp_domain(tmp_path):
    """Return the services of a transmitter and a receiver that follows it without steering."""
    for receiver in (0, 1):
        conf = PTP4L.format(receiver=receiver, folder=tmp_path)
        (tmp_path / f"conf-{receiver}").write_text(textwrap.dedent(conf))
    argv = ["unshare", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
    with subprocess.Popen(
        [*argv, "sh", "-c", DOMAIN, "sh", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield [clocks.TimeService(uds_address=f"{tmp_path}/ptp4l-{n}") for n in (0, 1)]
        process.kill()


@pytest.mark.namespaces
@pytest.mark.skipif(
    not (shutil.which("ptp4l") and shutil.which("pmc")) or os.geteuid() != 0,
    reason="needs linuxptp and root",
)
def test_a_real_ptp4l_is_asked(ptp_domain, programs):
    """Both read one clock, so the offset is the noise of software stamps: below a millisecond."""
    talker, listener = ThisMachine("talker"), ThisMachine("listener", "other")
    end = time.monotonic() + 30
    while True:
        printed = [
            host.run(clocks.pmc(service), deadline_s=10).stdout
            for host, service in zip((talker, listener), ptp_domain, strict=True)
        ]
        if "meanPathDelay    0.0" not in printed[1] and "meanPathDelay" in printed[1]:
            break
        assert time.monotonic() < end, printed
        time.sleep(0.2)
    states = [linuxptp.parse_ptp_state(text) for text in printed]
    assert states[0].grandmaster == states[1].grandmaster
    assert [state.steps_removed for state in states] == [0, 1]
    assert abs(states[1].offset_ns) < 1_000_000
    assert 0 < states[1].mean_path_delay_ns < 1_000_000
    # A receiver that follows without steering stays uncalibrated, and is no basis for a latency.
    found = clocks.compare_clocks(talker, listener, programs, tuple(ptp_domain))
    assert found == ClockSyncFailure("the listener's PTP ports are UNCALIBRATED, none SLAVE")
