"""The counters of every host of a testbed at one moment, raw and typed."""

from dataclasses import dataclass, field, replace

from tsnrepro.errors import RecordError
from tsnrepro.testbed.delay import DelayStatistics
from tsnrepro.tools import frerctl, kernel


@dataclass(frozen=True)
class HostCounters:
    """One host's counters.

    ``station`` is frerctl's JSON (empty where nothing of ours counts), ``queues`` and ``links``
    are by device, ``stack`` is by name as in ``nstat``.
    """

    station: dict
    queues: dict[str, kernel.Queue]
    links: dict[str, kernel.Link]
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
        return Snapshot(hosts, self.raw, drops, self.delays)


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
