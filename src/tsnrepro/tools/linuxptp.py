"""linuxptp: the state that ptp4l and phc2sys report, and phc2sys's command."""

import math
import re
from dataclasses import dataclass

from tsnrepro.common.errors import ToolError


@dataclass(frozen=True)
class TimeService:
    """How to query a host's linuxptp.

    ``phc2sys_log`` is the output of ``phc2sys -m``; without one ptp4l steers the system clock
    itself (software time stamps). ``transport_specific`` is 1 in an IEEE 802.1AS domain.
    """

    uds_address: str | None = None
    domain: int = 0
    transport_specific: int = 0
    phc2sys_log: str | None = None
    phc2sys_lines: int = 10


@dataclass(frozen=True)
class PtpState:
    """State of a host in its PTP domain (IEEE Std 1588-2008, 8.2), from ptp4l."""

    grandmaster: str
    steps_removed: int
    offset_ns: float
    mean_path_delay_ns: float
    port_states: tuple[str, ...]

    @property
    def synchronised(self) -> bool:
        """Whether the host is the grandmaster or has a slave port."""
        return self.steps_removed == 0 or "SLAVE" in self.port_states


@dataclass(frozen=True)
class ClockOffset:
    """A line of phc2sys: offset (of a summary the largest), servo state, reading delay."""

    offset_ns: int
    delay_ns: int
    state: str | None
    """``s2`` is locked; None in a summary."""


def phc2sys(source: str, sink: str, offset_s: int) -> list[str]:
    """Return the command of phc2sys that synchronizes a clock to another.

    ``offset_s`` is added to the source's time.
    """
    return ["phc2sys", "-s", source, "-c", sink, "-O", str(offset_s), "-R", "8", "-m"]


def pmc(service: TimeService) -> list[str]:
    """Return the command of pmc that queries the state of a host's ptp4l."""
    address = ["-s", service.uds_address] if service.uds_address else []
    return [
        *("pmc", "-u", "-b", "0", "-d", str(service.domain)),
        *("-t", str(service.transport_specific), *address),
        *("GET CURRENT_DATA_SET", "GET PARENT_DATA_SET", "GET PORT_DATA_SET"),
    ]


def _parse_pmc(text: str) -> dict[str, list[dict[str, str]]]:
    """Return the data sets in pmc's output: for each name, a dictionary per response.

    Raises ToolError if there is no response: no ptp4l is listening, or its domain differs.
    """
    responses: dict[str, list[dict[str, str]]] = {}
    current: dict[str, str] | None = None
    for line in text.splitlines():
        # linuxptp before 2.0 wrote MANAGMENT.
        if head := re.match(r"\s+(\S+) seq \d+ (\w+) MANAGE?MENT (\w+)", line):
            kind, name = head[2], head[3]
            current = None
            if kind == "RESPONSE":
                current = {"responder": head[1]}
                responses.setdefault(name, []).append(current)
        elif current is not None and (pair := re.match(r"\s+(\S+)\s+(\S.*?)\s*$", line)):
            current[pair[1]] = pair[2]
    if not responses:
        raise ToolError(
            f"no response from ptp4l: {text.strip()[:300] or 'no output'}",
            "pmc",
            "Check that ptp4l is running, its uds_address, domain and transportSpecific",
        )
    return responses


def parse_ptp_state(text: str) -> PtpState:
    """Parse the output of :func:`pmc`.

    Raises ToolError if a response or value is missing, or not a number.
    """
    responses = _parse_pmc(text)
    try:
        current = responses["CURRENT_DATA_SET"][0]
        return PtpState(
            grandmaster=responses["PARENT_DATA_SET"][0]["grandmasterIdentity"],
            steps_removed=int(current["stepsRemoved"]),
            offset_ns=_finite(current["offsetFromMaster"]),
            mean_path_delay_ns=_finite(current["meanPathDelay"]),
            port_states=tuple(port["portState"] for port in responses["PORT_DATA_SET"]),
        )
    except (KeyError, ValueError) as error:
        raise ToolError(f"pmc's responses have no valid {str(error)[:200]}", "pmc") from error


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"number: {text}")
    return number


_ONE = re.compile(
    r"\b(?:phc|sys|pps) offset\s+(-?\d{1,18})\s+(s\d)\s+freq\s+[-+]?\d+\s+delay\s+(-?\d{1,18})\b"
)
_SUMMARY = re.compile(
    r"\brms\s+\d+\s+max\s+(\d{1,18})\s+freq\s+[-+]?\d+\s+\+/-\s*\d+\s+delay\s+(-?\d{1,18})\s*\+/-\s*\d+"
)


def parse_phc2sys(text: str) -> list[ClockOffset]:
    """Return the offsets in the output of ``phc2sys -m``; other lines are ignored.

    Raises ToolError if no line has an offset.
    """
    offsets = []
    for line in text.splitlines():
        if one := _ONE.search(line):
            offsets.append(ClockOffset(int(one[1]), int(one[3]), one[2]))
        elif summary := _SUMMARY.search(line):
            offsets.append(ClockOffset(int(summary[1]), int(summary[2]), None))
    if not offsets:
        raise ToolError(
            f"phc2sys printed no offset: {text.strip()[-300:] or 'nothing'}",
            "phc2sys",
            "Run it with -m, its output in the file of the testbed's configuration",
        )
    return offsets
