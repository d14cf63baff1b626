"""How well the clocks of talker and listener agree, and which latencies that allows to state.

Two hosts of one kernel read one clock. Hosts apart are as good as their time service says:
linuxptp's ``pmc`` tells each host's last offset from the grandmaster, ``phc2sys`` that of the
system clock from the card's. Neither sees an asymmetry of the path: an asymmetric path of mean
delay D hides an error of up to D, which no number here includes.
"""

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.native import streams
from tsnrepro.native.streams.command import ListenerResult, TalkerResult
from tsnrepro.native.streams.delivery import Receipt
from tsnrepro.testbeds.host import RemoteHost

COMMAND_SECONDS = 10
_ALLOWED_SHARE = 0.1
"""The uncertainty that a one-way latency may have, as a share of it."""
_STEP_NOISE_NS = 10_000
"""Two clocks are read one after the other; a smaller change of their difference is no step."""

_READ_CLOCKS = 'cat /proc/sys/kernel/random/boot_id && exec "$1" --show-clock'
_READ_LOG = 'tail -n "$1" "$2"'


@dataclass(frozen=True)
class ClockReading:
    """One look at a host's clocks, in nanoseconds."""

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
    """Two hosts' clocks differ by ``uncertainty_ns`` at most, as ``method`` finds."""

    uncertainty_ns: float
    method: str
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ClockSyncFailure:
    """No one-way latency can be stated, and why."""

    reason: str


@dataclass(frozen=True)
class TimeService:
    """Where a host's linuxptp is asked.

    ``phc2sys_log`` is the file that ``phc2sys -m`` writes to; without one the system clock is
    the clock that ptp4l steers (software time stamps). ``transport_specific`` is 1 in an IEEE
    802.1AS domain.
    """

    uds_address: str | None = None
    domain: int = 0
    transport_specific: int = 0
    phc2sys_log: str | None = None
    phc2sys_lines: int = 10


@dataclass(frozen=True)
class PtpState:
    """One host's place in its PTP domain, as ptp4l tells (IEEE 1588-2008, clause 8.2)."""

    grandmaster: str
    steps_removed: int
    offset_ns: float
    mean_path_delay_ns: float
    port_states: tuple[str, ...]

    @property
    def synchronised(self) -> bool:
        """Whether the host is the grandmaster or has a port that follows it."""
        return self.steps_removed == 0 or "SLAVE" in self.port_states


@dataclass(frozen=True)
class ClockOffset:
    """One line of phc2sys: offset (the largest of a summary), servo state, delay of reading."""

    offset_ns: int
    delay_ns: int
    state: str | None
    """``s2`` is locked; a summary has none."""


# --- reading --------------------------------------------------------------------------------


def read_clocks(host: RemoteHost, program: str) -> ClockReading:
    """Read boot identity and clocks of a host; ``program`` is a talker or listener there.

    Raises
    ------
    CommandError
        The command failed.
    ToolError
        It printed something else.
    """
    argv = ["sh", "-c", _READ_CLOCKS, "sh", program]
    printed = host.run(argv, deadline_s=COMMAND_SECONDS).check().stdout
    boot_id, _, document = printed.partition("\n")
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
        raise ToolError(f"clocks cannot be read: {printed.strip()[:300]}", host.name) from error


def pmc(service: TimeService) -> list[str]:
    """Return the command that asks a host's ptp4l for its state."""
    address = ["-s", service.uds_address] if service.uds_address else []
    return [
        *("pmc", "-u", "-b", "0", "-d", str(service.domain)),
        *("-t", str(service.transport_specific), *address),
        *("GET CURRENT_DATA_SET", "GET PARENT_DATA_SET", "GET PORT_DATA_SET"),
    ]


def _parse_pmc(text: str) -> dict[str, list[dict[str, str]]]:
    """Return the data sets that ``pmc`` printed: name, then one dictionary an answer.

    Raises
    ------
    ToolError
        No answer is in the text: no ptp4l listens there, or the domain is another.
    """
    answers: dict[str, list[dict[str, str]]] = {}
    current: dict[str, str] | None = None
    for line in text.splitlines():
        # linuxptp before 2.0 wrote MANAGMENT.
        if head := re.match(r"\s+(\S+) seq \d+ (\w+) MANAGE?MENT (\w+)", line):
            kind, name = head[2], head[3]
            current = None
            if kind == "RESPONSE":
                current = {"answered_by": head[1]}
                answers.setdefault(name, []).append(current)
        elif current is not None and (pair := re.match(r"\s+(\S+)\s+(\S.*?)\s*$", line)):
            current[pair[1]] = pair[2]
    if not answers:
        raise ToolError(
            f"pmc got no answer from ptp4l: {text.strip()[:300] or 'it printed nothing'}",
            "pmc",
            "Check that ptp4l runs, its uds_address, domain and transportSpecific",
        )
    return answers


def parse_ptp_state(text: str) -> PtpState:
    """Return a host's state from what :func:`pmc` printed.

    Raises
    ------
    ToolError
        An answer or a value is missing or no number.
    """
    answers = _parse_pmc(text)
    try:
        current = answers["CURRENT_DATA_SET"][0]
        return PtpState(
            grandmaster=answers["PARENT_DATA_SET"][0]["grandmasterIdentity"],
            steps_removed=int(current["stepsRemoved"]),
            offset_ns=_finite(current["offsetFromMaster"]),
            mean_path_delay_ns=_finite(current["meanPathDelay"]),
            port_states=tuple(port["portState"] for port in answers["PORT_DATA_SET"]),
        )
    except (KeyError, ValueError) as error:
        raise ToolError(f"pmc's answers lack or garble {str(error)[:200]}", "pmc") from error


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} for a number")
    return number


_ONE = re.compile(
    r"\b(?:phc|sys|pps) offset\s+(-?\d{1,18})\s+(s\d)\s+freq\s+[-+]?\d+\s+delay\s+(-?\d{1,18})\b"
)
_SUMMARY = re.compile(
    r"\brms\s+\d+\s+max\s+(\d{1,18})\s+freq\s+[-+]?\d+\s+\+/-\s*\d+\s+delay\s+(-?\d{1,18})\s*\+/-\s*\d+"
)


def parse_phc2sys(text: str) -> list[ClockOffset]:
    """Return the offsets that ``phc2sys -m`` printed, one line each; other lines are passed over.

    Raises
    ------
    ToolError
        No line tells an offset.
    """
    offsets = []
    for line in text.splitlines():
        if one := _ONE.search(line):
            offsets.append(ClockOffset(int(one[1]), int(one[3]), one[2]))
        elif summary := _SUMMARY.search(line):
            offsets.append(ClockOffset(int(summary[1]), int(summary[2]), None))
    if not offsets:
        raise ToolError(
            f"phc2sys tells no offset: {text.strip()[-300:] or 'nothing'}",
            "phc2sys",
            "Run it with -m, its output in the file that the testbed's configuration names",
        )
    return offsets


# --- judging --------------------------------------------------------------------------------


def clock_agreement(
    talker: RemoteHost,
    listener: RemoteHost,
    programs: tuple[str, str],
    services: tuple[TimeService, TimeService] | None = None,
) -> ClockSync | ClockSyncFailure:
    """Find how well the two hosts' CLOCK_TAI agree.

    The listener's clock is read between two readings of the talker's, so it must lie between
    them whatever the method: a clock that is far off is found even where its time service is
    content with it.

    Parameters
    ----------
    talker, listener
        The hosts.
    programs
        Path of a talker or listener program on each.
    services
        linuxptp on each; ``None`` where the hosts have none.

    Raises
    ------
    CommandError, ToolError
        A host cannot be asked.
    """
    first = read_clocks(talker, programs[0])
    other = read_clocks(listener, programs[1])
    last = read_clocks(talker, programs[0])
    if first.boot_id == other.boot_id:
        return judge_one_kernel(first, other, last)
    if services is None:
        return ClockSyncFailure(
            "talker and listener are machines apart, and no time service is configured"
        )
    states = (ptp_state(talker, services[0]), ptp_state(listener, services[1]))
    offsets = (phc2sys_offsets(talker, services[0]), phc2sys_offsets(listener, services[1]))
    return judge_time_service(first, other, last, states, offsets)


@contextmanager
def check_clocks(
    talker: RemoteHost, listener: RemoteHost
) -> Iterator[list[ClockSync | ClockSyncFailure]]:
    """Look at how well two hosts' clocks agree before a block and, into the same list, after it."""
    programs = str(streams.talker()), str(streams.listener())
    found = [clock_agreement(talker, listener, programs)]
    yield found
    found.append(clock_agreement(talker, listener, programs))


def ptp_state(host: RemoteHost, service: TimeService) -> PtpState:
    """Ask a host's ptp4l for its state.

    Raises
    ------
    CommandError, ToolError
        It does not answer.
    """
    return parse_ptp_state(host.run(pmc(service), deadline_s=COMMAND_SECONDS).check().stdout)


def phc2sys_offsets(host: RemoteHost, service: TimeService) -> list[ClockOffset]:
    """Return what a host's phc2sys told last; nothing where there is none.

    Raises
    ------
    CommandError, ToolError
        Its log cannot be read.
    """
    if service.phc2sys_log is None:
        return []
    argv = ["sh", "-c", _READ_LOG, "sh", str(service.phc2sys_lines), service.phc2sys_log]
    return parse_phc2sys(host.run(argv, deadline_s=COMMAND_SECONDS).check().stdout)


def judge_one_kernel(
    first: ClockReading, other: ClockReading, last: ClockReading
) -> ClockSync | ClockSyncFailure:
    """Judge hosts with one boot identity: namespaces of one kernel, whose CLOCK_TAI is one clock.

    Copies of a running machine share a boot identity too, so the clock since boot must lie
    between the talker's readings as well.
    """
    if refusal := _bracket(first, other, last, 0):
        return refusal
    if not first.monotonic_ns <= other.monotonic_ns <= last.monotonic_ns:
        return ClockSyncFailure(
            "the hosts show one boot identity, but their clocks since boot differ: "
            "copies of one machine, or a time namespace"
        )
    evidence = {"boot_id": first.boot_id, "round_trip_ns": last.tai_ns - first.tai_ns}
    return ClockSync(float(first.resolution_ns), "one kernel, one clock", evidence)


def judge_time_service(
    first: ClockReading,
    other: ClockReading,
    last: ClockReading,
    states: tuple[PtpState, PtpState],
    offsets: tuple[list[ClockOffset], list[ClockOffset]],
) -> ClockSync | ClockSyncFailure:
    """Judge hosts apart by what linuxptp says of each: the sum of both hosts' offsets.

    A host's share is its offset from the grandmaster, and where phc2sys carries the time on from
    card to system, the largest offset it told and half the time a reading took.
    """
    if states[0].grandmaster != states[1].grandmaster:
        return ClockSyncFailure(
            f"the hosts follow two grandmasters, {states[0].grandmaster} and "
            f"{states[1].grandmaster}"
        )
    for name, state, told in zip(("talker", "listener"), states, offsets, strict=True):
        if not state.synchronised:
            return ClockSyncFailure(
                f"the {name}'s PTP ports are {', '.join(state.port_states)}, none SLAVE"
            )
        if unlocked := [o.state for o in told if o.state not in (None, "s2")]:
            return ClockSyncFailure(
                f"the {name}'s phc2sys is in servo state {unlocked[-1]}, not s2"
            )
    if first.tai_offset_s != other.tai_offset_s:
        return ClockSyncFailure(
            f"CLOCK_TAI is {first.tai_offset_s} s ahead of UTC at the talker and "
            f"{other.tai_offset_s} s at the listener"
        )
    shares = [
        abs(state.offset_ns) + _doubt_ns(told) for state, told in zip(states, offsets, strict=True)
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


def judge_between(found: ClockSync, board: PtpState) -> ClockSync | ClockSyncFailure:
    """Judge a switch between two hosts that agree: a boundary clock of the same grandmaster.

    The listener's offset is that from the switch, and the switch's gates go by its own clock: its
    offset from the talker's adds to both.
    """
    grandmaster = found.evidence.get("grandmaster")
    if grandmaster is not None and board.grandmaster != grandmaster:
        return ClockSyncFailure(
            f"the switch follows the grandmaster {board.grandmaster}, the hosts {grandmaster}"
        )
    if "SLAVE" not in board.port_states:
        return ClockSyncFailure(
            f"the switch's PTP ports are {', '.join(board.port_states)}, none SLAVE"
        )
    if "MASTER" not in board.port_states:
        return ClockSyncFailure(
            f"the switch's PTP ports are {', '.join(board.port_states)}, none MASTER"
        )
    share = abs(board.offset_ns)
    evidence = found.evidence | {"switch_share_ns": share}
    return ClockSync(found.uncertainty_ns + share, found.method, evidence)


def judge_stamping(found: ClockSync, told: list[ClockOffset]) -> ClockSync | ClockSyncFailure:
    """Judge a card that stamps arrivals, whose clock a phc2sys of its own keeps on the system's."""
    if unlocked := [o.state for o in told if o.state not in (None, "s2")]:
        return ClockSyncFailure(
            f"the stamping card's phc2sys is in servo state {unlocked[-1]}, not s2"
        )
    share = _doubt_ns(told)
    evidence = found.evidence | {"stamping_card_share_ns": share}
    return ClockSync(found.uncertainty_ns + share, found.method, evidence)


def _doubt_ns(told: list[ClockOffset]) -> float:
    """Return the largest offset that a phc2sys told, and half the time that a reading took."""
    return max((abs(o.offset_ns) + o.delay_ns / 2 for o in told), default=0)


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
    """Say why a one-way latency must not be stated, or ``None`` where it may.

    Parameters
    ----------
    latency_ns
        The smallest latency to be stated.
    before, after
        The clocks' agreement before and after the run; the worse one counts.
    """
    for when, found in (("before", before), ("after", after)):
        if isinstance(found, ClockSyncFailure):
            return ClockSyncFailure(f"{when} the run: {found.reason}")
        if not (math.isfinite(latency_ns) and latency_ns > 0):
            return ClockSyncFailure(
                f"a one-way latency of {latency_ns} ns is impossible: the clocks disagree"
            )
        if found.uncertainty_ns > latency_ns * _ALLOWED_SHARE:
            return ClockSyncFailure(
                f"{when} the run the clocks agree within {found.uncertainty_ns:.0f} ns "
                f"({found.method}), more than a tenth of {latency_ns:.0f} ns"
            )
    return None


def why_not_these_clocks(
    sent: TalkerResult, got: ListenerResult, receipt: Receipt = "application"
) -> ClockSyncFailure | None:
    """Say why the times of two reports do not compare, or ``None`` where they do.

    Stamps of a network card (``receipt`` of ``kernel`` with hardware stamps) are in the card's
    clock, which linuxptp keeps on TAI.
    """
    if sent.clock != got.clock:
        return ClockSyncFailure(
            f"the talker's times are on {sent.clock}, the listener's on {got.clock}"
        )
    if sent.tai_offset_s != got.tai_offset_s and sent.clock == "tai":
        return ClockSyncFailure(
            f"CLOCK_TAI is {sent.tai_offset_s} s ahead of UTC at the talker and "
            f"{got.tai_offset_s} s at the listener"
        )
    for name, step_ns in (("talker", sent.clock_step_ns), ("listener", got.clock_step_ns)):
        if abs(step_ns) > _STEP_NOISE_NS:
            return ClockSyncFailure(f"the {name}'s clock was set by {step_ns} ns during the run")
    if receipt == "kernel" and got.stamp_clock == "none":
        return ClockSyncFailure("the listener was not asked for receive stamps")
    if receipt == "kernel" and got.stamp_clock == "phc" and sent.clock != "tai":
        return ClockSyncFailure(f"the card's stamps are on TAI, the talker's times on {sent.clock}")
    return None
