"""The counters of every host of a testbed at one moment, raw and typed."""

from dataclasses import dataclass

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


def read_host(text: str) -> HostCounters:
    """Return the counters that :func:`tsnrepro.tools.kernel.snapshot` printed on one host."""
    station, queues, links, stack = kernel.split_snapshot(text)
    return HostCounters(
        frerctl.parse_counters(station),
        kernel.parse_queues(queues),
        kernel.parse_links(links),
        kernel.parse_stack(stack),
    )
