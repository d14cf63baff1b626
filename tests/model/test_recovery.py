import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_recovery import MatchRecovery, VectorRecovery

from tsnrepro.config.frer import RECOVERY_COUNTERS
from tsnrepro.model.recovery import (
    NO_SEQUENCE,
    expire,
    lost_before_start,
    new_registers,
    read_counters,
    recover,
    signed_distance,
)

L = 8


def feed(function, numbers, step_ns=1000):
    return [function.accept(seq, index * step_ns) for index, seq in enumerate(numbers)]


@pytest.mark.parametrize(
    ("seq", "last", "delta"),
    [(0, 65535, 1), (65535, 0, -1), (32768, 0, -32768), (32767, 0, 32767), (5, 5, 0)],
)
def test_distance_is_a_signed_sixteen_bit_number(seq, last, delta):
    assert signed_distance(seq, last) == delta


def test_vector_passes_each_of_two_copies_once_through_a_wrap():
    function = VectorRecovery(L)
    numbers = [n % 65536 for n in range(65530, 65530 + 200) for _ in range(2)]
    verdicts = feed(function, numbers)
    assert verdicts == [True, False] * 200
    assert function.counters == {
        "out_of_order": 0,
        "rogue": 0,
        "passed": 200,
        "discarded": 200,
        "lost": lost_before_start(L, 199),
        "tagless": 0,
        "resets": 0,
    }


@pytest.mark.parametrize(
    ("delta", "passes", "counter"),
    [
        (L - 1, True, "out_of_order"),
        (L, False, "rogue"),
        (-(L - 1), True, "out_of_order"),
        (-L, False, "rogue"),
        (0, False, "discarded"),
    ],
)
def test_edge_of_the_history(delta, passes, counter):
    function = VectorRecovery(L)
    function.accept(1000, 0)
    assert function.accept(1000 + delta, 1) is passes
    assert function.counters[counter] == 1
    assert function.counters["passed"] == 1 + passes


def test_a_gap_is_lost_only_when_it_leaves_the_history():
    function = VectorRecovery(L)
    feed(function, range(100, 100 + L))  # the history is full: L ones, L - 1 false losses
    before = function.counters["lost"]
    assert before == L - 1
    function.accept(100 + L + 1, 10_000)  # number 100 + L is missing
    feed(function, range(100 + L + 2, 100 + L + L), 10_000)
    assert function.counters["lost"] == before
    function.accept(100 + L + L, 20_000_000)
    assert function.counters["lost"] == before + 1


def test_a_late_frame_fills_the_gap():
    function = VectorRecovery(L)
    assert feed(function, [0, 1, 3, 2, 2]) == [True, True, True, True, False]
    assert function.counters["out_of_order"] == 2  # the jump to 3, then the late 2
    assert function.counters["discarded"] == 1


def test_reset_timer_reloads_on_accepted_frames_only():
    function = VectorRecovery(L, reset_timeout_ns=100)
    assert function.accept(5, 0)
    assert not function.accept(5, 99)  # a repeat does not reload
    assert function.accept(40_000, 100)  # a rogue, were it not for the reset
    assert function.counters["resets"] == 1


def test_individual_recovery_reloads_on_discarded_frames_too():
    function = VectorRecovery(L, reset_timeout_ns=100, individual=True)
    assert function.accept(5, 0)
    assert not function.accept(5, 99)
    assert not function.accept(40_000, 100)
    assert function.counters["rogue"] == 1


def test_a_silent_reset_is_counted_once():
    function = MatchRecovery(reset_timeout_ns=100)
    function.accept(1, 0)
    function.expire(10_000)
    function.expire(20_000)
    assert function.counters["resets"] == 1


@pytest.mark.parametrize("kind", [VectorRecovery, MatchRecovery])
def test_untagged_frames(kind):
    assert kind().accept(None, 0) is False
    taking = kind(take_no_sequence=True)
    assert taking.accept(None, 0) is True
    assert (taking.counters["tagless"], taking.counters["passed"]) == (1, 1)


def test_match_drops_only_the_repeat_of_the_last_number():
    function = MatchRecovery()
    assert feed(function, [1, 1, 2, 1, 2]) == [True, False, True, True, True]
    assert function.counters["out_of_order"] == 1  # the step back to 1; from there 2 is in order
    assert function.counters["discarded"] == 1


@pytest.mark.parametrize("kind", [VectorRecovery, MatchRecovery])
def test_numbers_outside_sixteen_bits_are_refused(kind):
    with pytest.raises(ValueError, match="65536"):
        kind().accept(65536, 0)


@pytest.mark.parametrize("length", [1, 32_769])
def test_history_lengths_without_meaning_are_refused(length):
    with pytest.raises(ValueError, match=str(length)):
        VectorRecovery(length)


steps = st.lists(
    st.tuples(
        st.one_of(
            st.none(),
            st.integers(-2 * L, 2 * L),  # near the last number
            st.just(1),
            st.integers(0, 65535),
        ),
        st.integers(0, 60),
    ),
    max_size=120,
)


@given(
    steps,
    st.integers(2, 2 * L),
    st.one_of(st.none(), st.integers(1, 100)),
    st.booleans(),
    st.fixed_dictionaries({"take_no_sequence": st.booleans(), "individual": st.booleans()}),
)
@settings(max_examples=300, deadline=None)
def test_ring_and_reference_agree_frame_by_frame(steps, length, timeout, match, options):
    reference = (
        MatchRecovery(timeout, **options) if match else VectorRecovery(length, timeout, **options)
    )
    registers = new_registers(length, timeout, match=match, **options)
    now, last, received = 0, 0, 0
    for step, wait in steps:
        now += wait
        last = last if step is None else (last + step) % 65536
        seq = None if step is None else last
        verdict = reference.accept(seq, now)
        assert recover(registers, 0, NO_SEQUENCE if seq is None else seq, now) is verdict
        received += 1
    reference.expire(now + 1000)
    expire(registers, 0, now + 1000)
    counters = read_counters(registers)
    assert counters == reference.counters
    assert tuple(counters) == RECOVERY_COUNTERS
    untaken = 0 if options["take_no_sequence"] else counters["tagless"]
    assert received == counters["passed"] + counters["discarded"] + counters["rogue"] + untaken
