"""A bench for jobs: talker and listener are namespaces, each with its port as card.

The talker's own port shapes, by what its queues can do, and both ends have one clock.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsnrepro.common.topology import ADDRESSES, CARD, LISTENER, STATIONS, TALKER
from tsnrepro.config import BenchSettings
from tsnrepro.config.nic_pair import Chip
from tsnrepro.native import streams
from tsnrepro.native.streams.command import Stamps
from tsnrepro.testbeds.bench.clocks import missing_tools, one_port_each, stamping_clocks
from tsnrepro.testbeds.bench.hosts import cards, hosts_here, recorded
from tsnrepro.testbeds.bench.ports import Port
from tsnrepro.testbeds.hosts import nic_timestamps
from tsnrepro.testbeds.hosts.clock_sync import ClockSynchronizer
from tsnrepro.testbeds.hosts.clocks import ClockSync, ClockSyncFailure
from tsnrepro.testbeds.hosts.host import COMMAND_SECONDS, RemoteHost
from tsnrepro.testbeds.hosts.rollback import Journal
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.testbeds.jobs.job import Cable, Job, LinkEnd
from tsnrepro.testbeds.jobs.sessions import SessionJobs
from tsnrepro.tools import ethtool, qdisc

_DELTA_NS, _CYCLE_NS = 300_000, 1_000_000


class BenchJobs(SessionJobs):
    """A bench for jobs; see :class:`tsnrepro.testbeds.bench.testbed.BenchTestbed`."""

    def __init__(
        self,
        settings: BenchSettings,
        name: str,
        purpose: str = "",
        journals: Path | None = None,
    ) -> None:
        super().__init__({}, settings.kind, self._synchronized_clocks)
        self.settings, self._purpose = settings, purpose
        self._journal, self._stack = Journal(name, journals), ExitStack()
        self._listed = [Port(r, getattr(settings.ports, r)[0], r, CARD) for r in STATIONS]

    def __enter__(self) -> "BenchJobs":
        with ExitStack() as stack:
            self.hosts = hosts_here(
                *(stack, self.settings, self._journal, self._purpose),
                roles=STATIONS,
                listed=self._listed,
            )
            chip, stamps, cards_to_set = probe_clocks(
                self.hosts, CARD, probe_chip(self.hosts[TALKER], CARD)
            )
            if stamps == "hardware":
                nic_timestamps.stamp_every_frame(Shell(self.hosts[LISTENER]), CARD)
            self.cable = Cable(_end(TALKER), _end(LISTENER), chip, stamps)
            program = str(streams.listener())
            self._clocks = ClockSynchronizer(self.hosts, {}, program, None, cards_to_set)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _synchronized_clocks(
        self, job: Job
    ) -> AbstractContextManager[list[ClockSync | ClockSyncFailure]]:
        return self._clocks.synchronized(job.deadline_s)

    def describe(self) -> dict[str, Any]:
        """Return the facts that every record of this testbed has."""
        assert self.cable is not None
        return super().describe() | {
            "settings": recorded(self.settings),
            "cards": cards(self.hosts, self._listed),
            "queues": self.cable.chip,
        }


def _end(role: str) -> LinkEnd:
    return LinkEnd(role, CARD, (f"{ADDRESSES[role]}/24",))


def probe_chip(host: RemoteHost, device: str) -> Chip:
    """Return which card's queues those of a port are like, by what its driver accepts.

    Gates in hardware are those of i225, launch times in hardware those of i210; with neither, the
    kernel shapes in software. The port is left without queueing discipline.
    """
    gates = [(1, _CYCLE_NS // 2), (2, _CYCLE_NS // 2)]
    four = [0, 1, 2, 3] + 12 * [3]
    two = [0] + 15 * [1]
    tried: dict[Chip, list[list[str]]] = {
        "i225": [
            qdisc.taprio(
                device,
                gates,
                mode="offload",
                num_tc=4,
                priority_map=four,
                cycle_time_ns=_CYCLE_NS,
            )
        ],
        "i210": [
            qdisc.mqprio(device, num_tc=2, priority_map=two),
            qdisc.etf(device, "100:1", delta_ns=_DELTA_NS, offload=True),
        ],
    }
    for chip, commands in tried.items():
        try:
            if all(_accepted(host, argv) for argv in commands):
                return chip
        finally:
            # Refused where nothing was set.
            _accepted(host, ["tc", "qdisc", "del", "dev", device, "root"])
    return "other"


def probe_clocks(
    hosts: Mapping[str, RemoteHost], device: str, chip: Chip
) -> tuple[Chip, Stamps, dict[str, str]]:
    """Return which queues are used, what stamps arrivals, and the cards to set to the system clock.

    The cards stamp where both can. Gates and launch times in hardware are by the clock of the
    talker's card: one that cannot be set has its queues shaped by the kernel.
    """
    shells = {role: Shell(hosts[role]) for role in STATIONS}
    shown = {role: shell.query(["ethtool", "-T", device]).stdout for role, shell in shells.items()}
    missing = missing_tools(shells[TALKER])
    clocks = {} if missing else stamping_clocks(shown)
    in_hardware = chip != "other"
    if clocks:
        # Without gates in hardware nothing reads the talker's.
        roles = one_port_each(clocks) if in_hardware else [LISTENER]
        return chip, "hardware", dict.fromkeys(roles, device)
    has_clock = ethtool.clock_index(shown[TALKER]) is not None
    if in_hardware and has_clock and "phc2sys" not in missing:
        return chip, "software", {TALKER: device}
    return "other", "software", {}


def _accepted(host: RemoteHost, argv: list[str]) -> bool:
    return host.run(argv, deadline_s=COMMAND_SECONDS).exit_status == 0


if TYPE_CHECKING:
    from tsnrepro.testbeds.protocol import JobTestbed

    _satisfied: type[JobTestbed] = BenchJobs
