"""Agreement of clocks: who is refused and why, and real clocks."""

import subprocess
import time
from dataclasses import replace

import pytest

from tsnrepro.streams import build, clocks
from tsnrepro.streams.clocks import Agreement, ClockReading, Refusal
from tsnrepro.streams.command import ListenerResult, TalkerResult
from tsnrepro.testbed.host import Completed

MS = 1_000_000
FIRST = ClockReading("one", 100 * MS, 10 * MS, 37, 1)
OTHER = ClockReading("two", 102 * MS, 999 * MS, 37, 1)
LAST = ClockReading("one", 104 * MS, 14 * MS, 37, 1)


def test_one_kernel_is_one_clock():
    other = replace(OTHER, boot_id="one", monotonic_ns=12 * MS)
    found = clocks.judge_one_kernel(FIRST, other, LAST)
    assert found == Agreement(
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
    found = clocks.judge_one_kernel(FIRST, replace(OTHER, boot_id="one", **change), LAST)
    assert isinstance(found, Refusal)
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
    good, tried = Agreement(0, "exact"), Agreement(uncertainty, "tried")
    assert (clocks.why_not_one_way(latency, tried, good) is None) == stated
    assert (clocks.why_not_one_way(latency, good, tried) is None) == stated


def test_a_refusal_tells_when_it_came_up():
    good = Agreement(0, "exact")
    found = clocks.why_not_one_way(1000, good, Refusal("two grandmasters"))
    assert found == Refusal("after the run: two grandmasters")
    found = clocks.why_not_one_way(1000, Agreement(500, "linuxptp"), good)
    assert found is not None
    assert "before the run the clocks agree within 500 ns (linuxptp)" in found.reason


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
GOT = ListenerResult("tai", 37, -9, "tai", "count", 1, 0, {}, ())


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
        ({}, {"stamp_clock": "none"}, "not asked for receive stamps"),
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
    made = build.programs()
    return str(made.talker), str(made.listener)


def test_this_machine_agrees_with_itself(programs):
    found = clocks.clock_agreement(ThisMachine("talker"), ThisMachine("listener"), programs)
    assert isinstance(found, Agreement)
    assert found.method == "one kernel, one clock"
    assert found.uncertainty_ns <= 1000


def test_machines_apart_without_a_time_service_do_not_agree(programs):
    found = clocks.clock_agreement(ThisMachine("talker"), ThisMachine("b", "other"), programs)
    assert isinstance(found, Refusal)
    assert "no time service" in found.reason


def test_show_clock_reads_this_machines_clocks(programs):
    before = time.clock_gettime_ns(time.CLOCK_TAI)
    reading = clocks.read_clocks(ThisMachine("talker"), programs[0])
    assert before <= reading.tai_ns <= time.clock_gettime_ns(time.CLOCK_TAI)
    with open("/proc/sys/kernel/random/boot_id") as file:
        assert reading.boot_id == file.read().strip()
