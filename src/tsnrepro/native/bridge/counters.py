"""Counters of the software bridge, and the check that every frame is accounted for."""

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tsnrepro.common.errors import ToolError
from tsnrepro.tools.parsing import Count


class _Counters(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ClassQueueCounters(_Counters):
    """One queue of a port: a class, or PTP's (8).

    ``outside`` counts frames sent that reached the device only after their gate had closed.
    """

    queue: Count
    arrived: Count
    dropped: Count
    sent: Count
    waiting: Count
    peak_bytes: Count
    outside: Count


class PortCounters(_Counters):
    """One port: where frames that arrived at it ended, and where copies for it ended."""

    port: str
    up: bool
    kernel_dropped: Count
    """Lost before the bridge could read them; not part of ``received``."""
    received: Count
    received_bytes: Count
    ptp: Count
    runt: Count
    oversized: Count
    bad_source: Count
    reserved: Count
    unswitched: Count
    flooded: Count
    extra_copies: Count
    handoff_full: Count
    handoff_waiting: Count
    port_down: Count
    refused: Count
    sent_bytes: Count
    queues: list[ClassQueueCounters]

    @property
    def sent(self) -> int:
        """Frames that the device accepted."""
        return sum(queue.sent for queue in self.queues) - self.refused


class BridgeCounters(_Counters):
    """The whole bridge; ``table_full`` counts addresses that were not learned."""

    table_full: Count
    ports: list[PortCounters]

    def port(self, name: str) -> PortCounters:
        """Return a port by its name."""
        return next(port for port in self.ports if port.port == name)

    @property
    def unaccounted(self) -> int:
        """Frames and copies without a counter of their end; 0 once traffic has drained."""
        copies = sum(
            port.received
            - port.runt
            - port.oversized
            - port.bad_source
            - port.reserved
            - port.unswitched
            + port.extra_copies
            for port in self.ports
        )
        ended = sum(
            port.handoff_full
            + port.handoff_waiting
            + port.port_down
            + sum(queue.dropped + queue.sent + queue.waiting for queue in port.queues)
            for port in self.ports
        )
        return copies - ended


def parse(text: str) -> BridgeCounters:
    """Parse what the bridge prints at its end, or for ``--query counters``.

    Raises ToolError if the text does not end in a bridge's counters.
    """
    lines = text.strip().splitlines()
    try:
        return BridgeCounters.model_validate_json(lines[-1])
    except (IndexError, ValidationError) as error:
        raise ToolError(
            f"the bridge printed no counters: {text.strip()[-200:] or 'nothing'}", "tsn-bridge"
        ) from error


def describe(counters: BridgeCounters) -> dict[str, Any]:
    """Return the counters as data for a record, without unused queues."""
    ports = [
        port.model_dump(exclude={"queues"})
        | {"queues": [queue.model_dump() for queue in port.queues if queue.arrived]}
        for port in counters.ports
    ]
    return {"unaccounted": counters.unaccounted, "table_full": counters.table_full, "ports": ports}
