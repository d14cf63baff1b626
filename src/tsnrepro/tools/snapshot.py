"""Counters of all hosts of a testbed at one time, and differences between two times."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tsnrepro.common.errors import RecordError
from tsnrepro.common.topology import CARD, LISTENER, SWITCHES
from tsnrepro.config.frer import RECOVERY_COUNTERS
from tsnrepro.tools import frerctl
from tsnrepro.tools.delayline import DelayStatistics
from tsnrepro.tools.frerctl import FrameCounts
from tsnrepro.tools.host_counters import HostCounters, read_host

DISCARDED = ("eliminated", "rogue", "tagless")
"""Counters of the frames that recovery takes out of a stream."""


@dataclass(frozen=True)
class Snapshot:
    """Counters of all hosts, the tools' output, and the drops that were traced so far."""

    hosts: dict[str, HostCounters]
    raw: dict[str, str]
    drops: list[frerctl.Drops] | None
    """``None`` if drops are not traced."""
    delays: dict[str, dict[str, DelayStatistics]] = field(default_factory=dict)
    """Delay lines by member port and direction (``forth``, ``back``), since their start."""
    apart: bool = False
    """Whether the hosts are separate machines. No counter then shows the losses of a cable or card:
    frames missing between two counters are named after both."""

    def of_stream(self, index: int) -> "Snapshot":
        """Return the snapshot with the stations' counters and the drops of one stream.

        Queues, links and the IP stack do not count by stream and stay the same.

        Raises RecordError if the stations do not count a stream of this index.
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


def recorded_snapshot(raw: str | dict[str, str]) -> Snapshot:
    """Parse a recorded snapshot: each host's output, as JSON or as a mapping.

    Raises ToolError if a host's output is not what the tools print.
    """
    outputs: dict[str, str] = json.loads(raw) if isinstance(raw, str) else raw
    hosts = {
        name: read_host(text)
        for name, text in outputs.items()
        if name != "drops" and not name.startswith("delay ")
    }
    drops = frerctl.parse_drops(outputs["drops"]) if "drops" in outputs else None
    return Snapshot(hosts, outputs, drops)


class CounterDifferences:
    """Differences of counters between two snapshots, by host and port."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self.before, self.after = before.hosts, after.hosts

    def _difference(self, host: str, read: Callable[[HostCounters], FrameCounts]) -> FrameCounts:
        return read(self.after[host]) - read(self.before[host])

    def port(self, host: str, port: str, direction: str) -> FrameCounts:
        """Return the frames of a port, by direction: ``in`` or ``out``."""

        def read(counters: HostCounters) -> FrameCounts:
            return counters.station.get("ports", counters.station)[port][direction]

        return self._difference(host, read)

    def at(self, host: str, counter: str) -> int:
        """Return the stream's frames at a counter inside a switch."""
        return self._difference(host, lambda counters: counters.station[counter]).stream_frames

    def fault(self, host: str, port: str, what: str) -> int:
        """Return the frames that fault injection ``dropped`` or ``copied`` on a link."""

        def read(counters: HostCounters) -> FrameCounts:
            faults = counters.station.get("faults", {})
            return faults[port][what] if port in faults else FrameCounts(0, 0, 0, 0)

        return self._difference(host, read).stream_frames

    def queue_dropped(self, host: str, port: str) -> int:
        """Return the frames that a port's egress queue dropped, of all traffic."""
        return self.after[host].queues[port].dropped - self.before[host].queues[port].dropped

    def transmit_dropped(self, host: str, port: str) -> int:
        """Return the frames that a port's device dropped after its queue, of all traffic."""
        return self.after[host].links[port].tx_dropped - self.before[host].links[port].tx_dropped

    def rx_errors(self, host: str, port: str) -> dict[str, int]:
        """Return a card's receive errors by reason, of all traffic."""
        after, before = (hosts[host].links.get(port) for hosts in (self.after, self.before))
        if after is None or before is None:
            return {}
        return {
            "no room": after.no_room - before.no_room,
            "damaged": after.damaged - before.damaged,
        }

    def stack(self, host: str, name: str) -> int:
        """Return a counter of a host's IP stack, named as by nstat(8)."""
        return self.after[host].stack[name] - self.before[host].stack[name]

    @property
    def eliminating(self) -> str:
        """The host that eliminates: the listener if it has a recovery function, else sw2."""
        return LISTENER if "recovery" in self.after[LISTENER].station else SWITCHES[1]

    def rx_frames(self) -> int:
        """Return the stream's frames that the listener received and did not discard."""
        received = self.port(LISTENER, CARD, "in").stream_frames
        if self.eliminating != LISTENER:
            return received
        return received - sum(self.at(LISTENER, place) for place in DISCARDED)

    def recovery(self) -> dict:
        """Return the recovery function's state at the end, its clause 10 counters as differences.

        It is the one that eliminates the talker's frames.
        """
        host = self.eliminating
        after, before = (hosts[host].station["recovery"] for hosts in (self.after, self.before))
        return after | {n: after[n] - before[n] for n in RECOVERY_COUNTERS if n in after}
