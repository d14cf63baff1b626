"""What the doctor finds on one host, and the host that it looks at."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.topology import SWITCHES
from tsnrepro.config import NicPairSettings
from tsnrepro.config.nic_pair import ShapingSwitch
from tsnrepro.config.rack import Lan966xSwitch

if TYPE_CHECKING:
    from tsnrepro.testbeds.nic_pair.hosts import Pair
    from tsnrepro.testbeds.rack.testbed import Rack

PASS, WARN, STOP = "pass", "warn", "stop"


@dataclass(frozen=True)
class HostFinding:
    """One thing that was looked at on one host: what was found, and what to do."""

    check: str
    role: str
    verdict: str
    found: str
    remedy: str = ""

    def document(self) -> dict[str, str]:
        """Return the finding for machines."""
        return asdict(self)

    def line(self) -> str:
        """Return the finding for people."""
        remedy = f" -> {self.remedy}" if self.remedy and self.verdict != PASS else ""
        return f"{self.verdict:4}  {self.role:8}  {self.check}: {self.found}{remedy}"


class ExaminedHost:
    """A host under examination.

    Parameters
    ----------
    rack
        The rack, or the pair, that it belongs to.
    role
        Of the host.
    """

    def __init__(self, rack: "Rack | Pair", role: str) -> None:
        self.rack, self.role, self.shell = rack, role, rack.shells[role]
        self.settings: Any = getattr(rack.settings.hosts, role)
        self.board = isinstance(self.settings, Lan966xSwitch | ShapingSwitch)
        self.devices = rack.parts[role].devices

    @property
    def of_pair(self) -> bool:
        """Whether a cable alone joins its card to the other host's."""
        return isinstance(self.rack.settings, NicPairSettings)

    @property
    def station(self) -> bool:
        """Whether it is a talker, a listener or a loader."""
        return self.role not in SWITCHES and not self.between

    @property
    def between(self) -> bool:
        """Whether it is a board between network cards."""
        return isinstance(self.settings, ShapingSwitch)

    def finding(self, check: str, verdict: str, found: str, remedy: str = "") -> HostFinding:
        """Return a finding of this host."""
        return HostFinding(check, self.role, verdict, found, remedy)

    def said(self, *argv: str) -> str:
        """Return what a command prints, nothing where it fails."""
        done = self.shell.ask(list(argv))
        return done.stdout if done.exit_status == 0 else ""

    def has(self, tool: str) -> bool:
        """Tell whether a tool is installed."""
        return self.shell.ask(["sh", "-c", 'command -v "$1"', "sh", tool]).exit_status == 0


Check = Callable[[ExaminedHost], Iterator[HostFinding]]


def checked(check: Check, host: ExaminedHost) -> list[HostFinding]:
    """Return what a check finds; that it cannot be made is a finding too."""
    try:
        return list(check(host))
    except TestbedError as error:
        name = check.__name__.strip("_").replace("_", " ")
        return [host.finding(name, STOP, error.what, error.remedy)]
