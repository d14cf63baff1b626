"""How well the clocks of talker and listener agree, and which latencies that allows to state.

Two hosts of one kernel read one clock. Of machines apart nothing here tells how far their clocks
are apart, so no one-way latency between them is stated.
"""

import json
import math
from dataclasses import dataclass, field
from typing import Any

from tsnrepro.errors import ToolError
from tsnrepro.streams.command import ListenerResult, TalkerResult
from tsnrepro.streams.delivery import Receipt
from tsnrepro.testbed.host import RemoteHost

COMMAND_SECONDS = 10
_ALLOWED_SHARE = 0.1
"""The uncertainty that a one-way latency may have, as a share of it."""
_STEP_NOISE_NS = 10_000
"""Two clocks are read one after the other; a smaller change of their difference is no step."""

_READ_CLOCKS = 'cat /proc/sys/kernel/random/boot_id && exec "$1" --show-clock'


@dataclass(frozen=True)
class ClockReading:
    """One look at a host's clocks, in nanoseconds."""

    boot_id: str
    tai_ns: int
    monotonic_ns: int
    tai_offset_s: int
    resolution_ns: int


@dataclass(frozen=True)
class Agreement:
    """Two hosts' clocks differ by ``uncertainty_ns`` at most, as ``method`` finds."""

    uncertainty_ns: float
    method: str
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """No one-way latency can be stated, and why."""

    reason: str


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


# --- judging --------------------------------------------------------------------------------


def clock_agreement(
    talker: RemoteHost, listener: RemoteHost, programs: tuple[str, str]
) -> Agreement | Refusal:
    """Find how well the two hosts' CLOCK_TAI agree.

    The listener's clock is read between two readings of the talker's, so it must lie between them.

    Parameters
    ----------
    talker, listener
        The hosts.
    programs
        Path of a talker or listener program on each.

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
    return Refusal("talker and listener are machines apart, and no time service is configured")


def judge_one_kernel(
    first: ClockReading, other: ClockReading, last: ClockReading
) -> Agreement | Refusal:
    """Judge hosts with one boot identity: namespaces of one kernel, whose CLOCK_TAI is one clock.

    Copies of a running machine share a boot identity too, so the clock since boot must lie
    between the talker's readings as well.
    """
    if not first.tai_ns <= other.tai_ns <= last.tai_ns:
        return Refusal(
            f"the listener's CLOCK_TAI {other.tai_ns} is outside the talker's readings before and "
            f"after it, {first.tai_ns} to {last.tai_ns}"
        )
    if not first.monotonic_ns <= other.monotonic_ns <= last.monotonic_ns:
        return Refusal(
            "the hosts show one boot identity, but their clocks since boot differ: "
            "copies of one machine, or a time namespace"
        )
    evidence = {"boot_id": first.boot_id, "round_trip_ns": last.tai_ns - first.tai_ns}
    return Agreement(float(first.resolution_ns), "one kernel, one clock", evidence)


def why_not_one_way(
    latency_ns: float, before: Agreement | Refusal, after: Agreement | Refusal
) -> Refusal | None:
    """Say why a one-way latency must not be stated, or ``None`` where it may.

    Parameters
    ----------
    latency_ns
        The smallest latency to be stated.
    before, after
        The clocks' agreement before and after the run; the worse one counts.
    """
    for when, found in (("before", before), ("after", after)):
        if isinstance(found, Refusal):
            return Refusal(f"{when} the run: {found.reason}")
        if not (math.isfinite(latency_ns) and latency_ns > 0):
            return Refusal(
                f"a one-way latency of {latency_ns} ns is impossible: the clocks disagree"
            )
        if found.uncertainty_ns > latency_ns * _ALLOWED_SHARE:
            return Refusal(
                f"{when} the run the clocks agree within {found.uncertainty_ns:.0f} ns "
                f"({found.method}), more than a tenth of {latency_ns:.0f} ns"
            )
    return None


def why_not_these_clocks(
    sent: TalkerResult, got: ListenerResult, receipt: Receipt = "application"
) -> Refusal | None:
    """Say why the times of two reports do not compare, or ``None`` where they do.

    Stamps of a network card (``receipt`` of ``kernel`` with hardware stamps) are in the card's
    clock, which a time service keeps on TAI.
    """
    if sent.clock != got.clock:
        return Refusal(f"the talker's times are on {sent.clock}, the listener's on {got.clock}")
    if sent.tai_offset_s != got.tai_offset_s and sent.clock == "tai":
        return Refusal(
            f"CLOCK_TAI is {sent.tai_offset_s} s ahead of UTC at the talker and "
            f"{got.tai_offset_s} s at the listener"
        )
    for name, step_ns in (("talker", sent.clock_step_ns), ("listener", got.clock_step_ns)):
        if abs(step_ns) > _STEP_NOISE_NS:
            return Refusal(f"the {name}'s clock was set by {step_ns} ns during the run")
    if receipt == "kernel" and got.stamp_clock == "none":
        return Refusal("the listener was not asked for receive stamps")
    if receipt == "kernel" and got.stamp_clock == "phc" and sent.clock != "tai":
        return Refusal(f"the card's stamps are on TAI, the talker's times on {sent.clock}")
    return None
