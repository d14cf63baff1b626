"""Talker and listener with real sockets: exact counts, times in order, clean ends."""

import os
import signal
import socket
import struct
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from talker_logs import pacing_errors, read_talker_log

from tsnrepro.native.streams import command
from tsnrepro.native.streams.command import Pacing, StopCondition
from tsnrepro.native.streams.delivery import deliver, of_stream, one_way
from tsnrepro.native.streams.log import read_listener_log

pytestmark = pytest.mark.timed
COUNT = 3000
INTERVAL_NS = 50_000


def send_raw(port: int, payloads: list[bytes]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for payload in payloads:
            out.sendto(payload, ("127.0.0.1", port))


def numbered(*numbers: int) -> list[bytes]:
    return [struct.pack(">IQ", number, time.time_ns()) for number in numbers]


@pytest.mark.parametrize("payload", [12, 18, 1472, 9000])
@pytest.mark.parametrize("burst", [1, 7])
def test_every_datagram_is_counted_at_both_ends(loopback, ports, tmp_path, payload, burst):
    (port,) = ports()
    log, sent_log = tmp_path / "arrivals", tmp_path / "sent"
    listening = loopback.listen([port], StopCondition(count=COUNT, seconds=30), log=str(log))
    sent = loopback.talk(
        port,
        Pacing(INTERVAL_NS * burst, burst=burst),
        StopCondition(count=COUNT),
        payload_bytes=payload,
        log=str(sent_log),
        stream=9,
    )
    got = listening.result()
    stream = got.stream(port)
    assert (sent.sent, sent.attempts, sent.send_errors) == (COUNT, COUNT, {})
    assert (sent.ended_by, got.ended_by) == ("count", "count")
    assert (stream.received, stream.unique, stream.duplicates) == (COUNT, COUNT, 0)
    assert (stream.out_of_order, stream.socket_drops) == (0, 0)
    assert stream.bytes == COUNT * payload
    arrivals, departures = read_listener_log(log), read_talker_log(sent_log)
    assert len(arrivals) == got.logged == COUNT
    assert set(departures["stream"]) == {9}
    assert set(arrivals["stream"]) == {port}
    np.testing.assert_array_equal(arrivals["sequence"], np.arange(COUNT))
    np.testing.assert_array_equal(arrivals["sent_ns"], departures["sent_ns"])
    assert (arrivals["received_ns"] > arrivals["sent_ns"]).all()
    assert (stream.first_ns, stream.last_ns) == tuple(arrivals["received_ns"][[0, -1]])
    assert (sent.first_ns, sent.last_ns) == tuple(departures["sent_ns"][[0, -1]])
    found = deliver(sent.sent, arrivals)
    assert found.lost == found.duplicated == found.reordered == 0
    assert found.longest_gap is not None
    assert found.longest_gap.duration_ns == stream.longest_gap_ns
    assert found.longest_gap.after_sequence == stream.longest_gap_after


def test_a_second_rate_follows_without_a_pause(loopback, ports, tmp_path):
    (port,) = ports()
    log = tmp_path / "sent"
    loopback.listen([port], StopCondition(count=300, seconds=20))
    pacing = Pacing(INTERVAL_NS, then_after=100, then_interval_ns=3 * INTERVAL_NS)
    sent = loopback.talk(port, pacing, StopCondition(count=300), log=str(log))
    records = read_talker_log(log)
    assert sent.sent == 300
    gaps = np.diff(records["slot_ns"].astype(np.int64))
    assert (gaps[:99] == INTERVAL_NS).all()
    assert (gaps[100:] == 3 * INTERVAL_NS).all()
    assert gaps[99] == 3 * INTERVAL_NS, "the slot after the hundredth is the second rate's"


def test_random_slots_are_a_poisson_process_that_a_seed_repeats(loopback, ports, tmp_path):
    port, mean_ns = ports()[0], 200_000

    def slots(seed, seconds=1.0):
        log = tmp_path / f"sent-{seed}"
        sent = loopback.talk(
            port, Pacing(mean_ns, poisson=seed), StopCondition(seconds=seconds), log=str(log)
        )
        return read_talker_log(log)["slot_ns"].astype(np.int64) - sent.start_ns

    loopback.listen([port], StopCondition(seconds=20))
    first, again, other = slots(7), slots(7), slots(8)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[:100], other[:100])
    for found in (first, other):
        gaps = np.diff(found, prepend=0)
        assert stats.kstest(gaps, "expon", args=(0, mean_ns)).pvalue > 1e-3
        # Gaps of such a process do not depend on each other, and its counts scatter by their root.
        assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 4 / np.sqrt(len(gaps))
        assert len(found) == pytest.approx(5000, abs=4 * np.sqrt(5000))


def test_slots_stand_on_the_grid_whatever_happened_before(loopback, ports, tmp_path):
    """Absolute pacing: slot k is wanted at start + k x interval, sent no earlier, in order."""
    (port,) = ports()
    log = tmp_path / "sent"
    loopback.listen([port], StopCondition(seconds=20))
    sent = loopback.talk(
        port, Pacing(INTERVAL_NS, late_ns=0), StopCondition(seconds=0.2), log=str(log)
    )
    records = read_talker_log(log)
    assert sent.ended_by == "time"
    assert sent.sent == len(records) == 0.2e9 / INTERVAL_NS
    wanted = sent.start_ns + np.arange(len(records)) * INTERVAL_NS
    np.testing.assert_array_equal(records["slot_ns"], wanted)
    errors = pacing_errors(records)
    assert errors.min() >= 0
    assert (np.diff(records["sent_ns"].astype(np.int64)) > 0).all()
    assert 0 <= sent.late <= sent.sent
    # The clock is read once more between deciding that a slot is due and sending it.
    assert sent.worst_late_ns <= errors.max()
    assert sent.achieved_pps == pytest.approx(
        (sent.sent - 1) * 1e9 / (sent.last_ns - sent.first_ns)
    )
    assert sent.payload_mbps == pytest.approx(sent.achieved_pps * 18 * 8 / 1e6)


def test_a_stalled_talker_counts_late_slots_and_catches_up(loopback, ports, tmp_path):
    (port,) = ports()
    log = tmp_path / "sent"
    loopback.listen([port], StopCondition(seconds=20))
    argv = loopback.argv(port, Pacing(1_000_000), StopCondition(count=1000), log=str(log))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(0.3)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=30)
    sent = command.parse_talker(out)
    errors = pacing_errors(read_talker_log(log))
    assert sent.sent == 1000
    assert sent.late >= 150
    assert sent.worst_late_ns >= 150_000_000
    # Each slot held up for the stall waits about a millisecond less than the one before it; what
    # else runs here may hold it up again.
    stalled = int(np.argmax(errors))
    assert np.count_nonzero(np.diff(errors[stalled : stalled + 100]) < 0) > 80


def test_the_first_slot_is_at_the_phase_of_a_cycle(loopback, ports):
    (port,) = ports()
    loopback.listen([port], StopCondition(seconds=20))
    pacing = Pacing(1_000_000, cycle_ns=10_000_000, phase_ns=300_000)
    sent = loopback.talk(port, pacing, StopCondition(count=5))
    assert sent.start_ns % 10_000_000 == 300_000
    assert sent.first_ns >= sent.start_ns


def test_the_first_slot_is_at_the_given_time(loopback, ports):
    (port,) = ports()
    loopback.listen([port], StopCondition(seconds=20))
    start = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 300_000_000
    sent = loopback.talk(
        port, Pacing(1000, start_ns=start), StopCondition(count=1), clock="monotonic"
    )
    assert (sent.start_ns, sent.clock) == (start, "monotonic")
    assert sent.first_ns >= start


def test_a_start_that_is_past_is_refused(loopback, ports):
    argv = loopback.argv(ports()[0], Pacing(1000, start_ns=5), StopCondition(count=1))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "--start-ns 5 is" in done.stderr
    assert "ago on clock tai" in done.stderr


@pytest.mark.parametrize("stamps", ["software", "queued"])
@pytest.mark.parametrize("clock", ["tai", "realtime", "monotonic"])
def test_all_times_are_on_the_clock_chosen(loopback, ports, tmp_path, clock, stamps):
    (port,) = ports()
    log, sent_log = tmp_path / "arrivals", tmp_path / "sent"
    listening = loopback.listen(
        [port],
        StopCondition(count=200, seconds=20),
        log=str(log),
        clock=clock,
        timestamps="software",
    )
    sent = loopback.talk(
        port,
        Pacing(200_000),
        StopCondition(count=200),
        clock=clock,
        log=str(sent_log),
        timestamps=stamps,
    )
    got = listening.result()
    arrivals, departures = read_listener_log(log), read_talker_log(sent_log)
    assert (got.clock, got.stamp_clock, sent.clock, sent.stamp_clock) == (clock,) * 4
    assert got.stream(port).missing_stamps == np.count_nonzero(arrivals["stamped_ns"] == 0)
    assert sent.missing_stamps == np.count_nonzero(departures["stamped_ns"] == 0)
    stamped = (arrivals["stamped_ns"] != 0) & (departures["stamped_ns"] != 0)
    assert np.count_nonzero(stamped) > 150
    # Software stamps pass through a reading of two clocks, which takes a moment.
    slack = 0 if clock == "realtime" else 50_000
    ordered = [
        departures["sent_ns"][stamped].astype(np.int64),
        departures["stamped_ns"][stamped].astype(np.int64),
        arrivals["stamped_ns"][stamped].astype(np.int64),
        arrivals["received_ns"][stamped].astype(np.int64),
    ]
    for earlier, later in pairwise(ordered):
        assert np.count_nonzero(later < earlier - slack) <= 2
    whole = one_way(arrivals, "application")
    assert whole.missing_stamps == 0
    kernel = one_way(arrivals, "kernel")
    assert kernel.missing_stamps == got.stream(port).missing_stamps
    assert np.median(kernel.latency_ns) < np.median(whole.latency_ns)


def test_several_ports_are_several_streams(loopback, ports, tmp_path):
    first, second = ports(2)
    log = tmp_path / "arrivals"
    listening = loopback.listen([first, second], StopCondition(count=300, seconds=20), log=str(log))
    loopback.talk(first, Pacing(100_000), StopCondition(count=100))
    loopback.talk(second, Pacing(100_000), StopCondition(count=200))
    got = listening.result()
    assert [s.port for s in got.streams] == [first, second]
    assert [s.unique for s in got.streams] == [100, 200]
    records = read_listener_log(log)
    assert [len(of_stream(records, port)) for port in (first, second)] == [100, 200]


def test_duplicates_and_reordering_are_distinguished(loopback, ports, tmp_path):
    """The sequence of the example: 4 and 5 come after 7, a second 2 comes late."""
    (port,) = ports()
    log = tmp_path / "arrivals"
    order = [0, 1, 2, 3, 7, 4, 5, 2, 8, 8, 6]
    listening = loopback.listen([port], StopCondition(count=len(order), seconds=20), log=str(log))
    send_raw(port, numbered(*order))
    stream = listening.result().stream(port)
    assert (stream.received, stream.unique, stream.duplicates) == (11, 9, 2)
    assert stream.out_of_order == 3
    found = deliver(10, read_listener_log(log))
    assert (found.lost, found.duplicated, found.reordered) == (1, 2, 3)
    assert found.loss_runs.tolist() == [[9, 1]]


def test_a_number_far_off_is_taken_as_it_is(loopback, ports):
    (port,) = ports()
    listening = loopback.listen([port], StopCondition(count=3, seconds=20))
    send_raw(port, numbered(2**32 - 1, 0, 2**32 - 1))
    stream = listening.result().stream(port)
    assert (stream.unique, stream.duplicates, stream.out_of_order) == (2, 1, 1)


def test_a_datagram_without_room_for_the_head_is_counted_apart(loopback, ports, tmp_path):
    (port,) = ports()
    log = tmp_path / "arrivals"
    listening = loopback.listen([port], StopCondition(count=1, seconds=20), log=str(log))
    send_raw(port, [b"", b"short", *numbered(0)])
    got = listening.result()
    assert got.stream(port).short_datagrams == 2
    assert got.stream(port).received == got.logged == len(read_listener_log(log)) == 1


def test_silence_ends_a_listener_after_the_first_datagram_only(loopback, ports):
    (port,) = ports()
    listening = loopback.listen([port], StopCondition(seconds=30), quiet_ms=100)
    time.sleep(0.4)
    assert listening.process.poll() is None
    loopback.talk(port, Pacing(1_000_000), StopCondition(count=20))
    assert listening.result().ended_by == "quiet"


def test_a_listener_that_hears_nothing_ends_in_time_and_reports_it(loopback, ports):
    (port,) = ports()
    got = loopback.listen([port], StopCondition(seconds=0.2), quiet_ms=50).result()
    stream = got.stream(port)
    assert got.ended_by == "time"
    assert (stream.received, stream.first_ns, stream.longest_gap_ns) == (0, None, None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_both_and_nothing_is_lost(loopback, ports, tmp_path, number):
    (port,) = ports()
    log, sent_log = tmp_path / "arrivals", tmp_path / "sent"
    listening = loopback.listen([port], log=str(log))
    argv = loopback.argv(port, Pacing(1_000_000), StopCondition(), log=str(sent_log))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(0.3)
        process.send_signal(number)
        out, _ = process.communicate(timeout=10)
    assert process.returncode == 0
    sent = command.parse_talker(out)
    time.sleep(0.1)
    listening.process.send_signal(number)
    got = listening.result()
    assert (sent.ended_by, got.ended_by) == ("signal", "signal")
    assert got.stream(port).unique == sent.sent == len(read_talker_log(sent_log)) > 10
    assert len(read_listener_log(log)) == got.logged == sent.sent


def test_a_signal_ends_a_long_wait(loopback, ports):
    argv = loopback.argv(ports()[0], Pacing(3_000_000_000_000), StopCondition())
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(0.3)
        process.terminate()
        out, _ = process.communicate(timeout=10)
    assert command.parse_talker(out).sent == 1


def test_saturation_loses_nothing_unaccounted(loopback, ports):
    """What the socket's buffer had no room for is counted by the socket."""
    (port,) = ports()
    listening = loopback.listen(
        [port], StopCondition(seconds=20), quiet_ms=500, buffer_bytes=100_000
    )
    sent = loopback.talk(port, Pacing(None), StopCondition(count=100_001), payload_bytes=1000)
    stream = listening.result().stream(port)
    assert sent.sent == 100_001
    assert stream.unique + stream.socket_drops == sent.sent


def test_logs_longer_than_a_chunk_are_whole(loopback, ports, tmp_path):
    """Three chunks of 65,536 records and a rest; the numbers say that none is missing."""
    (port,) = ports()
    log, sent_log = tmp_path / "arrivals", tmp_path / "sent"
    listening = loopback.listen([port], StopCondition(seconds=30), quiet_ms=1000, log=str(log))
    sent = loopback.talk(port, Pacing(None), StopCondition(count=200_001), log=str(sent_log))
    got = listening.result()
    arrivals, departures = read_listener_log(log), read_talker_log(sent_log)
    assert len(departures) == sent.sent == 200_001
    assert not departures["slot_ns"].any()
    assert len(arrivals) == got.logged == got.stream(port).received
    found = deliver(sent.sent, arrivals)
    assert found.duplicated == found.reordered == 0
    assert found.lost == got.stream(port).socket_drops
    np.testing.assert_array_equal(arrivals["sent_ns"], departures["sent_ns"][arrivals["sequence"]])


def test_the_receive_buffer_is_as_large_as_requested(loopback, ports):
    """On the kernel's own scale: net.core.rmem_default is what a socket has that asks for none."""
    default = int(Path("/proc/sys/net/core/rmem_default").read_text())
    for requested, got in ((None, default), (3_000_000, 3_000_000)):
        (port,) = ports()
        listening = loopback.listen([port], StopCondition(seconds=0.1), buffer_bytes=requested)
        assert listening.result().stream(port).buffer_bytes == got


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="a capability is taken away from root")


def refused(argv: list[str], capability: str) -> str:
    """Return what a program prints that fails without a capability."""
    without = ["setpriv", "--bounding-set", f"-{capability}"]
    done = subprocess.run([*without, *argv], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


@as_root
def test_a_buffer_beyond_the_limit_without_the_right_names_what_lacks(loopback, ports):
    most = 2 * int(Path("/proc/sys/net/core/rmem_max").read_text())
    argv = command.listener(loopback.listener, ports(), StopCondition(), buffer_bytes=4 * most)
    message = refused(argv, "net_admin")
    assert f"the socket's buffer is {most} bytes, not {4 * most}" in message
    assert "CAP_NET_ADMIN" in message
    assert "net.core.rmem_max" in message


@as_root
def test_only_the_thread_that_reads_runs_in_real_time(loopback, ports, tmp_path):
    (port,) = ports()
    listening = loopback.listen(
        [port], StopCondition(seconds=20), realtime=7, log=str(tmp_path / "arrivals")
    )
    pid = listening.process.pid
    policies = {
        int(task): os.sched_getscheduler(int(task)) for task in os.listdir(f"/proc/{pid}/task")
    }
    assert policies.pop(pid) == os.SCHED_FIFO
    assert os.sched_getparam(pid).sched_priority == 7
    assert list(policies.values()) == [os.SCHED_OTHER]
    sent = loopback.talk(port, Pacing(None), StopCondition(count=1000))
    time.sleep(0.2)
    listening.process.terminate()
    got = listening.result()
    assert (got.realtime_priority, got.stream(port).unique) == (7, sent.sent)


@as_root
def test_real_time_without_the_right_names_what_lacks(loopback, ports):
    argv = command.listener(loopback.listener, ports(), StopCondition(), realtime=1)
    assert "CAP_SYS_NICE" in refused(argv, "sys_nice")


@as_root
def test_launch_times_without_the_right_name_what_lacks(loopback, ports):
    argv = loopback.argv(ports()[0], Pacing(1000), StopCondition(count=1), txtime_ahead_ns=1000)
    assert "--txtime needs CAP_NET_ADMIN" in refused(argv, "net_admin")


def test_datagrams_to_nobody_are_sent_and_reported(loopback, ports):
    sent = loopback.talk(ports()[0], Pacing(1_000_000), StopCondition(count=50))
    assert (sent.sent, sent.attempts) == (50, 50)
    assert sent.refused_reports > 0


def test_a_talker_that_cannot_keep_up_ends_and_reports_what_it_owed(loopback, ports):
    """A datagram a nanosecond is more than any host sends."""
    (port,) = ports()
    loopback.listen([port], StopCondition(seconds=20))
    sent = loopback.talk(port, Pacing(1, burst=3), StopCondition(seconds=0.5))
    assert sent.ended_by == "time"
    assert sent.unsent > 0
    assert sent.sent + sent.unsent == 0.5e9 * 3
    # It gives up a tenth later, but not what it had begun to send.
    assert sent.last_ns - sent.start_ns < 0.56e9


def test_bursts_of_different_length_follow_each_other(loopback, ports, tmp_path):
    (port,) = ports()
    sent_log = tmp_path / "sent"
    listening = loopback.listen([port], StopCondition(count=24, seconds=30))
    pacing = Pacing(5_000_000, burst=(5, 2, 1))
    sent = loopback.talk(port, pacing, StopCondition(count=24), log=str(sent_log))
    assert (sent.sent, listening.result().stream(port).unique) == (24, 24)
    _, sizes = np.unique(read_talker_log(sent_log)["slot_ns"], return_counts=True)
    assert list(sizes) == [5, 2, 1] * 3


def test_what_is_owed_counts_the_bursts_that_follow(loopback, ports):
    (port,) = ports()
    loopback.listen([port], StopCondition(seconds=20))
    sent = loopback.talk(port, Pacing(1, burst=(5, 2, 1)), StopCondition(seconds=0.3))
    # 100 million rounds of eight.
    assert sent.sent + sent.unsent == 8e8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "0"], "--port takes a whole number from 1 to 65535, not '0'"),
        (["--payload", "11"], "--payload takes a whole number from 12 to 65507, not '11'"),
        (["--payload", "12x"], "not '12x'"),
        (["--interval-ns", "-5"], "not '-5'"),
        (["--burst", "4,0"], "--burst takes a whole number from 1 to 1024, not '0'"),
        (["--burst", ","], "--burst takes one number or several separated by commas"),
        (["--saturate"], "exactly one of --interval-ns and --saturate"),
        (["--address", "here"], "--address takes an IPv4 address, not 'here'"),
        (["--clock", "utc"], "--clock takes tai, realtime or monotonic, not 'utc'"),
        (["--timestamps", "software"], "--timestamps needs --log"),
        (["--poisson", "-1"], "--poisson takes a whole number from 0"),
        (["--txtime"], "--txtime and --txtime-ahead-ns go together"),
        (["--phase-ns", "5"], "--phase-ns must be below --cycle-ns"),
        (["--device", "nowhere0"], "device nowhere0"),
        (["--bind", "203.0.113.9"], "--bind"),
        (["extra"], "unexpected argument 'extra'"),
    ],
)
def test_a_talker_names_the_wrong_option(loopback, ports, arguments, message):
    argv = loopback.argv(ports()[0], Pacing(1000), StopCondition(count=1))
    done = subprocess.run([*argv, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr


def test_a_port_in_use_is_named(loopback, ports):
    (port,) = ports()
    loopback.listen([port])
    argv = command.listener(loopback.listener, [port], StopCondition(seconds=1), bind="127.0.0.1")
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"UDP port {port} cannot be bound: Address already in use" in done.stderr
    assert command.READY not in done.stdout


def test_a_log_that_cannot_be_written_is_named(loopback, ports):
    argv = command.listener(
        loopback.listener, ports(), StopCondition(seconds=1), log="/nowhere/arrivals"
    )
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "/nowhere/arrivals" in done.stderr


def test_a_full_disk_is_no_whole_log(loopback, ports):
    (port,) = ports()
    listening = loopback.listen([port], StopCondition(count=10, seconds=20), log="/dev/full")
    send_raw(port, numbered(*range(10)))
    out, err = listening.process.communicate(timeout=20)
    assert listening.process.returncode == 1
    assert "{" not in out
    assert "/dev/full is incomplete: No space left on device" in err


def test_launch_times_are_what_the_payload_carries(loopback, ports, tmp_path):
    """Without an etf queue the kernel sends at once; the payload names the launch time."""
    (port,) = ports()
    log, sent_log = tmp_path / "arrivals", tmp_path / "sent"
    listening = loopback.listen([port], StopCondition(count=50, seconds=20), log=str(log))
    argv = loopback.argv(
        port,
        Pacing(1_000_000),
        StopCondition(count=50),
        log=str(sent_log),
        txtime_ahead_ns=5_000_000,
    )
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    if "CAP_NET_ADMIN" in done.stderr:
        pytest.skip("SO_TXTIME needs CAP_NET_ADMIN here")
    sent = command.parse_talker(done.stdout)
    listening.result()
    arrivals, departures = read_listener_log(log), read_talker_log(sent_log)
    assert sent.sent == 50
    np.testing.assert_array_equal(arrivals["sent_ns"], departures["slot_ns"])
    ahead = departures["slot_ns"].astype(np.int64) - departures["sent_ns"].astype(np.int64)
    # A talker that the scheduler held up sends late; none is handed over earlier than requested.
    assert ahead.max() <= 5_000_000
    assert ahead.max() > 0
