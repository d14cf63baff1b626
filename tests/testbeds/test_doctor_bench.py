"""The doctor's checks of a bench's cards, by what the tools print of real ones."""

import json

import pytest
from examined import examined, found

from tsnrepro.config import BenchSettings, parse
from tsnrepro.testbeds.doctor import bench, bench_frames, ports
from tsnrepro.testbeds.doctor.findings import PASS, WARN


def settings(talkers, listeners):
    ports_by_role = {"talker": talkers, "listener": listeners}
    return parse(
        BenchSettings, {"kind": "bench", "device": "none", "ports": ports_by_role}, "a bench"
    )


TWO = settings(["enp3s0"], ["enp4s0"])
FOUR = settings(["enp3s0", "enp5s0"], ["enp4s0", "enp6s0"])
CARD = """\
Time stamping parameters for enp3s0:
Capabilities:
\thardware-transmit
\tsoftware-transmit
\thardware-receive
\tsoftware-receive
\tsoftware-system-clock
\thardware-raw-clock
PTP Hardware Clock: 1
"""
KERNEL_ALONE = """\
Time stamping parameters for enp3s0:
Capabilities:
\tsoftware-transmit
\tsoftware-receive
\tsoftware-system-clock
PTP Hardware Clock: none
"""


def talker(prints, of=TWO):
    return examined(of, "talker", {"enp3s0": "enp3s0"}, prints)


@pytest.mark.parametrize(
    ("text", "verdict", "says"),
    [
        (CARD, "pass", "by the card and the kernel, whose clock is /dev/ptp1"),
        (KERNEL_ALONE, "pass", "by the kernel"),
        (None, "warn", "none"),
    ],
)
def test_who_stamps_arrivals(text, verdict, says):
    host = talker({"ethtool -T enp3s0": text} if text else {})
    finding = found(bench.time_stamps, host)["time stamps of enp3s0"]
    assert (finding.verdict, finding.found) == (verdict, says)


@pytest.mark.parametrize(
    ("tools", "running", "listeners_clock", "verdict", "says"),
    [
        (True, "ps\n", 2, "pass", "/dev/ptp1 and /dev/ptp2, set to the system's by phc2sys"),
        (True, "ps\n", 1, "pass", "one for both ports, /dev/ptp1, set to the system's"),
        (True, "phc2sys\n", 2, "stop", "running already: phc2sys"),
        (False, "ps\n", 2, "warn", "missing are phc2sys, hwstamp_ctl"),
        (True, "ps\n", None, "pass", "by the clock that sends"),
    ],
)
def test_which_clock_stamps_arrivals(monkeypatch, tools, running, listeners_clock, verdict, says):
    every = f"{CARD}Hardware Receive Filter Modes:\n\tnone\n\tall\n"
    listeners = every.replace("Clock: 1", f"Clock: {listeners_clock}")
    prints = {
        "ethtool -T enp3s0": every,
        "ethtool -T enp4s0": KERNEL_ALONE if listeners_clock is None else listeners,
        "ps -e -o comm=": running,
    }
    monkeypatch.setattr(bench, "missing_tools", lambda _: [] if tools else [*bench.TOOLS])
    finding = found(bench.clocks, talker(prints))["clock of arrivals"]
    assert finding.verdict == verdict
    assert says in finding.found
    assert not found(bench.clocks, talker(prints, FOUR))


@pytest.mark.parametrize(
    ("of", "speed", "duplex", "max_mtu", "verdicts"),
    [
        (TWO, "1000", "full", 9216, ("pass", "pass")),
        (TWO, "100", "half", 9216, ("stop", "pass")),
        (TWO, "1000", "full", 1500, ("pass", "pass")),
        (FOUR, "1000", "full", 1500, ("pass", "stop")),
    ],
)
def test_speed_duplex_and_room_for_tags(of, speed, duplex, max_mtu, verdicts):
    """A campaign sets the MTU itself, whatever it is before; two ports send no tags."""
    link = [{"ifname": "enp3s0", "mtu": 1400, "max_mtu": max_mtu, "flags": ["UP"]}]
    folder = "/sys/class/net/enp3s0"
    host = talker(
        {
            "ip -j -d link show dev enp3s0": json.dumps(link),
            f"cat {folder}/carrier": "1\n",
            f"cat {folder}/speed": f"{speed}\n",
            f"cat {folder}/duplex": f"{duplex}\n",
            f"test -e {folder}/device": "",
        },
        of,
    )
    checks = found(ports.links, host)
    assert checks["link of enp3s0"].verdict == "pass"
    names = ("speed of enp3s0", "MTU of enp3s0")
    assert tuple(checks[name].verdict for name in names) == verdicts


def test_a_port_that_is_not_there_is_one_finding(monkeypatch):
    monkeypatch.setattr(bench, "missing_requirements", list)
    findings = bench.examine(settings(["nosuchport0"], ["nosuchport1"]))
    (stop,) = [each for each in findings if each.verdict == "stop"]
    assert (stop.check, stop.role) == ("ports", "here")
    assert stop.found == "there is no network device 'nosuchport0'"
    assert not [each for each in findings if each.role in ("talker", "listener")]


@pytest.mark.parametrize(
    ("forwarded", "cable", "verdict"), [(0, False, PASS), (20, False, WARN), (20, True, PASS)]
)
def test_a_device_that_learns_no_addresses_is_named(forwarded, cable, verdict):
    finding = bench_frames._learning("one to other", forwarded, cable=cable)
    assert finding.verdict == verdict
    assert finding.found.startswith(f"{forwarded} of 20 ")
    assert finding.remedy


def test_frames_to_their_own_side_are_sent_to_the_station_there():
    """A device that learnt from the listener's frames has the address at the listener's port."""
    from_listener = bench_frames._frame(bench_frames._KINDS[0], "listener", 0)
    to_listener = bench_frames._frame(bench_frames._TO_OWN_SIDE, "listener", 0)
    assert to_listener[:6] == from_listener[6:12]
    assert to_listener[6:12] not in (from_listener[:6], from_listener[6:12])
