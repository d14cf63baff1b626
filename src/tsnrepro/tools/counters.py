"""The counters of every host of a testbed at one moment, raw and typed."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tsnrepro.common.errors import RecordError
from tsnrepro.common.topology import CARD, LISTENER, SWITCHES
from tsnrepro.config.frer import RECOVERY_COUNTERS
from tsnrepro.tools import frerctl, kernel
from tsnrepro.tools.delayline import DelayStatistics
from tsnrepro.tools.frerctl import FrameCounts

REFUSED = ("eliminated", "rogue", "tagless")
"""Where recovery takes frames out of a stream."""


@dataclass(frozen=True)
class HostCounters:
    """One host's counters.

    ``station`` is frerctl's JSON (empty where nothing of ours counts), ``queues`` and ``links``
    are by device, ``stack`` is by name as in ``nstat``.
    """

    station: dict
    queues: dict[str, kernel.QueueCounters]
    links: dict[str, kernel.LinkCounters]
    stack: dict[str, int]

    @property
    def indices(self) -> dict[str, int]:
        """The kernel's number of each device."""
        return {name: link.ifindex for name, link in self.links.items()}


@dataclass(frozen=True)
class Snapshot:
    """All hosts' counters, what the tools printed, and the drops located so far."""

    hosts: dict[str, HostCounters]
    raw: dict[str, str]
    drops: list[frerctl.Drops] | None
    """``None`` where drops are not traced."""
    delays: dict[str, dict[str, DelayStatistics]] = field(default_factory=dict)
    """Delay lines by member port and direction (``forth``, ``back``), since they were started."""
    apart: bool = False
    """Whether the hosts are machines of their own, where nobody sees what a cable or a card lost:
    what is missing between two places that count is then named after both."""

    def of_stream(self, index: int) -> "Snapshot":
        """Return the snapshot as if the stream were the only one: its stations and its drops.

        Queues, links and the IP stack know no streams and stay what they are.

        Raises
        ------
        RecordError
            The stations counted no stream of this index.
        """
        hosts = {
            name: replace(counters, station=_of_stream(counters.station, index, name))
            for name, counters in self.hosts.items()
        }
        drops = None if self.drops is None else [d for d in self.drops if d.stream == index]
        return replace(self, hosts=hosts, drops=drops)


def _of_stream(station: dict, index: int, host: str) -> dict:
    streams = station.get("streams", [station])
    if not 0 <= index < len(streams):
        raise RecordError(
            f"no stream {index}", f"counters of {host}", f"There are {len(streams)}, from 0 on"
        )
    return streams[index]


def read_host(text: str) -> HostCounters:
    """Return the counters that :func:`tsnrepro.tools.kernel.snapshot` printed on one host."""
    station, queues, links, stack = kernel.split_snapshot(text)
    return HostCounters(
        frerctl.parse_counters(station),
        kernel.parse_queues(queues),
        kernel.parse_links(links),
        kernel.parse_stack(stack),
    )


def recorded_snapshot(raw: str | dict[str, str]) -> Snapshot:
    """Return a snapshot from its record: what was printed on each host, as JSON or as a mapping.

    Raises
    ------
    ToolError
        A host's counters are not what the tools print.
    """
    printed: dict[str, str] = json.loads(raw) if isinstance(raw, str) else raw
    hosts = {
        name: read_host(text)
        for name, text in printed.items()
        if name != "drops" and not name.startswith("delay ")
    }
    drops = frerctl.parse_drops(printed["drops"]) if "drops" in printed else None
    return Snapshot(hosts, printed, drops)


class CounterDifferences:
    """What was counted between two snapshots, by host and port."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self.before, self.after = before.hosts, after.hosts

    def _difference(self, host: str, read: Callable[[HostCounters], FrameCounts]) -> FrameCounts:
        return read(self.after[host]) - read(self.before[host])

    def port(self, host: str, port: str, direction: str) -> FrameCounts:
        """Return the frames that came ``in`` at a port or went ``out``."""

        def read(counters: HostCounters) -> FrameCounts:
            return counters.station.get("ports", counters.station)[port][direction]

        return self._difference(host, read)

    def at(self, host: str, place: str) -> int:
        """Return the stream's frames at a place inside a switch."""
        return self._difference(host, lambda counters: counters.station[place]).stream_frames

    def fault(self, host: str, port: str, what: str) -> int:
        """Return what a faulty link took (``dropped``) or added (``copied``) by design."""

        def read(counters: HostCounters) -> FrameCounts:
            faults = counters.station.get("faults", {})
            return faults[port][what] if port in faults else FrameCounts(0, 0, 0, 0)

        return self._difference(host, read).stream_frames

    def queue_dropped(self, host: str, port: str) -> int:
        """Return the frames of any kind that a port's egress queue dropped."""
        return self.after[host].queues[port].dropped - self.before[host].queues[port].dropped

    def transmit_dropped(self, host: str, port: str) -> int:
        """Return the frames of any kind that a port's device dropped behind its queue."""
        return self.after[host].links[port].tx_dropped - self.before[host].links[port].tx_dropped

    def rx_errors(self, host: str, port: str) -> dict[str, int]:
        """Return the frames of any kind that a card did not take, by the reason it counts."""
        after, before = (hosts[host].links.get(port) for hosts in (self.after, self.before))
        if after is None or before is None:
            return {}
        return {
            "no room": after.no_room - before.no_room,
            "damaged": after.damaged - before.damaged,
        }

    def stack(self, host: str, name: str) -> int:
        """Return a counter of a host's IP stack, named as nstat does."""
        return self.after[host].stack[name] - self.before[host].stack[name]

    @property
    def eliminating(self) -> str:
        """Who eliminates: the listener where it has a recovery function, else the second switch."""
        return LISTENER if "recovery" in self.after[LISTENER].station else SWITCHES[1]

    def rx_frames(self) -> int:
        """Return the stream's frames that came to the listener and that it did not refuse."""
        came = self.port(LISTENER, CARD, "in").stream_frames
        if self.eliminating != LISTENER:
            return came
        return came - sum(self.at(LISTENER, place) for place in REFUSED)

    def recovery(self) -> dict:
        """Return the recovery function's state afterwards, its clause 10 counters as differences.

        It is that of the place where what comes from the talker is eliminated.
        """
        host = self.eliminating
        after, before = (hosts[host].station["recovery"] for hosts in (self.after, self.before))
        return after | {n: after[n] - before[n] for n in RECOVERY_COUNTERS if n in after}
