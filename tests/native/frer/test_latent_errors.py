"""Latent error detection (IEEE Std 802.1CB-2017, 7.4.4) while paths live and while one is dead."""

import threading
import time
from contextlib import contextmanager

import pytest

from tsnrepro.common.errors import ToolError
from tsnrepro.config.frer import LatentSettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.faults import FaultInjector, Timeline
from tsnrepro.runner.load import IntendedLoad
from tsnrepro.runner.measurement import Measurement
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream

pytestmark = pytest.mark.namespaces

PORT = 9000
PERIOD_MS, DIFFERENCE = 200, 40
FRAMES_PER_SECOND = 1000


@contextmanager
def traffic(testbed, sockets, *ports: int):
    """Send to each port at a constant rate until the block ends."""
    over = threading.Event()
    for port in ports:
        sockets.udp(testbed, "listener", port)
    sender = sockets.udp(testbed, "talker")

    def send() -> None:
        began, sent = time.monotonic(), 0
        while not over.is_set():
            for port in ports:
                sender.sendto(b"." * 100, (testbed.address("listener"), port))
            sent += 1
            time.sleep(max(0, began + sent / FRAMES_PER_SECOND - time.monotonic()))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        time.sleep(0.1)
        yield
    finally:
        over.set()
        thread.join()


def latent(testbed, index: int = 0) -> dict:
    return testbed.snapshot().of_stream(index).hosts["sw2"].station["latent"]


def detect(testbed, reset_ms: int = 3_600_000):
    latent = LatentSettings(difference=DIFFERENCE, period_ms=PERIOD_MS, reset_ms=reset_ms)
    return testbed.faults.start_latent(latent, deadline_s=60)


@pytest.fixture
def healthy(bring_up):
    """Return the function that gives a testbed of some paths, its faults gone after the test."""
    used = []

    def make(paths: int):
        testbed = bring_up(paths=paths)
        testbed.configure("frer", StreamFilter("udp", PORT))
        used.append(testbed)
        return testbed

    yield make
    for testbed in used:
        testbed.faults.clear()


@pytest.mark.parametrize("paths", [2, 3])
def test_no_alarm_while_every_path_lives(healthy, sockets, paths):
    testbed = healthy(paths)
    with traffic(testbed, sockets, PORT):
        detection = detect(testbed)
        time.sleep(6 * PERIOD_MS / 1000)
        state = latent(testbed)
        assert detection.stop() == []
    assert state["tests"] >= 5
    assert (state["alarms"], state["latent_error"]) == (0, False)
    assert state["difference"] <= DIFFERENCE


@pytest.mark.parametrize("paths", [2, 3])
def test_an_alarm_when_a_path_dies_in_silence(healthy, sockets, paths):
    testbed = healthy(paths)
    with traffic(testbed, sockets, PORT):
        detection = detect(testbed)
        time.sleep(1.5 * PERIOD_MS / 1000)
        died = testbed.faults.impair(paths - 1, drop_ppm=1_000_000)
        alarm = detection.next_alarm()
        state = latent(testbed)
        detection.stop()
    # The first period may end before 40 frames are missing, the second not.
    assert 0 < alarm.time_ns - died[0].after_ns < 2.5 * PERIOD_MS * 1_000_000
    assert alarm.stream == 0
    assert alarm.difference == abs(alarm.base - (alarm.passed * (paths - 1) - alarm.discarded))
    assert alarm.difference > DIFFERENCE
    assert state["latent_error"] is True
    assert state["alarms"] >= 1


def test_a_cut_path_is_no_less_an_error(healthy, sockets):
    testbed = healthy(2)
    with traffic(testbed, sockets, PORT):
        detection = detect(testbed)
        cut = testbed.faults.cut(0)
        assert detection.next_alarm().time_ns > cut.before_ns
        detection.stop()


def test_a_path_that_came_back_is_forgiven_at_the_reset(healthy, sockets):
    testbed, reset_ms = healthy(2), 7 * PERIOD_MS
    with traffic(testbed, sockets, PORT):
        detection = detect(testbed, reset_ms)
        testbed.faults.impair(1, drop_ppm=1_000_000)
        detection.next_alarm()
        testbed.faults.heal(1)
        end = time.monotonic() + 5
        while latent(testbed)["resets"] == 0:
            assert time.monotonic() < end
            time.sleep(0.02)
        at_reset = latent(testbed)["alarms"]
        time.sleep(4 * PERIOD_MS / 1000)
        state = latent(testbed)
        detection.stop()
    assert at_reset >= 2, "until the reset the missing frames are still missing"
    assert state["alarms"] == at_reset
    assert state["latent_error"] is False


def test_a_difference_that_is_allowed_raises_nothing(healthy, sockets):
    testbed = healthy(2)
    with traffic(testbed, sockets, PORT):
        detection = testbed.faults.start_latent(
            LatentSettings(difference=100_000, period_ms=PERIOD_MS), deadline_s=60
        )
        testbed.faults.impair(1, drop_ppm=1_000_000)
        time.sleep(4 * PERIOD_MS / 1000)
        state = latent(testbed)
        assert detection.stop() == []
    assert state["difference"] > DIFFERENCE
    assert state["latent_error"] is False


def test_detection_that_ended_before_the_trial_is_no_trial_without_errors(healthy):
    injector = FaultInjector(healthy(2), Timeline(latent=LatentSettings()), longest_s=0.5)
    with pytest.raises(ToolError, match="ended with exit status 124"), injector:
        time.sleep(1.5)


def test_what_goes_wrong_beside_detection_comes_first(healthy):
    def fail() -> None:
        time.sleep(1.5)
        raise KeyError("talker")

    injector = FaultInjector(healthy(2), Timeline(latent=LatentSettings()), longest_s=0.5)
    with pytest.raises(KeyError, match="talker"), injector:
        fail()


def test_latent_errors_are_looked_for_until_a_trials_own_deadline(testbed, monkeypatch):
    """However long it lasts: 900 s of sending take 5415 s at most."""
    longest = []

    class Started(Exception):
        pass

    def enter(injector):
        longest.append(injector._longest_s)
        raise Started

    monkeypatch.setattr(FaultInjector, "__enter__", enter)
    requests = backend(testbed, Trial("failure", "a", {}, 1), Measurement())
    load = IntendedLoad("frer", 256, 1000.0, 900.0)
    with pytest.raises(Started):
        requests.constant_rate([load], timeline=Timeline(latent=LatentSettings()))
    assert longest[0] > 6 * 900 + 15


def test_the_stream_with_the_error_is_named(healthy, sockets):
    """A stuck generator has one stream pass nothing and discard all; the other one is fine."""
    testbed = healthy(2)
    testbed.configure_streams([SwitchStream(StreamFilter("udp", p)) for p in (PORT, PORT + 1)])
    with traffic(testbed, sockets, PORT, PORT + 1):
        detection = detect(testbed)
        testbed.faults.stick_generator(1)
        alarms = [detection.next_alarm() for _ in range(3)]
        states = [latent(testbed, index) for index in (0, 1)]
        detection.stop()
    assert {alarm.stream for alarm in alarms} == {1}
    assert [state["latent_error"] for state in states] == [False, True]
