"""The stall meter: what it sees of stalls that are made, and what it costs."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from sound_outputs import PROCESSOR, STALLS

from tsnrepro.common.errors import ToolError
from tsnrepro.native import streams
from tsnrepro.native.streams.command import READY
from tsnrepro.native.streams.stalls import StallReport, parse_stalls, stall_meter

pytestmark = pytest.mark.timed
DEADLINE_SECONDS = 60
# A program that no ordinary one interrupts, on one processor, for some milliseconds at a time.
HOLDING = """
import os, sys, time
processor, times, hold_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
os.sched_setaffinity(0, {processor})
for _ in range(times):
    time.sleep(0.05)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    end = time.monotonic() + hold_s
    while time.monotonic() < end:
        pass
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
"""


class Meter:
    """A stall meter that runs; :meth:`report` ends it."""

    def __init__(self, **options) -> None:
        argv = stall_meter(str(streams.stallmeter()), **options)
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == READY

    def report(self) -> StallReport:
        self.process.terminate()
        out, _ = self.process.communicate(timeout=DEADLINE_SECONDS)
        assert self.process.returncode == 0
        return parse_stalls(out)


@pytest.fixture
def meter():
    """Return the maker of stall meters; one that still runs after the test is ended."""
    made = []

    def make(**options) -> Meter:
        made.append(Meter(**options))
        return made[-1]

    yield make
    for one in made:
        one.process.kill()
        one.process.wait()


def of_processor(report: StallReport, number: int):
    return next(each for each in report.processors if each.processor == number)


def test_every_processor_is_watched(meter):
    running = meter()
    time.sleep(0.3)
    report = running.report()
    assert {each.processor for each in report.processors} == os.sched_getaffinity(0)
    assert report.seconds == pytest.approx(0.3, abs=0.2)
    for each in report.processors:
        # From 0.25 to 8 ms and a quarter lie between two checks, stalls aside.
        free_s = report.seconds - each.stalled_ns / 1e9
        assert free_s / 0.0105 - 2 < each.checks < free_s / 0.00018 + 2


@pytest.mark.skipif(os.geteuid() != 0, reason="real-time priority needs a right")
def test_a_processor_that_was_held_is_seen(meter):
    """Ten times 8 ms, each longer than what may lie between two checks."""
    processor, times, hold_s = min(os.sched_getaffinity(0)), 10, 0.012
    running = meter()
    time.sleep(0.05)
    argv = [sys.executable, "-c", HOLDING, str(processor), str(times), str(hold_s)]
    subprocess.run(argv, check=True, timeout=DEADLINE_SECONDS)
    found = of_processor(running.report(), processor)
    assert found.stalls >= times
    # What is left of a stall at the check that falls into it.
    assert found.longest_ns >= 4e6
    assert found.stalled_ns >= times * 2e6


def test_a_stop_is_one_stall_with_its_length_and_time(meter):
    running = meter()
    time.sleep(0.1)
    before = time.clock_gettime_ns(time.CLOCK_TAI)
    running.process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    running.process.send_signal(signal.SIGCONT)
    after = time.clock_gettime_ns(time.CLOCK_TAI)
    time.sleep(0.1)
    for each in running.report().processors:
        stopped = [(at, late) for at, late in each.kept if late > 0.25e9]
        assert len(stopped) == 1
        # A program that is let go on runs a moment later, and may be late for that too. Where it
        # was late already when it was stopped, the stall began then.
        assert before - 0.1e9 < stopped[0][0] < after + 0.1e9
        assert stopped[0][1] == each.longest_ns < (after - before) + 0.1e9


def test_it_keeps_to_its_budget(meter):
    running = meter()
    time.sleep(2)
    report = running.report()
    # The budget is one per cent; beside other tests each wake-up costs more than it measured first.
    assert 0 < report.cost < 0.03


def test_a_tenth_of_the_budget_is_a_tenth_of_the_checks(meter):
    rich, poor = meter(budget_ppm=8000), meter(budget_ppm=2500)
    time.sleep(1)
    reports = [each.report() for each in (rich, poor)]
    checks = [sum(each.checks for each in report.processors) for report in reports]
    assert checks[1] < checks[0]


def test_a_threshold_that_nothing_reaches_counts_no_stall(meter):
    running = meter(threshold_us=10_000_000)
    time.sleep(0.2)
    report = running.report()
    assert (report.stalls, report.stalled_share) == (0, 0.0)
    assert report.longest_ns > 0
    assert not any(each.kept for each in report.processors)


def test_it_ends_by_itself():
    argv = stall_meter(str(streams.stallmeter()), seconds=0.2)
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert parse_stalls(done.stdout).seconds == pytest.approx(0.2, abs=0.2)


# Threads that get to run only when the meter has to end.
LATE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

int pthread_barrier_wait(pthread_barrier_t *barrier)
{
	int (*real)(pthread_barrier_t *) = dlsym(RTLD_NEXT, "pthread_barrier_wait");
	int status = real(barrier);
	if (gettid() != getpid())
		usleep(100000);
	return status;
}
"""


def test_it_may_end_before_its_first_check(tmp_path):
    source, library = tmp_path / "late.c", tmp_path / "late.so"
    source.write_text(LATE)
    subprocess.run(["clang", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    done = subprocess.run(
        stall_meter(str(streams.stallmeter()), seconds=0.01),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
        env=os.environ | {"LD_PRELOAD": str(library)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = parse_stalls(done.stdout)
    assert {each.checks for each in report.processors} == {0}
    assert report.values()["cost"] == 0


# --- reports ------------------------------------------------------------------------------------


def test_what_a_record_keeps():
    values = parse_stalls("ready\n" + json.dumps(STALLS)).values()
    assert values["longest_ms"] == 4.0
    assert values["stalls"] == 2
    assert values["stalled_share"] == pytest.approx(0.001)
    assert values["cost"] == pytest.approx(0.004)
    assert values["processors"]["1"] == {
        "checks": 1000,
        "stalls": 2,
        "stalled_ms": 5.0,
        "longest_ms": 4.0,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"processors": []}, "processors is \\[\\]"),
        ({"processors": [{**PROCESSOR, "stalls": 1}]}, "1 stalls at 1000 checks, 2 of them kept"),
        ({"processors": [{**PROCESSOR, "stalls": 1001}]}, "1001 stalls at 1000 checks"),
        ({"processors": [{**PROCESSOR, "kept": [1]}]}, "kept.0 is 1"),
        ({"processors": [{"processor": 1}]}, "lacks processors.0.checks"),
        ({"seconds": "long"}, "seconds is 'long'"),
        ({"tool": "listener"}, "not the report of a stallmeter"),
    ],
)
def test_a_report_that_cannot_be_is_refused(change, message):
    with pytest.raises(ToolError, match=message):
        parse_stalls(json.dumps(STALLS | change))
