"""The eBPF recovery functions against hand-worked cases and against the plain reference.

The frames are crafted; what passed is read behind the switch, the counters from frerctl. Cases
are worked from IEEE Std 802.1CB-2017, 7.4.3.4 and 7.4.3.5, with a history of 8 unless stated
otherwise. A start counts the history's zeros as lost once they are shifted out: the standard's
cleared history holds 7 of them behind the first number.
"""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_recovery import MatchRecovery, VectorRecovery

from tsnrepro.config.frer import RECOVERY_COUNTERS

pytestmark = pytest.mark.namespaces

START_ZEROS = 7


def expected(**counters: int) -> dict[str, int]:
    return dict.fromkeys(RECOVERY_COUNTERS, 0) | counters


@pytest.mark.parametrize(
    ("numbers", "accepted", "counters"),
    [
        pytest.param([0, 1, 2], [0, 1, 2], {"passed": 3, "lost": 2}, id="in order"),
        pytest.param([700, 701], [0, 1], {"passed": 2, "lost": 1}, id="any number first"),
        pytest.param([5, 5, 6, 6], [0, 2], {"passed": 2, "discarded": 2, "lost": 1}, id="pairs"),
        pytest.param(
            [0, 1, 3], [0, 1, 2], {"passed": 3, "out_of_order": 1, "lost": 3}, id="one missing"
        ),
        pytest.param(
            [0, 1, 3, 2],
            [0, 1, 2, 3],
            {"passed": 4, "out_of_order": 2, "lost": 3},
            id="late, within the history",
        ),
        pytest.param(
            [0, 1, 3, 2, 2, 3],
            [0, 1, 2, 3],
            {"passed": 4, "out_of_order": 2, "discarded": 2, "lost": 3},
            id="late and repeated",
        ),
        pytest.param(
            [100, 93],
            [0, 1],
            {"passed": 2, "out_of_order": 1},
            id="oldest bit of the history",
        ),
        pytest.param([100, 92], [0], {"passed": 1, "rogue": 1}, id="a history behind"),
        pytest.param(
            [100, 107],
            [0, 1],
            {"passed": 2, "out_of_order": 1, "lost": 7},
            id="newest place of the history",
        ),
        pytest.param([100, 108], [0], {"passed": 1, "rogue": 1}, id="a history ahead"),
        pytest.param(
            [100, 108, 101], [0, 2], {"passed": 2, "rogue": 1, "lost": 1}, id="rogue and on"
        ),
        pytest.param([0, 32768], [0], {"passed": 1, "rogue": 1}, id="opposite number"),
        pytest.param(
            [0, 1, 65529], [0, 1], {"passed": 2, "rogue": 1, "lost": 1}, id="rogue behind 0"
        ),
        pytest.param(
            # 2 is never seen and leaves the history when 10 comes in.
            [0, 1, 3, 4, 5, 6, 7, 8, 9, 10],
            range(10),
            {"passed": 10, "out_of_order": 1, "lost": START_ZEROS + 1},
            id="a zero bit shifts out",
        ),
        pytest.param(
            [0, 1, 3, 4, 5, 6, 7, 8, 9],
            range(9),
            {"passed": 9, "out_of_order": 1, "lost": START_ZEROS},
            id="a zero bit that can still be filled",
        ),
        pytest.param(
            # 2 to 8 are missing: two steps of 7 shift all zeros of the start and six of them out.
            [0, 1, 8, 15],
            range(4),
            {"passed": 4, "out_of_order": 2, "lost": START_ZEROS + 6},
            id="two gaps",
        ),
        pytest.param(
            [65534, 65535, 0, 1],
            range(4),
            {"passed": 4, "lost": 3},
            id="wrap-around",
        ),
        pytest.param(
            [65535, 1, 0, 65535, 0, 2],
            [0, 1, 2, 5],
            {"passed": 4, "out_of_order": 2, "discarded": 2, "lost": 3},
            id="late and repeated across the wrap",
        ),
    ],
)
def test_vector_recovery_by_hand(switch, numbers, accepted, counters):
    switch.set(history=8)
    switch.inject(*numbers)
    assert switch.outcome() == (list(accepted), expected(**counters))


@pytest.mark.parametrize("history", [2, 63, 64, 65, 512, 2048])
def test_edges_of_the_history_at_every_word_boundary(switch, history):
    """Both ends of the window pass, both numbers beyond are rogue, repeats are discarded."""
    start, edge = 65000, history - 1
    behind, ahead = (start - edge) % 65536, (start + edge) % 65536
    switch.set(history=history)
    switch.inject(start, behind, (behind - 1) % 65536, behind)
    # Beyond the edge ahead of the start, then the edge, which becomes the newest number.
    switch.inject((ahead + 1) % 65536, ahead, ahead, start, (ahead - history) % 65536)
    shifted_zeros = edge - 1  # all of the start's but the one that `behind` filled
    assert switch.outcome() == (
        [0, 1, 5],
        expected(
            passed=3,
            out_of_order=1 + (edge != 1),
            rogue=3,
            discarded=3,
            lost=shifted_zeros,
        ),
    )


def test_repeats_beyond_the_history_are_rogue_not_forgotten(switch):
    """A copy that is later than the history is refused, and refused as rogue."""
    switch.set(history=8)
    switch.inject(*range(20), *range(20), path=0)
    accepted, counters = switch.outcome()
    assert accepted == list(range(20))
    assert counters == expected(passed=20, rogue=12, discarded=8, lost=START_ZEROS)


def test_copies_on_two_paths_are_one_stream(switch):
    switch.set(history=8)
    for number in range(65530, 65546):
        switch.inject(number % 65536, path=number % 2)
        switch.inject(number % 65536, path=1 - number % 2)
    accepted, counters = switch.outcome()
    assert accepted == list(range(0, 32, 2))
    assert counters == expected(passed=16, discarded=16, lost=START_ZEROS)


@pytest.mark.parametrize(
    ("numbers", "accepted", "counters"),
    [
        pytest.param([4, 4, 4, 5], [0, 3], {"passed": 2, "discarded": 2}, id="repeats of the last"),
        pytest.param(
            [4, 5, 4, 5], range(4), {"passed": 4, "out_of_order": 1}, id="only of the last"
        ),
        pytest.param([4, 6], [0, 1], {"passed": 2, "out_of_order": 1}, id="gap"),
        pytest.param([4, 40000], [0, 1], {"passed": 2, "out_of_order": 1}, id="nothing is rogue"),
        pytest.param([65535, 0, 0], [0, 1], {"passed": 2, "discarded": 1}, id="wrap-around"),
    ],
)
def test_match_recovery_by_hand(switch, numbers, accepted, counters):
    switch.set(algorithm="match")
    switch.inject(*numbers)
    assert switch.outcome() == (list(accepted), expected(**counters))


@pytest.mark.parametrize("algorithm", ["vector", "match"])
def test_untagged_frames(switch, algorithm):
    numbers = [None, 1, None, 1, 2]
    switch.set(algorithm=algorithm, history=8, take_no_sequence="off")
    switch.inject(*numbers)
    lost = 0 if algorithm == "match" else 1
    counters = expected(passed=2, discarded=1, tagless=2, lost=lost)
    assert switch.outcome() == ([1, 4], counters)

    switch.set(algorithm=algorithm, history=8, take_no_sequence="on")
    switch.inject(*numbers)
    assert switch.outcome() == ([0, 1, 2, 4], counters | {"passed": 4})


# --- the reset timer, in real time ------------------------------------------------------------

RESET_MS = 400
EXPIRY_SECONDS = 0.55


def soon(switch, *numbers):
    """Inject, and tell whether it took well below the reset time."""
    began = time.monotonic()
    switch.inject(*numbers)
    return time.monotonic() - began < RESET_MS / 1000 / 2


@pytest.mark.parametrize("algorithm", ["vector", "match"])
def test_after_the_reset_time_any_number_is_taken(switch, algorithm):
    switch.set(algorithm=algorithm, history=8, reset_ms=RESET_MS)
    assert soon(switch, 1000, 1000)
    time.sleep(EXPIRY_SECONDS)
    assert soon(switch, 1000, 1000)
    assert switch.outcome() == ([0, 2], expected(passed=2, discarded=2, resets=1))


def test_a_reset_forgets_the_history(switch):
    """A number far away is rogue before the reset, and a fresh start after it."""
    switch.set(history=8, reset_ms=RESET_MS)
    assert soon(switch, 1000, 1001, 5000)
    time.sleep(EXPIRY_SECONDS)
    assert soon(switch, 5000, 4999, 1001)
    accepted, counters = switch.outcome()
    assert accepted == [0, 1, 3, 4]
    assert counters == expected(passed=4, rogue=2, out_of_order=1, resets=1, lost=1)


def test_discarded_frames_do_not_reload_the_timer(switch):
    """Repeats keep coming, nothing is accepted: the timer must expire all the same."""
    switch.set(history=8, reset_ms=RESET_MS)
    began = time.monotonic()
    switch.inject(7)
    while time.monotonic() - began < EXPIRY_SECONDS:
        switch.inject(7)
        time.sleep(0.02)
    accepted, counters = switch.outcome()
    assert accepted[0] == 0
    assert len(accepted) == 2, "the repeat after the expiry is taken as any number"
    assert counters["resets"] == 1


def test_accepted_frames_reload_the_timer(switch):
    switch.set(history=8, reset_ms=RESET_MS)
    began, number = time.monotonic(), 0
    gap = 0.0
    last = began
    while time.monotonic() - began < 2 * EXPIRY_SECONDS:
        switch.inject(number)
        now = time.monotonic()
        gap, last = max(gap, now - last), now
        number += 1
        time.sleep(0.02)
    if gap > RESET_MS / 1000 / 2:
        pytest.skip(f"the machine paused this test for {gap:.2f} s, which resets by right")
    document = switch.document()
    assert document["recovery"]["resets"] == switch._before["recovery"]["resets"]


def test_an_expiry_shows_without_traffic(switch):
    switch.set(history=8, reset_ms=RESET_MS)
    switch.inject(7)
    time.sleep(EXPIRY_SECONDS)
    first, second = switch.document()["recovery"], switch.document()["recovery"]
    assert first["take_any"] is second["take_any"] is True
    assert first["resets"] == second["resets"] == switch._before["recovery"]["resets"] + 1


def test_every_reset_counts_that_of_the_timer_and_that_by_configuration(switch):
    """IEEE Std 802.1CB-2017, 7.4.3.3: BEGIN as well as RECOVERY_TIMEOUT, or both."""
    switch.set(history=8, reset_ms=RESET_MS)
    before = switch.document()["recovery"]["resets"]
    switch.set(history=8, reset_ms=RESET_MS)
    assert switch.document()["recovery"]["resets"] == before + 1
    switch.inject(7)
    time.sleep(EXPIRY_SECONDS)
    switch.set(history=8)
    assert switch.document()["recovery"]["resets"] == before + 3


PAUSE = "pause"


@pytest.mark.parametrize("algorithm", ["vector", "match"])
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([1000, PAUSE, None, 30000], id="expired before an untagged frame"),
        pytest.param([None, PAUSE, 5, 5], id="started by an untagged frame"),
        pytest.param([None, PAUSE, None, PAUSE, 5], id="untagged frames alone"),
        pytest.param([9, PAUSE, PAUSE, 9, PAUSE, 3, 3], id="expires once, however long it waits"),
    ],
)
def test_reset_timer_agrees_with_the_plain_reference(switch, algorithm, steps):
    on = {"reset_ms": RESET_MS, "take_no_sequence": "on", "history": 8}
    switch.set(algorithm=algorithm, **on)
    timeout_ns = RESET_MS * 1_000_000
    reference = (
        VectorRecovery(8, timeout_ns, take_no_sequence=True)
        if algorithm == "vector"
        else MatchRecovery(timeout_ns, take_no_sequence=True)
    )
    now_ns, accepted = 0, []
    for step in steps:
        if step == PAUSE:
            now_ns += timeout_ns + 1
            time.sleep(EXPIRY_SECONDS)
        else:
            accepted.append(reference.accept(step, now_ns))
            assert soon(switch, step)
    passed, counters = switch.outcome()
    assert passed == [index for index, passes in enumerate(accepted) if passes]
    assert counters == reference.counters


# --- against the plain reference ----------------------------------------------------------------

HISTORIES = st.one_of(st.integers(2, 12), st.sampled_from([63, 64, 65, 128, 512, 2047, 2048]))


@st.composite
def streams(draw):
    """Draw a recovery function's variables and numbers that walk about its history's edges."""
    history = draw(HISTORIES)
    near = st.integers(-history - 2, history + 2)
    edges = st.sampled_from([-history - 1, -history, 1 - history, history - 1, history])
    step = st.one_of(st.just(1), st.just(1), st.just(0), near, edges, st.integers(-32768, 32767))
    number = draw(st.one_of(st.integers(0, 65535), st.integers(65530, 65535)))
    numbers: list[int | None] = []
    for move in draw(st.lists(st.one_of(step, st.none()), min_size=1, max_size=90)):
        if move is None:
            numbers.append(None)
            continue
        number = (number + move) % 65536
        numbers.append(number)
    return history, draw(st.sampled_from(["vector", "match"])), draw(st.booleans()), numbers


@settings(max_examples=300, deadline=None)
@given(streams())
def test_recovery_agrees_with_the_plain_reference(switch, stream):
    history, algorithm, take_no_sequence, numbers = stream
    switch.set(
        history=history,
        algorithm=algorithm,
        take_no_sequence="on" if take_no_sequence else "off",
    )
    switch.inject(*numbers)
    reference = (
        VectorRecovery(history, take_no_sequence=take_no_sequence)
        if algorithm == "vector"
        else MatchRecovery(take_no_sequence=take_no_sequence)
    )
    verdicts = [reference.accept(number, now_ns) for now_ns, number in enumerate(numbers)]
    accepted, counters = switch.outcome()
    assert accepted == [index for index, passes in enumerate(verdicts) if passes]
    assert counters == reference.counters
