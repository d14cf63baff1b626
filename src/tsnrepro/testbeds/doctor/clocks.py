"""Checks of clocks: the network cards', the hosts', and other services that set them."""

import re
import time
from collections.abc import Iterator

from tsnrepro.common.durations import duration
from tsnrepro.common.topology import LISTENER
from tsnrepro.config import NicPairSettings, RackSettings
from tsnrepro.config.ptp import RackPtpSettings
from tsnrepro.testbeds.doctor.findings import PASS, STOP, WARN, ExaminedHost, Finding
from tsnrepro.testbeds.nic_pair.hosts import ptp_ports
from tsnrepro.tools.ethtool import clock_index, missing_timestamping

# An offset that does not matter to a campaign.
_CLOCK_SECONDS = 0.1
_LONG_SECONDS = 10.0
# As in ps, which truncates names to 15 bytes.
_TIME_SERVICES = ("chronyd", "ntpd", "openntpd", "systemd-timesyn", "timemaster")
_LINUXPTP = ("ptp4l", "phc2sys")
_OFFSET = re.compile(r"offset from CLOCK_REALTIME is (approximately )?(-?\d+)\s*ns")


# --- network cards ----------------------------------------------------------------------------


def hardware_clock(host: ExaminedHost) -> Iterator[Finding]:
    """Check that a host's card has a clock and the time stamping that it needs."""
    if not _is_synchronized(host):
        return
    uses_card = _uses_card_clock(host)
    for device in _clock_devices(host):
        text = host.output("ethtool", "-T", device)
        clock = clock_index(text)
        every_frame = host.in_nic_pair and host.role == LISTENER
        missing = missing_timestamping(text, every_frame=every_frame)
        found = "none" if clock is None else f"clock {clock}"
        if clock is not None and missing:
            found += f", but no {', '.join(missing)}"
        remedy, without = "One-way latency then uses software time stamps", WARN
        if uses_card:
            remedy, without = _clock_remedy(host), STOP
        verdict = without if clock is None or missing else PASS
        yield host.finding(f"hardware clock of {device}", verdict, found, remedy)
        if uses_card and clock is not None and host.is_station:
            yield _card_offset(host, device)


def rx_timestamping(host: ExaminedHost) -> Iterator[Finding]:
    """Check that the card of a rack's listener can stamp all received frames, if configured."""
    settings = host.testbed.settings
    card = settings.stamping.get(host.role) if isinstance(settings, RackSettings) else None
    if card is None:
        return
    missing = missing_timestamping(host.output("ethtool", "-T", card), every_frame=True)
    if not host.has("hwstamp_ctl"):
        missing.append("hwstamp_ctl of linuxptp to set it")
    found = f"no {', '.join(missing)}" if missing else "all frames, by the card"
    remedy = "Use another card, or set `rx_timestamping: software`"
    yield host.finding(f"receive time stamps of {card}", STOP if missing else PASS, found, remedy)


def _clock_remedy(host: ExaminedHost) -> str:
    # With a switch between, software time stamps are not an alternative.
    if isinstance(host.testbed.settings, NicPairSettings) and host.testbed.settings.hosts.sw:
        return "Use another card: the switch's gates need hardware clocks"
    return "Use another card, or set `ptp: {time_stamping: software}`"


def _uses_card_clock(host: ExaminedHost) -> bool:
    ptp = host.testbed.settings.ptp
    return ptp is not None and ptp.time_stamping == "hardware"


def _clock_devices(host: ExaminedHost) -> list[str]:
    """Return the devices whose clocks determine the host's time."""
    ptp = host.testbed.settings.ptp
    if isinstance(ptp, RackPtpSettings):
        return [getattr(ptp.interfaces, host.role)]
    if isinstance(host.testbed.settings, NicPairSettings):
        return ptp_ports(host.testbed.settings)[host.role]
    return list(host.devices.values())


def _is_synchronized(host: ExaminedHost) -> bool:
    """Return whether a campaign synchronizes the host's clock."""
    if isinstance(host.testbed.settings, NicPairSettings):
        return host.role in ptp_ports(host.testbed.settings)
    return host.is_station


def _card_offset(host: ExaminedHost, device: str) -> Finding:
    """Read a card's clock against the system's; linuxptp sets it before each trial."""
    check = f"clock of {device}"
    if not host.has("phc_ctl"):
        return host.finding(check, PASS, "not read: phc_ctl of linuxptp is not installed")
    # Without -q it writes to the host's log.
    offset = _OFFSET.search(host.output("phc_ctl", "-q", device, "cmp"))
    if offset is None:
        remedy = f"Run `phc_ctl {device} cmp` on the host: phc2sys must be able to read the clock"
        return host.finding(check, STOP, "cannot be read", remedy)
    # The system's time minus the card's, as in phc2sys; if the kernel cannot read both at once,
    # phc_ctl prints the card's minus the system's.
    ahead_s = int(offset[2]) / (1e9 if offset[1] else -1e9)
    found = f"{abs(ahead_s):.6f} s {'ahead of' if ahead_s > 0 else 'behind'} the system's"
    return host.finding(check, PASS, f"{found}, set before each trial")


# --- other services ---------------------------------------------------------------------------


def time_services(host: ExaminedHost) -> Iterator[Finding]:
    """Check for other programs that set the clocks that a campaign's linuxptp synchronizes.

    The listener's system clock follows the talker's during a trial: another service that sets it
    would interfere. A second ptp4l or phc2sys on either host would set the same clock.
    """
    ptp = host.testbed.settings.ptp
    if ptp is None or ptp.free_running or not _is_synchronized(host):
        return
    services = (*_LINUXPTP, *(_TIME_SERVICES if host.role == LISTENER else ()))
    if host.is_inline_switch:  # busybox's ps has no such options
        running = {name for name in services if host.output("pidof", name)}
    else:
        running = {*host.shell.read(["ps", "-e", "-o", "comm="]).split()}
    others = [name for name in services if name in running]
    found = ", ".join(others) or "none"
    remedy = "Stop it for the campaign, or set `ptp: null` if it synchronizes both hosts' clocks"
    yield host.finding("other time services", STOP if others else PASS, found, remedy)


# --- hosts ------------------------------------------------------------------------------------


def system_clock(host: ExaminedHost) -> Iterator[Finding]:
    """Compare a host's clock with this machine's, as precisely as SSH allows."""
    before = time.time()
    host_time, resolution = _read_clock(host.shell.read(["date", "+%s.%N"]))
    after = time.time()
    uncertainty = (after - before + resolution) / 2
    offset = abs(host_time - (before + after) / 2)
    good = offset <= max(uncertainty, _CLOCK_SECONDS)
    found = f"{_shown(offset)} from this machine's, ±{_shown(uncertainty)}"
    remedy = "Set it, or start chrony or ptp4l: records are ordered by it"
    yield host.finding("clock", PASS if good else WARN, found, remedy)


def _read_clock(printed: str) -> tuple[float, float]:
    """Return the time that ``date`` printed, and its resolution."""
    seconds, _, nanoseconds = printed.strip().partition(".")
    if re.fullmatch(r"\d{9}", nanoseconds):
        return int(seconds) + int(nanoseconds) / 1e9, 0.0
    # Boards print whole seconds.
    return int(seconds) + 0.5, 1.0


def _shown(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < _LONG_SECONDS else duration(seconds)
