"""What the doctor looks at of clocks: the cards', the hosts', and what else steers them."""

import re
import time
from collections.abc import Iterator

from tsnrepro.common.topology import LISTENER
from tsnrepro.config import NicPairSettings, RackSettings
from tsnrepro.config.ptp import RackPtpSettings
from tsnrepro.testbeds.nic_pair.hosts import clocks_of
from tsnrepro.testbeds.rack import nic_timestamps as card_stamps
from tsnrepro.testbeds.rack.findings import PASS, STOP, WARN, ExaminedHost, HostFinding
from tsnrepro.testbeds.rack.shell import Shell

# What no step of a campaign would notice.
_CLOCK_SECONDS = 0.1
# As ps names them, which cuts names at 15 bytes.
_STEERING = ("chronyd", "ntpd", "openntpd", "systemd-timesyn", "timemaster")
_LINUXPTP = ("ptp4l", "phc2sys")
_CLOCK = re.compile(r"(?:PTP Hardware Clock|provider index):\s*(\d+)")
_OFFSET = re.compile(r"offset from CLOCK_REALTIME is (approximately )?(-?\d+)\s*ns")


# --- the cards' -------------------------------------------------------------------------------


def clock_hardware(host: ExaminedHost) -> Iterator[HostFinding]:
    """Look whether a host's card has a clock, and stamps what has to be stamped."""
    if not _has_clock_kept(host):
        return
    by_card = _by_card(host)
    for device in _clock_cards(host):
        told = host.said("ethtool", "-T", device)
        clock = _CLOCK.search(told)
        lacks = card_stamps.lacking(told, every_frame=host.of_pair and host.role == LISTENER)
        said = f"clock {clock[1]}" if clock else "none"
        if clock and lacks:
            said += f", but no {', '.join(lacks)}"
        remedy, without = "One-way latency then rests on the kernel's time stamps", WARN
        if by_card:
            remedy, without = _remedy_of(host), STOP
        verdict = PASS if clock and not lacks else without
        yield host.finding(f"hardware clock of {device}", verdict, said, remedy)
        if by_card and clock and host.station:
            yield _card_beside_system(host, device)


def arrival_stamps(host: ExaminedHost) -> Iterator[HostFinding]:
    """Look whether the measured card of a rack's listener stamps arrivals, where that is asked."""
    settings = host.rack.settings
    card = settings.stamping.get(host.role) if isinstance(settings, RackSettings) else None
    if card is None:
        return
    lacks = card_stamps.lacking(host.said("ethtool", "-T", card), every_frame=True)
    if not host.has("hwstamp_ctl"):
        lacks.append("hwstamp_ctl of linuxptp to set it")
    found = f"no {', '.join(lacks)}" if lacks else "every frame, by the card"
    remedy = "Take another card, or set `rx_timestamping: software`"
    yield host.finding(f"arrival stamps of {card}", STOP if lacks else PASS, found, remedy)


def _remedy_of(host: ExaminedHost) -> str:
    # With a board between, software time stamps are no way out.
    if isinstance(host.rack.settings, NicPairSettings) and host.rack.settings.hosts.sw:
        return "Take another card: a board's gates go by clocks in hardware"
    return "Take another card, or set `ptp: {time_stamping: software}`"


def _by_card(host: ExaminedHost) -> bool:
    ptp = host.rack.settings.ptp
    return ptp is not None and ptp.time_stamping == "hardware"


def _clock_cards(host: ExaminedHost) -> list[str]:
    """Return the devices whose clocks the host's time comes from."""
    ptp = host.rack.settings.ptp
    if isinstance(ptp, RackPtpSettings):
        return [getattr(ptp.interfaces, host.role)]
    if isinstance(host.rack.settings, NicPairSettings):
        return clocks_of(host.rack.settings)[host.role]
    return list(host.devices.values())


def _has_clock_kept(host: ExaminedHost) -> bool:
    """Tell whether a host's clock is one of those that are kept together."""
    if isinstance(host.rack.settings, NicPairSettings):
        return host.role in clocks_of(host.rack.settings)
    return host.station


def _card_beside_system(host: ExaminedHost, device: str) -> HostFinding:
    """Read how far a card's clock is from the system's; linuxptp sets it before each trial."""
    check = f"clock of {device}"
    if not host.has("phc_ctl"):
        return host.finding(check, PASS, "not read: phc_ctl of linuxptp is not there")
    # Without -q it writes to the host's log.
    found = _OFFSET.search(host.said("phc_ctl", "-q", device, "cmp"))
    if found is None:
        remedy = "`phc_ctl CARD cmp` on the host says why; without it phc2sys cannot set the clock"
        return host.finding(check, STOP, "cannot be read", remedy)
    # The system's time less the card's, as phc2sys tells it; where the kernel cannot compare the
    # two at once, phc_ctl tells the card's less the system's.
    ahead_s = int(found[2]) / (1e9 if found[1] else -1e9)
    said = f"{abs(ahead_s):.6f} s {'ahead of' if ahead_s > 0 else 'behind'} the system's"
    return host.finding(check, PASS, f"{said}, set before each trial")


# --- what else steers them --------------------------------------------------------------------


def time_services(host: ExaminedHost) -> Iterator[HostFinding]:
    """Find other programs that set the clocks which linuxptp is to keep together.

    The listener's system clock follows the talker's during a trial: whatever else sets it fights
    with that. A second ptp4l or phc2sys on either host has the same card, or the same clock.
    """
    ptp = host.rack.settings.ptp
    if ptp is None or ptp.free_running or not _has_clock_kept(host):
        return
    steering = (*_LINUXPTP, *(_STEERING if host.role == LISTENER else ()))
    if host.between:  # busybox's ps knows no such options
        run = {name for name in steering if host.said("pidof", name)}
    else:
        run = {*host.shell.read(["ps", "-e", "-o", "comm="]).split()}
    others = [name for name in steering if name in run]
    found = ", ".join(others) or "none"
    remedy = "Stop it for the campaign, or set `ptp: null` where it keeps both hosts' clocks"
    yield host.finding("other time services", STOP if others else PASS, found, remedy)


# --- the hosts' -------------------------------------------------------------------------------


def clock_of(role: str, shell: Shell) -> HostFinding:
    """Compare a host's clock with this machine's, as closely as asking over SSH allows."""
    before = time.time()
    theirs, resolution = _read_clock(shell.read(["date", "+%s.%N"]))
    after = time.time()
    known = (after - before + resolution) / 2
    away = abs(theirs - (before + after) / 2)
    good = away <= max(known, _CLOCK_SECONDS)
    found = f"{_milliseconds(away)} from this machine's, known within {_milliseconds(known)}"
    remedy = "Set it, or start chrony or ptp4l: records are ordered by it"
    return HostFinding("clock", role, PASS if good else WARN, found, remedy)


def _read_clock(printed: str) -> tuple[float, float]:
    """Return the middle of the time that ``date`` printed and how long that is."""
    seconds, _, nanoseconds = printed.strip().partition(".")
    if re.fullmatch(r"\d{9}", nanoseconds):
        return int(seconds) + int(nanoseconds) / 1e9, 0.0
    # A board's has whole seconds only.
    return int(seconds) + 0.5, 1.0


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"
