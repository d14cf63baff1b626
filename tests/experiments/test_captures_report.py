"""The report on trials with known faults: each is found, and nothing else is."""

from dataclasses import replace

import numpy as np
import pytest
from crafted_captures import EPOCH_NS, STREAM, MadeTrial, frame
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_recovery import MatchRecovery, VectorRecovery

from tsnrepro.config.frer import FrerSettings
from tsnrepro.experiments.capture.counters import ReadingTimes
from tsnrepro.experiments.capture.replay import replay, replay_orders
from tsnrepro.experiments.capture.report import report_captures
from tsnrepro.experiments.capture.sequence_numbers import first_copies, merge, path_order, unwrap


def wrong(report) -> set[tuple[str, str]]:
    return {(finding.where, finding.name) for finding in report.disagreements()}


# --- a trial without faults ---------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 65_400])
def test_a_trial_without_faults_agrees(first):
    trial = MadeTrial(numbers=list(range(first, first + 300)))
    counted = replace(trial.counted, numbered=first + 300)
    report = trial.report(counted if first == 0 else None)
    if first:  # it did not start with number 0, so it is held against FRER's rules alone
        report = report_captures(*trial.captures(), STREAM)
    assert report.agrees, report.disagreements()
    assert (report.paths[0].won, report.paths[1].won, report.ties) == (300, 0, 0)
    assert report.delay_us["min"] == report.delay_us["max"] == pytest.approx(0.65)
    assert report.listener_stream_frames == 300
    document = report.document()
    assert document["agrees"] is True
    assert "delay_ns" not in document


def test_a_control_trial_agrees_and_a_tag_in_it_is_found():
    trial = MadeTrial()
    members = {"m0": [(t, frame(d[18:])) for t, d in trial.paths[0]], "m1": []}
    trial.paths = [members["m0"], []]
    assert trial.report_without_counters().agrees
    counted = replace(
        trial.counted,
        frer=False,
        numbered=0,
        recovery=dict.fromkeys(trial.counted.recovery, 0),
        members={
            "m0": trial.counted.members["m0"],
            "m1": replace(trial.counted.members["m1"], replicated=0, arrived=0),
        },
    )
    assert trial.report(counted).agrees
    trial.paths[0][5] = (trial.paths[0][5][0], frame(MadeTrial.content(5), 5))
    assert ("sw1 m0", "stream frames with one R-TAG") in wrong(trial.report(counted))


def test_ties_and_wins_are_distinguished():
    trial = MadeTrial(skew_ns=0)
    for i in range(50):
        trial.paths[1][i] = (trial.paths[1][i][0] - 100, trial.paths[1][i][1])
    report = trial.report(trial.as_counted())
    assert (report.ties, report.paths[0].won, report.paths[1].won) == (150, 0, 50)
    assert report.delay_us["min"] == pytest.approx(-0.1)
    assert report.delay_us["max"] == 0


# --- seeded faults ------------------------------------------------------------------------------


def test_a_missing_tag_is_found():
    trial = MadeTrial()
    trial.paths[0][17] = (trial.paths[0][17][0], frame(MadeTrial.content(17)))
    found = wrong(trial.report())
    assert ("sw1 m0", "stream frames with one R-TAG") in found
    assert ("sw1 m0", "numbers missing") in found
    assert ("sw2", "recovery: tagless") in found


def test_reserved_bits_are_found():
    trial = MadeTrial()
    trial.paths[1][3] = (trial.paths[1][3][0], frame(MadeTrial.content(3), 3, reserved=0x8000))
    assert wrong(trial.report()) == {("sw1 m1", "R-TAGs with reserved bits set")}


def test_swapped_numbers_are_found():
    trial = MadeTrial()
    path = trial.paths[1]
    path[40], path[41] = (path[40][0], path[41][1]), (path[41][0], path[40][1])
    assert wrong(trial.report()) == {("sw1 m1", "numbers out of order")}


def test_a_repeat_on_a_path_is_found():
    trial = MadeTrial()
    trial.paths[0].insert(60, trial.paths[0][59])
    assert ("sw1 m0", "numbers repeated") in wrong(trial.report())


def test_a_frame_missing_on_one_path_is_found_by_number():
    trial = MadeTrial()
    del trial.paths[1][100:104]
    report = trial.report(trial.as_counted())
    (finding,) = report.disagreements()
    assert (finding.where, finding.name, finding.found) == ("sw1 m1", "numbers missing", 4)
    assert finding.note == "first 100, longest run 4"
    assert report.single_copies == 4
    assert report.paths[1].order.longest_missing_run == 4


def test_drops_of_the_queue_are_no_fault():
    trial = MadeTrial()
    del trial.paths[1][100:104]
    counted = trial.as_counted()
    dropped = replace(counted.members["m1"], replicated=200, queue_dropped=4)
    report = trial.report(replace(counted, members=counted.members | {"m1": dropped}))
    assert report.agrees, report.disagreements()


def test_unlike_frames_under_one_number_are_found():
    trial = MadeTrial()
    trial.paths[1][7] = (trial.paths[1][7][0], frame(MadeTrial.content(1_007), 7))
    assert wrong(trial.report()) == {("sw1, all member ports", "numbers with unlike frames")}


def test_a_duplicate_at_the_listener_is_found():
    trial = MadeTrial()
    trial.listener.insert(10, trial.listener[9])
    assert wrong(trial.report()) == {
        ("listener eth0", "copies beyond the first"),
        ("listener eth0", "stream frames in"),
        ("listener", "datagrams the program received"),
    }


def test_a_tag_at_the_listener_is_found():
    trial = MadeTrial()
    trial.listener[9] = (trial.listener[9][0], frame(MadeTrial.content(9), 9))
    assert wrong(trial.report()) == {("listener eth0", "stream frames without R-TAG")}


def test_a_frame_that_did_not_arrive_and_one_from_nowhere_are_found():
    trial = MadeTrial()
    trial.listener[9] = (trial.listener[9][0], frame(MadeTrial.content(9_999)))
    assert wrong(trial.report()) == {
        ("listener eth0", "stream frames that no path carried"),
        ("listener eth0", "stream frames that did not arrive"),
    }


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize(
    "name", ["out_of_order", "rogue", "passed", "discarded", "lost", "tagless", "resets"]
)
def test_a_recovery_counter_off_by_one_is_found(name, by):
    trial = MadeTrial(history_length=512)
    recovery = trial.counted.recovery | {name: trial.counted.recovery[name] + by}
    found = wrong(trial.report(replace(trial.counted, recovery=recovery)))
    together = {"recovery: passed, discarded and rogue together"}
    outcome = name in ("passed", "discarded", "rogue")
    assert found == {("sw2", n) for n in {f"recovery: {name}"} | (together if outcome else set())}


@pytest.mark.parametrize(
    ("change", "where", "name"),
    [
        ({"numbered": 201}, "sw1 generator", "numbers given"),
        ({"numbered_before": 1}, "sw1 generator", "numbers given before the capture"),
        ({"listener_frames": 199}, "listener eth0", "stream frames in"),
        ({"listener_fragments": 1}, "listener eth0", "later fragments in"),
        ({"received": 199}, "listener", "datagrams the program received"),
    ],
)
def test_other_counters_off_by_one_are_found(change, where, name):
    trial = MadeTrial()
    assert (where, name) in wrong(trial.report(replace(trial.counted, **change)))


@pytest.mark.parametrize("field", ["replicated", "arrived"])
def test_port_counters_off_by_one_are_found(field):
    trial = MadeTrial()
    members = dict(trial.counted.members)
    members["m1"] = replace(members["m1"], **{field: 201})
    where = "sw1 m1" if field == "replicated" else "sw2 m1"
    (only,) = wrong(trial.report(replace(trial.counted, members=members)))
    assert only[0] == where


def test_a_capture_that_missed_frames_is_reported():
    trial = MadeTrial()
    members, listener = trial.captures()
    members["m0"] = replace(members["m0"], dropped=3, truncated_bytes=20)
    report = report_captures(members, listener, STREAM, trial.counted)
    assert wrong(report) == {
        ("sw1 m0", "frames the capture missed"),
        ("sw1 m0", "bytes behind the last whole record"),
    }
    assert {f.subject for f in report.disagreements()} == {"capture"}


def test_frames_after_the_counters_were_read_do_not_count():
    trial = MadeTrial()
    counted = trial.counted
    for path in range(2):
        late = frame(MadeTrial.content(200), 200)
        trial.paths[path].append((EPOCH_NS + 10**9, late))
    trial.listener.append((EPOCH_NS + 10**9, frame(b"\x08\x06" + bytes(46))))
    reading = ReadingTimes((EPOCH_NS - 9, EPOCH_NS - 5), (EPOCH_NS + 10**8, EPOCH_NS + 2 * 10**8))
    found = wrong(trial.report(replace(counted, read=reading)))
    # It is a frame of the stream, so it is only missing at the listener.
    assert found == {("listener eth0", "stream frames that did not arrive")}


# --- order of arrival ---------------------------------------------------------------------------


@given(st.lists(st.integers(-30_000, 30_000), max_size=60), st.integers(0, 0xFFFF))
@settings(max_examples=60, deadline=None)
def test_unwrapping_undoes_the_wrap(steps, first):
    true = first + np.concatenate([[0], np.cumsum(np.array(steps, np.int64))])
    assert unwrap(true & 0xFFFF).tolist() == true.tolist()


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60))
@settings(max_examples=100, deadline=None)
def test_the_order_of_a_path_against_counting(numbers):
    found = path_order(np.array(numbers), 0, 41)
    missing = sorted(set(range(41)) - set(numbers))
    assert found.missing == len(missing)
    assert found.first_missing == (missing[0] if missing else None)
    assert found.repeated == len(numbers) - len(set(numbers))
    assert found.out_of_order == sum(n < max(numbers[: i + 1]) for i, n in enumerate(numbers))
    runs = "".join("x" if n in missing else " " for n in range(41)).split()
    assert found.longest_missing_run == max((len(run) for run in runs), default=0)


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 1), st.integers(1, 3_000_000)), max_size=120
)


@given(ARRIVALS, st.integers(2, 40), st.booleans(), st.integers(65_500, 65_530))
@settings(max_examples=60, deadline=None)
def test_the_replay_is_the_plain_recovery_function(made, history, match, base):
    """Compiled and plain, vector and match, over any order and past the wrap."""
    times = np.cumsum([gap for _, _, gap in made], dtype=np.int64)
    path = np.array([p for _, p, _ in made], np.int64)
    sequence = np.array([(base + n) & 0xFFFF for n, _, _ in made], np.int64)
    arrivals = merge([times[path == p] for p in range(2)], [sequence[path == p] for p in range(2)])
    name = "match" if match else "vector"
    counters, passed = replay(
        arrivals, FrerSettings(algorithm=name, history_length=history, reset_ms=1)
    )
    plain = MatchRecovery(1_000_000) if match else VectorRecovery(history, 1_000_000)
    expected = [plain.accept(int(n), int(t)) for n, t in zip(sequence, times, strict=True)]
    assert passed.tolist() == expected
    assert counters == plain.counters


@given(ARRIVALS)
@settings(max_examples=60, deadline=None)
def test_first_copies_against_a_search_by_number(made):
    times = np.cumsum([gap for _, _, gap in made], dtype=np.int64)
    numbers = [n for n, _, _ in made]
    paths = [p for _, p, _ in made]
    arrivals = merge(
        [times[np.array(paths, int) == p] for p in range(2)],
        [np.array([n for n, q in zip(numbers, paths, strict=True) if q == p]) for p in range(2)],
    )
    found = first_copies(arrivals, 2)
    first: dict[tuple[int, int], int] = {}
    for n, p, t in zip(numbers, paths, times.tolist(), strict=True):
        first.setdefault((n, p), t)
    winners = {n: min((t, p) for (m, p), t in first.items() if m == n)[1] for n in numbers}
    assert dict(zip(found.number.tolist(), found.winner.tolist(), strict=True)) == winners
    delays = {n: first[n, 1] - first[n, 0] for n in numbers if {(n, 0), (n, 1)} <= set(first)}
    assert found.delay_ns.tolist() == [delays[n] for n in sorted(delays)]


def test_counters_do_not_depend_on_how_whole_paths_interleave():
    trial = MadeTrial()
    members, _ = trial.captures()
    numbers = np.array(trial.numbers)
    arrivals = merge([c.time_ns for c in members.values()], [numbers, numbers])
    long = replay_orders(arrivals, FrerSettings(history_length=512, reset_ms=2000), 2)
    assert len(long) > 1
    assert all(counters == long[0] for counters in long)
    # The replays go to 1 ms, which is 83 numbers and so beyond this history: rogue frames.
    assert max(c["rogue"] for c in replay_orders(arrivals, trial.counted.variables, 2)) > 0


@pytest.mark.parametrize(("name", "by"), [("rogue", 1), ("discarded", -1), ("passed", -1)])
def test_counters_that_depend_on_the_order_must_add_up(name, by):
    """With a short history a counter alone may differ, but every frame has one outcome."""
    trial = MadeTrial(history_length=8)
    recovery = trial.counted.recovery | {name: trial.counted.recovery[name] + by}
    found = wrong(trial.report(replace(trial.counted, recovery=recovery)))
    assert ("sw2", "recovery: passed, discarded and rogue together") in found


def test_unknown_order_gives_a_range():
    """A number on one path only is late or not, depending on how the paths interleave."""
    trial = MadeTrial(history_length=512)
    del trial.paths[0][50]
    counted = trial.as_counted()
    assert counted.recovery["out_of_order"] == 0
    assert trial.report(counted).disagreements("counters") == []
    # Had path 1 been a little later, 51 would have come before 50.
    report = trial.report(replace(counted, recovery=counted.recovery | {"out_of_order": 2}))
    (finding,) = [f for f in report.findings if f.name == "recovery: out_of_order"]
    assert finding.agrees
    assert finding.expected == (0, 2)
    assert "depends on the order" in finding.note
    report = trial.report(replace(counted, recovery=counted.recovery | {"out_of_order": 3}))
    assert ("sw2", "recovery: out_of_order") in wrong(report)
