"""Each fault does what its name promises, is counted, and ends when it is repaired."""

import json
import struct
import time

import pytest
from captures import captured, dissected

from tsnrepro.common.errors import ConfigurationError, TestbedError
from tsnrepro.records.accounting import account
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream

pytestmark = pytest.mark.namespaces

PORT = 9000
STREAM = StreamFilter("udp", PORT)
MILLION = 1_000_000
AT_ONCE = 20


class Flow:
    """A talker's and a listener's socket, and what a trial between them came to."""

    def __init__(self, testbed, sockets) -> None:
        self.testbed, self.sent = testbed, 0
        self._receiver = sockets.udp(testbed, "listener", PORT, receive_bytes=16_000_000)
        self._receiver.setblocking(False)
        self._sender = sockets.udp(testbed, "talker")
        self._received: list[int] = []

    def begin(self, configuration: str) -> None:
        self.testbed.configure(configuration, STREAM)
        self.testbed.pin_neighbours()
        self.sent, self._received = 0, []
        self.received()
        self._received = []
        self.before = self.testbed.snapshot()

    def send(self, count: int) -> list[int]:
        """Send datagrams and return the numbers of those that came, sorted.

        Two frames that different processors hand on may change places.
        """
        for _ in range(count):
            payload = struct.pack("!I", self.sent).ljust(100, b".")
            self._sender.sendto(payload, (self.testbed.address("listener"), PORT))
            self.sent += 1
            if self.sent % AT_ONCE == 0:
                time.sleep(0.001)
        return self.received()

    def received(self) -> list[int]:
        time.sleep(0.05)
        new = []
        while True:
            try:
                new.append(struct.unpack("!I", self._receiver.recv(2048)[:4])[0])
            except BlockingIOError:
                self._received += new
                return sorted(new)

    def accounting(self):
        """Return where every datagram went since :meth:`begin`."""
        self.received()
        after = self.testbed.snapshot()
        found = account(self.before, after, self.sent, len(self._received), self.testbed.host_of)
        self.after = after
        return found

    def grown(self, name: str, switch: str = "sw2") -> int:
        before, after = (s.hosts[switch].station["recovery"] for s in (self.before, self.after))
        return after[name] - before[name]


@pytest.fixture
def flow(testbed, sockets):
    """Return a flow over a testbed whose faults are gone after the test."""
    yield Flow(testbed, sockets)
    testbed.faults.clear()


# --- a link cut and repaired --------------------------------------------------------------------


def carrier(testbed, host: str, port: str) -> str:
    state = testbed.hosts[host].run(["cat", f"/sys/class/net/{port}/operstate"], deadline_s=5)
    return state.check().stdout.strip()


@pytest.mark.parametrize("path", [0, 1])
def test_frer_passes_everything_while_one_path_lives(flow, testbed, path):
    flow.begin("frer")
    assert flow.send(100) == list(range(100))
    event = testbed.faults.cut(path)
    assert event.before_ns < event.after_ns < event.before_ns + 2 * 10**9
    assert flow.send(100) == list(range(100, 200))
    testbed.faults.repair(path)
    assert flow.send(100) == list(range(200, 300))
    found = flow.accounting()
    assert found.unaccounted == 0
    assert found.copies == 300
    assert found.eliminated == 200
    assert found.drops[f"sw1 queue m{path}"] == 100


def wait_for_link(testbed, one: str, other: str) -> None:
    """Wait until both switches see this state of a member path."""
    end = time.monotonic() + 5  # the kernel reports a lost carrier once a second
    while (now := [carrier(testbed, sw, "m1") for sw in ("sw1", "sw2")]) != [one, other]:
        assert time.monotonic() < end, now
        time.sleep(0.05)


def test_both_switches_see_a_cut_and_its_repair(testbed):
    wait_for_link(testbed, "up", "up")
    testbed.faults.cut(1)
    wait_for_link(testbed, "down", "down")
    testbed.faults.repair(1)
    wait_for_link(testbed, "up", "up")


def test_no_path_lives(flow, testbed):
    flow.begin("frer")
    testbed.faults.cut(0)
    testbed.faults.cut(1)
    assert flow.send(100) == []
    testbed.faults.repair(0)
    assert flow.send(100) == list(range(100, 200))
    found = flow.accounting()
    assert found.unaccounted == 0
    assert found.drops["sw1 queue m0"] == 100
    assert found.drops["sw1 queue m1"] == 200


@pytest.mark.parametrize(("path", "passes"), [(0, False), (1, True)])
def test_control_lives_by_its_first_path_alone(flow, testbed, path, passes):
    flow.begin("control")
    testbed.faults.cut(path)
    assert flow.send(100) == (list(range(100)) if passes else [])
    testbed.faults.repair(path)
    assert flow.send(50) == list(range(100, 150))
    assert flow.accounting().unaccounted == 0


def test_a_repaired_link_is_what_it_was(testbed):
    def state(host: str) -> tuple:
        run = testbed.hosts[host].run
        links = json.loads(run(["ip", "-j", "link", "show", "m0"], deadline_s=5).stdout)[0]
        queues = json.loads(run(["tc", "-j", "qdisc", "show", "dev", "m0"], deadline_s=5).stdout)
        filters = run(["tc", "filter", "show", "dev", "m0", "ingress"], deadline_s=5).stdout
        return links["mtu"], queues, filters

    before = {host: state(host) for host in ("sw1", "sw2")}
    testbed.faults.cut(0)
    testbed.faults.repair(0)
    assert {host: state(host) for host in ("sw1", "sw2")} == before


# --- silent loss and duplication ------------------------------------------------------------------


@pytest.mark.parametrize("path", [0, 1])
def test_a_silently_dead_path_takes_everything_and_keeps_its_link(flow, testbed, path):
    flow.begin("frer")
    testbed.faults.impair(path, drop_ppm=1_000_000)
    assert flow.send(200) == list(range(200))
    assert carrier(testbed, "sw2", f"m{path}") == "up"
    found = flow.accounting()
    assert found.unaccounted == 0
    assert found.eliminated == 0
    assert found.drops[f"sw2 link m{path}, made lossy"] == 200
    testbed.faults.heal(path)
    flow.begin("frer")
    assert flow.send(200) == list(range(200))
    assert flow.accounting().eliminated == 200


def test_a_dead_path_is_dead_in_both_directions_unless_set_otherwise(flow, testbed):
    flow.begin("control")
    ping = ["ping", "-c", "2", "-i", "0.1", "-W", "1", testbed.address("listener")]
    testbed.faults.impair(0, drop_ppm=MILLION, back=False)
    assert flow.send(50) == []
    testbed.faults.heal(0)
    testbed.hosts["talker"].run(ping, deadline_s=10).check()
    before = testbed.snapshot().hosts["sw1"].station["faults"]["m0"]["dropped"]
    testbed.faults.impair(0, drop_ppm=1_000_000)
    answer = testbed.hosts["listener"].run(
        ["ping", "-c", "3", "-i", "0.1", "-W", "1", testbed.address("talker")], deadline_s=10
    )
    assert answer.exit_status == 1
    after = testbed.snapshot().hosts["sw1"].station["faults"]["m0"]["dropped"]
    assert (after - before).frames >= 3


def test_a_lossy_path_loses_at_its_rate(flow, testbed):
    """4000 frames at 0.3: mean 1200, standard deviation 29; 6 of those either way."""
    flow.begin("control")
    testbed.faults.impair(0, drop_ppm=300_000)
    received = flow.send(4000)
    found = flow.accounting()
    lost = found.drops["sw2 link m0, made lossy"]
    assert 1200 - 6 * 29 < lost < 1200 + 6 * 29
    assert len(received) == 4000 - lost
    assert len(set(received)) == len(received)
    assert found.unaccounted == 0


def test_frer_repairs_the_loss_of_one_path(flow, testbed):
    flow.begin("frer")
    testbed.faults.impair(1, drop_ppm=300_000)
    assert flow.send(2000) == list(range(2000))
    found = flow.accounting()
    assert found.eliminated == 2000 - found.drops["sw2 link m1, made lossy"]
    # The hosts' own frames go the same way, and count there too.
    assert flow.grown("discarded") >= found.eliminated
    assert found.unaccounted == 0


@pytest.mark.parametrize("path", [0, 1])
def test_frer_eliminates_what_a_path_duplicates(flow, testbed, path):
    flow.begin("frer")
    testbed.faults.impair(path, duplicate_ppm=500_000)
    assert flow.send(1000) == list(range(1000))
    found = flow.accounting()
    assert 1000 + 300 < found.copies < 1000 + 700
    assert found.eliminated == found.copies
    assert found.unaccounted == 0


def test_control_hands_on_what_a_path_duplicates(flow, testbed):
    flow.begin("control")
    testbed.faults.impair(0, duplicate_ppm=MILLION)
    received = flow.send(200)
    assert received == [number for number in range(200) for _ in range(2)]
    found = flow.accounting()
    assert (found.copies, found.unaccounted) == (200, 0)


def test_individual_recovery_keeps_a_paths_copies_from_the_compound_one(testbed, sockets):
    """What a path duplicates is discarded at its port; between paths one copy each is left."""
    flow = Flow(testbed, sockets)
    flow.begin("frer")
    testbed.configure_streams([SwitchStream(STREAM, individual="match")])
    before = testbed.snapshot().of_stream(0).hosts["sw2"].station
    testbed.faults.impair(1, duplicate_ppm=MILLION)
    assert flow.send(200) == list(range(200))
    after = testbed.snapshot().of_stream(0).hosts["sw2"].station
    testbed.faults.clear()

    def grown(*keys: str) -> int:
        values = [before, after]
        for key in keys:
            values = [value[key] for value in values]
        return values[1] - values[0]

    assert grown("individual", "m0", "discarded") == 0
    assert grown("individual", "m1", "discarded") == 200
    assert [grown("individual", port, "passed") for port in ("m0", "m1")] == [200, 200]
    assert (grown("recovery", "passed"), grown("recovery", "discarded")) == (200, 200)


# --- faults of a switch ---------------------------------------------------------------------------


def test_a_stuck_generator_sends_one_number(flow, testbed, tmp_path):
    flow.begin("frer")
    assert flow.send(50) == list(range(50))
    with captured(testbed, tmp_path, [("sw1", "m0")]) as files:
        testbed.faults.stick_generator()
        # The number that comes next is sent for good: its first frame passes.
        assert flow.send(50) == [50]
        testbed.faults.stick_generator(stuck=False)
        # The same number goes out once more, now for the last time.
        assert flow.send(50) == list(range(101, 150))
    frames = [
        int(frame["ieee8021cb.seq"], 0)
        for frame in dissected(files["sw1", "m0"])
        if frame["udp.dstport"] == str(PORT)
    ]
    assert len(frames) == 100
    stuck = frames[0]
    assert frames == [stuck] * 51 + list(range(stuck + 1, stuck + 50))
    found = flow.accounting()
    assert found.unaccounted == 0
    assert flow.after.hosts["sw1"].station["generator"]["numbered"] >= 150


def test_a_restarted_sender_is_refused_until_the_reset(flow, bring_up):
    """From a number beyond the history back to 0: rogue until the timer, then any number."""
    testbed = bring_up()
    reset_s = testbed.settings.frer.reset_ms / 1000
    flow.begin("frer")
    assert flow.send(1500) == list(range(1500))
    testbed.faults.restart_switch("sw1")
    assert flow.send(50) == []
    time.sleep(reset_s + 0.1)
    assert flow.send(50) == list(range(1550, 1600))
    found = flow.accounting()
    assert found.unaccounted == 0
    assert found.drops["recovery: rogue"] == 2 * 50
    assert flow.grown("resets") == 1


def test_a_restarted_receiver_takes_any_number(flow, testbed):
    flow.begin("frer")
    assert flow.send(100) == list(range(100))
    back = ["ping", "-c", "40", "-i", "0.01", testbed.address("talker")]
    testbed.hosts["listener"].run(back, deadline_s=20).check()
    testbed.faults.restart_switch("sw2")
    assert flow.send(100) == list(range(100, 200))
    found = flow.accounting()
    assert found.unaccounted == 0
    # Only what the hosts say unasked was numbered since.
    assert flow.after.hosts["sw2"].station["generator"]["next"] < 40
    assert flow.grown("resets") == 1


def test_a_fault_of_one_stream_spares_the_others(testbed, sockets):
    flow = Flow(testbed, sockets)
    other = sockets.udp(testbed, "listener", PORT + 1, receive_bytes=1_000_000)
    other.settimeout(5)
    sender = sockets.udp(testbed, "talker")
    flow.begin("frer")
    testbed.configure_streams([SwitchStream(STREAM), SwitchStream(StreamFilter("udp", PORT + 1))])
    testbed.faults.stick_generator(0)
    assert flow.send(20) == [0]
    for index in range(20):
        sender.sendto(bytes([index]), (testbed.address("listener"), PORT + 1))
    assert [other.recv(8)[0] for _ in range(20)] == list(range(20))
    testbed.faults.clear()


def test_a_fault_that_stays_keeps_no_other_from_being_taken_back(flow, testbed):
    """And the trial after it is not measured on what is left of the network."""
    sw1 = testbed.hosts["sw1"]

    def call(name: str, new: str) -> None:
        for words in (["down"], ["name", new], ["up"]):
            device = new if words == ["up"] else name
            sw1.run(["ip", "link", "set", "dev", device, *words], deadline_s=5).check()

    testbed.faults.cut(1)
    testbed.faults.stick_generator()
    call("m0", "lost0")
    try:
        with pytest.raises(
            TestbedError, match=r"faults remain on the testbed: .*m0.*sets the testbed up"
        ):
            testbed.faults.clear()
    finally:
        call("lost0", "m0")
    wait_for_link(testbed, "up", "up")
    flow.begin("frer")
    assert flow.send(20) == list(range(20))


@pytest.mark.parametrize("wrong", [{"drop_ppm": MILLION + 1}, {"duplicate_ppm": -1}])
def test_a_probability_beyond_one_is_refused(testbed, wrong):
    with pytest.raises(ConfigurationError, match=r"_ppm=.*0 \.\.\. 1000000"):
        testbed.faults.impair(0, **wrong)


@pytest.mark.parametrize("path", [-1, 2])
def test_a_path_that_is_not_there_is_refused(testbed, path):
    with pytest.raises(ConfigurationError, match=f"no member path {path}"):
        testbed.faults.cut(path)


# --- three paths: last in this file, because it brings up another testbed -----------------------


def test_the_last_of_three_paths_carries_everything(bring_up, sockets):
    testbed = bring_up(paths=3)
    flow = Flow(testbed, sockets)
    try:
        flow.begin("frer")
        assert flow.send(100) == list(range(100))
        testbed.faults.cut(0)
        assert flow.send(100) == list(range(100, 200))
        testbed.faults.impair(1, drop_ppm=1_000_000)
        assert flow.send(100) == list(range(200, 300))
        found = flow.accounting()
    finally:
        testbed.faults.clear()
    assert found.unaccounted == 0
    assert found.copies == 2 * 300
    assert found.eliminated == 2 * 100 + 100
    assert found.drops["sw1 queue m0"] == 200
    assert found.drops["sw2 link m1, made lossy"] == 100
