"""Findings of the doctor's checks, and the host that is examined."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tsnrepro.common.errors import TestbedError, printable
from tsnrepro.common.topology import SWITCHES
from tsnrepro.config import BenchSettings, NicPairSettings
from tsnrepro.config.nic_pair import ShapingSwitch
from tsnrepro.config.rack import Lan966xSwitch

PASS, WARN, STOP = "pass", "warn", "stop"


@dataclass(frozen=True)
class Finding:
    """Result of a check on one host, with a remedy."""

    check: str
    role: str
    verdict: str
    found: str
    remedy: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the finding as JSON values."""
        return asdict(self)

    def line(self) -> str:
        """Return the finding as a line of text."""
        remedy = f" -> {self.remedy}" if self.remedy and self.verdict != PASS else ""
        return printable(f"{self.verdict:4}  {self.role:8}  {self.check}: {self.found}{remedy}")


class ExaminedHost:
    """A host that checks examine.

    Parameters
    ----------
    testbed
        The hosts of the rack, NIC pair or bench that it belongs to.
    role
        Role of the host.
    """

    def __init__(self, testbed: Any, role: str) -> None:
        self.testbed, self.role, self.shell = testbed, role, testbed.shells[role]
        hosts = None if self.on_bench else testbed.settings.hosts
        self.settings: Any = getattr(hosts, role, None)
        self.is_board = isinstance(self.settings, Lan966xSwitch | ShapingSwitch)
        self.devices = testbed.drivers[role].devices

    @property
    def in_nic_pair(self) -> bool:
        """Whether it is a host of a NIC pair."""
        return isinstance(self.testbed.settings, NicPairSettings)

    @property
    def on_bench(self) -> bool:
        """Whether it is this machine, with the ports of one role of a bench."""
        return isinstance(self.testbed.settings, BenchSettings)

    @property
    def is_station(self) -> bool:
        """Whether it is a talker, a listener or a loader."""
        return self.role not in SWITCHES and not self.is_inline_switch

    @property
    def is_inline_switch(self) -> bool:
        """Whether it is a switch between the cards of a NIC pair."""
        return isinstance(self.settings, ShapingSwitch)

    def finding(self, check: str, verdict: str, found: str, remedy: str = "") -> Finding:
        """Return a finding on this host."""
        return Finding(check, self.role, verdict, found, remedy)

    def output(self, *argv: str) -> str:
        """Return the output of a command, empty if it fails."""
        completed = self.shell.query(list(argv))
        return completed.stdout if completed.exit_status == 0 else ""

    def has(self, tool: str) -> bool:
        """Return whether a tool is installed."""
        return self.shell.query(["sh", "-c", 'command -v "$1"', "sh", tool]).exit_status == 0


Check = Callable[[ExaminedHost], Iterator[Finding]]


def run_check(check: Check, host: ExaminedHost) -> list[Finding]:
    """Return the findings of a check; an error of the check is a finding named after it."""
    try:
        return list(check(host))
    except TestbedError as error:
        return [host.finding(_name(check), STOP, error.what, error.remedy)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        found = f"unexpected output: {error}"[:300]
        remedy = "Run the check's commands on the host by hand; see `login shell`"
        return [host.finding(_name(check), STOP, found, remedy)]


def _name(check: Check) -> str:
    return check.__name__.replace("_", " ")
