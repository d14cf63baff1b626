"""Synchronization of the talker's and the listener's clocks, and the latencies that it permits.

Two hosts of one kernel read one clock. Separate machines are as synchronized as their time service
reports: linuxptp's ``pmc`` prints each host's last offset from the grandmaster, ``phc2sys`` that
of the system clock from the network card's. Neither detects path asymmetry: an asymmetric path of
mean delay D hides an error of up to D, which no number here includes.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.common.topology import STATIONS
from tsnrepro.native import streams
from tsnrepro.native.streams.command import ListenerResult, TalkerResult
from tsnrepro.native.streams.delivery import Receipt
from tsnrepro.testbeds.hosts.host import RemoteHost
from tsnrepro.tools.linuxptp import (
    ClockOffset,
    PtpState,
    TimeService,
    parse_phc2sys,
    parse_ptp_state,
    pmc,
)

COMMAND_SECONDS = 10
_MAX_RELATIVE_UNCERTAINTY = 0.1
"""Of a one-way latency."""
_STEP_NOISE_NS = 10_000
"""Two clocks are read one after the other: a smaller change of their difference is not a step."""

_READ_CLOCKS = 'cat /proc/sys/kernel/random/boot_id && exec "$1" --show-clock'
_READ_LOG = 'tail -n "$1" "$2"'


@dataclass(frozen=True)
class ClockReading:
    """Reading of a host's clocks, in nanoseconds."""

    boot_id: str
    tai_ns: int
    monotonic_ns: int
    tai_offset_s: int
    resolution_ns: int

    @property
    def epoch_ns(self) -> int:
        """CLOCK_REALTIME."""
        return self.tai_ns - self.tai_offset_s * 1_000_000_000


@dataclass(frozen=True)
class ClockSync:
    """Two hosts' clocks differ by ``uncertainty_ns`` at most, according to ``method``."""

    uncertainty_ns: float
    method: str
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ClockSyncFailure:
    """The clocks permit no one-way latency, for a ``reason``."""

    reason: str


# --- reading --------------------------------------------------------------------------------


def read_clocks(host: RemoteHost, program: str) -> ClockReading:
    """Read the boot ID and the clocks of a host; ``program`` is a talker or listener on it.

    Raises CommandError if the command failed. Raises ToolError if its output cannot be read.
    """
    argv = ["sh", "-c", _READ_CLOCKS, "sh", program]
    output = host.run(argv, deadline_s=COMMAND_SECONDS).check().stdout
    boot_id, _, document = output.partition("\n")
    try:
        clocks = json.loads(document)
        return ClockReading(
            boot_id.strip(),
            clocks["tai_ns"],
            clocks["monotonic_ns"],
            clocks["tai_offset_s"],
            clocks["resolution_ns"],
        )
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ToolError(f"clocks cannot be read: {output.strip()[:300]}", host.name) from error


# --- evaluation -----------------------------------------------------------------------------


def compare_clocks(
    talker: RemoteHost,
    listener: RemoteHost,
    programs: tuple[str, str],
    services: tuple[TimeService, TimeService] | None = None,
) -> ClockSync | ClockSyncFailure:
    """Determine how far the two hosts' CLOCK_TAI may differ.

    The listener's clock is read between two readings of the talker's, so it must lie between them
    whatever the method: a large offset is detected even if the time service reports none.

    Parameters
    ----------
    talker, listener
        The hosts.
    programs
        Path of a talker or listener program on each host.
    services
        linuxptp on each host; ``None`` without a time service.

    Raises
    ------
    CommandError, ToolError
        A host cannot be queried.
    """
    first = read_clocks(talker, programs[0])
    other = read_clocks(listener, programs[1])
    last = read_clocks(talker, programs[0])
    if first.boot_id == other.boot_id:
        return evaluate_one_kernel(first, other, last)
    if services is None:
        return ClockSyncFailure(
            "talker and listener are separate machines, and no time service is configured"
        )
    states = (ptp_state(talker, services[0]), ptp_state(listener, services[1]))
    offsets = (phc2sys_offsets(talker, services[0]), phc2sys_offsets(listener, services[1]))
    return evaluate_time_service(first, other, last, states, offsets)


@contextmanager
def check_clocks(
    talker: RemoteHost, listener: RemoteHost
) -> Iterator[list[ClockSync | ClockSyncFailure]]:
    """Compare two hosts' clocks before a block and, into the same list, after it."""
    programs = str(streams.talker()), str(streams.listener())
    found = [compare_clocks(talker, listener, programs)]
    yield found
    found.append(compare_clocks(talker, listener, programs))


def ptp_state(host: RemoteHost, service: TimeService) -> PtpState:
    """Query the state of a host's ptp4l; CommandError or ToolError if it does not respond."""
    return parse_ptp_state(host.run(pmc(service), deadline_s=COMMAND_SECONDS).check().stdout)


def phc2sys_offsets(host: RemoteHost, service: TimeService) -> list[ClockOffset]:
    """Return the last offsets of a host's phc2sys, empty if there is none.

    Raises CommandError or ToolError if its log cannot be read.
    """
    if service.phc2sys_log is None:
        return []
    argv = ["sh", "-c", _READ_LOG, "sh", str(service.phc2sys_lines), service.phc2sys_log]
    return parse_phc2sys(host.run(argv, deadline_s=COMMAND_SECONDS).check().stdout)


def evaluate_one_kernel(
    first: ClockReading, other: ClockReading, last: ClockReading
) -> ClockSync | ClockSyncFailure:
    """Evaluate hosts with the same boot ID: namespaces of one kernel, with a single CLOCK_TAI.

    Copies of a running machine have the same boot ID too, so the clock since boot must also lie
    between the talker's readings.
    """
    if refusal := _bracket(first, other, last, 0):
        return refusal
    if not first.monotonic_ns <= other.monotonic_ns <= last.monotonic_ns:
        return ClockSyncFailure(
            "the hosts have the same boot ID, but their clocks since boot differ: "
            "copies of one machine, or a time namespace"
        )
    evidence = {"boot_id": first.boot_id, "round_trip_ns": last.tai_ns - first.tai_ns}
    return ClockSync(float(first.resolution_ns), "one kernel, one clock", evidence)


def evaluate_time_service(
    first: ClockReading,
    other: ClockReading,
    last: ClockReading,
    states: tuple[PtpState, PtpState],
    offsets: tuple[list[ClockOffset], list[ClockOffset]],
) -> ClockSync | ClockSyncFailure:
    """Evaluate separate machines by linuxptp: the sum of both hosts' offsets.

    A host's share is its offset from the grandmaster and, if phc2sys synchronizes card and system,
    its largest offset and half its reading delay.
    """
    if states[0].grandmaster != states[1].grandmaster:
        return ClockSyncFailure(
            f"the hosts have different grandmasters, {states[0].grandmaster} and "
            f"{states[1].grandmaster}"
        )
    for name, state, reported in zip(STATIONS, states, offsets, strict=True):
        if not state.synchronised:
            return ClockSyncFailure(
                f"the {name}'s PTP ports are {', '.join(state.port_states)}, none SLAVE"
            )
        if unlocked := [o.state for o in reported if o.state not in (None, "s2")]:
            return ClockSyncFailure(
                f"the {name}'s phc2sys is in servo state {unlocked[-1]}, not s2"
            )
    if first.tai_offset_s != other.tai_offset_s:
        return ClockSyncFailure(
            f"CLOCK_TAI is {first.tai_offset_s} s ahead of UTC at the talker and "
            f"{other.tai_offset_s} s at the listener"
        )
    shares = [
        abs(state.offset_ns) + _uncertainty_ns(each)
        for state, each in zip(states, offsets, strict=True)
    ]
    uncertainty = sum(shares) + first.resolution_ns
    if refusal := _bracket(first, other, last, uncertainty):
        return refusal
    evidence = {
        "grandmaster": states[0].grandmaster,
        "shares_ns": shares,
        "mean_path_delays_ns": [state.mean_path_delay_ns for state in states],
        "round_trip_ns": last.tai_ns - first.tai_ns,
    }
    return ClockSync(uncertainty, "linuxptp", evidence)


def add_switch(sync: ClockSync, switch: PtpState) -> ClockSync | ClockSyncFailure:
    """Add the uncertainty of a switch between the hosts, a boundary clock of their grandmaster.

    The listener's offset is relative to the switch, whose own clock also drives its gates: its
    offset from the talker's clock adds to both.
    """
    grandmaster = sync.evidence.get("grandmaster")
    if grandmaster is not None and switch.grandmaster != grandmaster:
        return ClockSyncFailure(
            f"the switch has grandmaster {switch.grandmaster}, the hosts {grandmaster}"
        )
    if "SLAVE" not in switch.port_states:
        return ClockSyncFailure(
            f"the switch's PTP ports are {', '.join(switch.port_states)}, none SLAVE"
        )
    if "MASTER" not in switch.port_states:
        return ClockSyncFailure(
            f"the switch's PTP ports are {', '.join(switch.port_states)}, none MASTER"
        )
    share = abs(switch.offset_ns)
    evidence = sync.evidence | {"switch_share_ns": share}
    return ClockSync(sync.uncertainty_ns + share, sync.method, evidence)


def add_stamping_card(sync: ClockSync, offsets: list[ClockOffset]) -> ClockSync | ClockSyncFailure:
    """Add the uncertainty of a card that stamps received frames, by its phc2sys."""
    if unlocked := [o.state for o in offsets if o.state not in (None, "s2")]:
        return ClockSyncFailure(
            f"the stamping card's phc2sys is in servo state {unlocked[-1]}, not s2"
        )
    share = _uncertainty_ns(offsets)
    evidence = sync.evidence | {"stamping_card_share_ns": share}
    return ClockSync(sync.uncertainty_ns + share, sync.method, evidence)


def _uncertainty_ns(offsets: list[ClockOffset]) -> float:
    """Return the largest sum of an offset of phc2sys and half its reading delay."""
    return max((abs(o.offset_ns) + o.delay_ns / 2 for o in offsets), default=0)


def _bracket(
    first: ClockReading, other: ClockReading, last: ClockReading, tolerance_ns: float
) -> ClockSyncFailure | None:
    if first.tai_ns - tolerance_ns <= other.tai_ns <= last.tai_ns + tolerance_ns:
        return None
    return ClockSyncFailure(
        f"the listener's CLOCK_TAI {other.tai_ns} is outside the talker's readings before and "
        f"after it, {first.tai_ns} to {last.tai_ns}"
    )


def why_not_one_way(
    latency_ns: float, before: ClockSync | ClockSyncFailure, after: ClockSync | ClockSyncFailure
) -> ClockSyncFailure | None:
    """Return why the clocks permit no one-way latency, ``None`` if they do.

    Parameters
    ----------
    latency_ns
        The smallest latency.
    before, after
        Synchronization of the clocks before and after the run; the worse one counts.
    """
    for when, sync in (("before", before), ("after", after)):
        if isinstance(sync, ClockSyncFailure):
            return ClockSyncFailure(f"{when} the run: {sync.reason}")
        if not (math.isfinite(latency_ns) and latency_ns > 0):
            return ClockSyncFailure(
                f"a one-way latency of {latency_ns} ns is impossible: clocks not synchronized"
            )
        if sync.uncertainty_ns > latency_ns * _MAX_RELATIVE_UNCERTAINTY:
            return ClockSyncFailure(
                f"{when} the run the clocks are synchronized to {sync.uncertainty_ns:.0f} ns "
                f"({sync.method}), more than a tenth of {latency_ns:.0f} ns"
            )
    return None


def why_not_these_clocks(
    sent: TalkerResult, received: ListenerResult, receipt: Receipt = "application"
) -> ClockSyncFailure | None:
    """Return why the times of two reports cannot be compared, ``None`` if they can.

    Hardware time stamps (``receipt`` of ``kernel``) are of the network card's clock, which linuxptp
    synchronizes to TAI.
    """
    if sent.clock != received.clock:
        return ClockSyncFailure(
            f"the talker's times are on {sent.clock}, the listener's on {received.clock}"
        )
    if sent.tai_offset_s != received.tai_offset_s and sent.clock == "tai":
        return ClockSyncFailure(
            f"CLOCK_TAI is {sent.tai_offset_s} s ahead of UTC at the talker and "
            f"{received.tai_offset_s} s at the listener"
        )
    for name, step_ns in (("talker", sent.clock_step_ns), ("listener", received.clock_step_ns)):
        if abs(step_ns) > _STEP_NOISE_NS:
            return ClockSyncFailure(f"the {name}'s clock was set by {step_ns} ns during the run")
    if receipt == "kernel" and received.stamp_clock == "none":
        return ClockSyncFailure("receive time stamping was not enabled at the listener")
    if receipt == "kernel" and received.stamp_clock == "phc" and sent.clock != "tai":
        return ClockSyncFailure(
            f"the card's time stamps are on TAI, the talker's times on {sent.clock}"
        )
    return None
