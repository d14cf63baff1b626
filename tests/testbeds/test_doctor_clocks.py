"""What the doctor says of clocks: the hosts' and the cards', and who else steers them."""

import time
from functools import partial
from types import SimpleNamespace

import pytest
from examined import examined, found
from hosts_of_cards import CARD, STAMPING

from tsnrepro.common.repository import root
from tsnrepro.config import load_testbed
from tsnrepro.config.ptp import PtpSettings
from tsnrepro.testbeds.doctor import clocks
from tsnrepro.testbeds.doctor.clocks import system_clock
from tsnrepro.testbeds.doctor.findings import PASS, STOP, WARN, ExaminedHost


class Shell:
    """A host whose clock is off, and whose ``date`` may know whole seconds only."""

    def __init__(self, ahead_s, whole):
        self._ahead_s, self._whole = ahead_s, whole

    def read(self, argv):
        assert argv[0] == "date"
        now = time.time() + self._ahead_s
        return f"{int(now)}.%N\n" if self._whole else f"{now:.9f}\n"


@pytest.mark.parametrize(
    ("ahead_s", "whole", "verdict"),
    [
        *((0.0, False, PASS), (0.05, False, PASS), (-0.3, False, WARN), (0.3, False, WARN)),
        *((0.0, True, PASS), (1.7, True, WARN), (-1.7, True, WARN), (3600.0, True, WARN)),
    ],
)
def test_a_clock_that_is_off_is_found_as_closely_as_it_can_be_read(ahead_s, whole, verdict):
    finding = clock_finding(Shell(ahead_s, whole))
    assert finding.verdict == verdict
    assert "±" in finding.found


def clock_finding(shell):
    finding = partial(ExaminedHost.finding, SimpleNamespace(role="sw1"))
    (found,) = system_clock(SimpleNamespace(shell=shell, finding=finding))
    return found


def test_a_clock_that_is_hours_off_is_so_in_hours():
    assert clock_finding(Shell(-3 * 3600.0, False)).found.startswith("3 h 0 min from this")


# --- the cards' clocks ------------------------------------------------------------------------

OLD, NEW = "PTP Hardware Clock: 0", "Hardware timestamp provider index: 0"
WITHOUT = """\
Time stamping parameters for enp3s0:
Capabilities:
\tsoftware-transmit
\tsoftware-receive
\tsoftware-system-clock
PTP Hardware Clock: none
Hardware Transmit Timestamp Modes: none
Hardware Receive Filter Modes: none
"""
PAIR = load_testbed(root() / "config" / "testbeds" / "i210-example.yaml")
READ = f"phc_ctl -q {CARD} cmp"
HAS_PHC_CTL = {'sh -c command -v "$1" sh phc_ctl': "/usr/sbin/phc_ctl\n"}


def cards_clock(printed, role="listener", settings=PAIR, more=None):
    prints = {f"ethtool -T {CARD}": printed, **(more or {})}
    host = examined(settings, role, {"card": CARD}, prints)
    return found(clocks.hardware_clock, host)


@pytest.mark.parametrize("clock", [OLD, NEW])
def test_a_card_that_stamps_every_frame_passes(clock):
    finding = cards_clock(STAMPING.format(clock=clock, filters="all"))
    assert finding[f"hardware clock of {CARD}"].verdict == PASS
    assert finding[f"hardware clock of {CARD}"].found == "clock 0"


def test_a_card_that_stamps_only_ptp_cannot_stamp_datagrams():
    """Of a listener: a talker's own frames are asked for one by one."""
    printed = STAMPING.format(clock=OLD, filters="ptpv2-l2-event")
    finding = cards_clock(printed)[f"hardware clock of {CARD}"]
    assert finding.verdict == STOP
    assert "no receive filter `all`" in finding.found
    assert cards_clock(printed, "talker")[f"hardware clock of {CARD}"].verdict == PASS


def test_a_card_without_a_clock_stops_where_one_is_asked_for():
    finding = cards_clock(WITHOUT)[f"hardware clock of {CARD}"]
    assert (finding.verdict, finding.found) == (STOP, "none")
    by_kernel = PAIR.model_copy(update={"ptp": PtpSettings(time_stamping="software")})
    assert cards_clock(WITHOUT, settings=by_kernel)[f"hardware clock of {CARD}"].verdict == WARN


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        # phc_ctl: the system's time less the card's, which keeps TAI ...
        ("offset from CLOCK_REALTIME is -37000000041ns", "37.000000 s ahead of the system's"),
        ("offset from CLOCK_REALTIME is 1500000000ns", "1.500000 s behind the system's"),
        # ... and the other way round where it has to read both one after the other.
        ("offset from CLOCK_REALTIME is approximately 37000000041ns", "37.000000 s ahead of"),
    ],
)
def test_a_cards_clock_is_compared_with_the_systems(printed, shown):
    more = HAS_PHC_CTL | {READ: f"phc_ctl[183.024]: {printed}\n\n"}
    finding = cards_clock(STAMPING.format(clock=OLD, filters="all"), more=more)
    assert finding[f"clock of {CARD}"].verdict == PASS
    assert finding[f"clock of {CARD}"].found.startswith(shown)


BOARD = load_testbed(root() / "config" / "testbeds" / "lan966x-example.yaml")


def test_a_boards_clock_is_that_of_its_ports():
    """Of those that PTP passes; phc2sys does not run there, so nothing is compared."""
    ports = {"talker": "eth1", "loader": "eth2", "listener": "eth0"}
    stamping = STAMPING.format(clock=OLD, filters="ptpv2-l2-event")
    prints = {f"ethtool -T {port}": stamping for port in ("eth0", "eth1")}
    host = examined(BOARD, "sw", ports, prints | HAS_PHC_CTL)
    finding = found(clocks.hardware_clock, host)
    assert {f.check: f.verdict for f in finding.values()} == {
        "hardware clock of eth1": PASS,
        "hardware clock of eth0": PASS,
    }


def test_software_time_stamps_are_no_way_out_of_a_board_without_a_clock():
    host = examined(BOARD, "sw", {}, {"ethtool -T eth0": WITHOUT, "ethtool -T eth1": WITHOUT})
    finding = found(clocks.hardware_clock, host)["hardware clock of eth0"]
    assert finding.verdict == STOP
    assert "software" not in finding.remedy


def test_the_loaders_clock_is_nobodys_business():
    host = examined(BOARD, "loader", {"card": CARD}, {})
    assert not found(clocks.hardware_clock, host)
    assert not found(clocks.time_services, host)
    assert not host.shell.commands


@pytest.mark.parametrize(("runs", "verdict"), [({}, PASS), ({"pidof ptp4l": "71\n"}, STOP)])
def test_a_second_ptp4l_on_a_board_is_found(runs, verdict):
    host = examined(BOARD, "sw", {}, runs)
    assert found(clocks.time_services, host)["other time services"].verdict == verdict


def test_a_cards_clock_that_cannot_be_read_stops():
    finding = cards_clock(STAMPING.format(clock=OLD, filters="all"), more=HAS_PHC_CTL)
    assert finding[f"clock of {CARD}"].verdict == STOP


# --- what else steers clocks ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "runs", "verdict"),
    [
        ("listener", "chronyd", STOP),
        ("listener", "systemd-timesyn", STOP),
        ("talker", "chronyd", PASS),  # whose clock the others follow, wherever it has it from
        ("talker", "ptp4l", STOP),
        ("listener", "phc2sys", STOP),
        ("listener", "sshd", PASS),
    ],
)
def test_a_second_time_service_is_found(role, runs, verdict):
    prints = {"ps -e -o comm=": f"systemd\n{runs}\nsshd\n"}
    host = examined(PAIR, role, {"card": CARD}, prints)
    assert found(clocks.time_services, host)["other time services"].verdict == verdict


def test_clocks_that_are_kept_otherwise_are_left_to_whoever_does():
    for ptp in (None, PtpSettings(free_running=True)):
        host = examined(PAIR.model_copy(update={"ptp": ptp}), "listener", {"card": CARD}, {})
        assert found(clocks.time_services, host) == {}
