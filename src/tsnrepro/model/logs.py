"""Logs of a run as numpy arrays, one row per datagram or frame, and queue depths from them.

Times are in picoseconds of the model's true time. ``stream`` is the stream's index in the network's
list. A run logs only what the arguments of :func:`tsnrepro.model.engine.simulate` request.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tsnrepro.model import layout
from tsnrepro.model.compiled import offset_of, words_of
from tsnrepro.model.network import Network
from tsnrepro.model.plan import LogRequest, Plan
from tsnrepro.model.result import Logs
from tsnrepro.model.routes import Port

Block: TypeAlias = npt.NDArray[np.void]

DELIVERY: Final = np.dtype(layout.DELIVERY.descr)
"""One datagram read by its listener for the first time: its stream, its number (from 0), the begin
of its write, the arrival of its last frame at the listener's card, and the end of its reading."""

ANSWER: Final = np.dtype(layout.ANSWER.descr)
"""One request of a ping-pong that was answered in time: the begin of its write and the end of
reading its answer."""

DEPARTURE: Final = np.dtype(
    [
        ("port", np.int64),
        ("stream", np.int32),
        ("returns", np.bool_),
        ("member", np.int8),
        ("fragment", np.uint8),
        ("tagged", np.bool_),
        ("sequence", np.uint16),
        ("frame_bytes", np.int16),
        ("datagram", np.int64),
        ("sent_ps", np.int64),
        ("queued_ps", np.int64),
        ("start_ps", np.int64),
        ("end_ps", np.int64),
    ]
)
"""One frame that starts at a port: the port's index in the result's ``ports``, the stream (with
``returns`` its acknowledgements or answers), the member path (-1: none), the fragment, whether it
has an R-TAG and its number, its bytes with FCS, the datagram (for answers the request, for
acknowledgements a packed word), the begin of its write, and when it joined the queue, its preamble
began and its last bit was sent."""

_KINDS: Final = (
    ("deliveries", layout.DELIVERY, DELIVERY),
    ("departures", layout.STARTED, DEPARTURE),
    ("answers", layout.ANSWER, ANSWER),
)


def check_names(network: Network, requested: LogRequest) -> None:
    """Raise ValueError for requested streams or ports that are not in the network."""
    streams = {stream.name for stream in network.streams}
    ports = {f"{end}:{link.name}" for link in network.links for end in (link.a, link.b)}
    for option, names, known, hint in (
        ("record: no stream", requested.streams or (), streams, "there are"),
        ("departures: no port", requested.ports, ports, "a port is node:link, one of"),
    ):
        if unknown := sorted({*names} - known):
            raise ValueError(f"{option} {', '.join(unknown)} ({hint} {', '.join(sorted(known))})")


class _Rows:
    """Rows in an array that grows by an eighth at a time, so that it is never much too large.

    It grows in place (realloc moves the pages of a large array instead of copying them); joining
    blocks at the end would take twice the memory.
    """

    def __init__(self, dtype: np.dtype, most: int) -> None:
        self._array, self._used, self._most = np.empty(0, dtype), 0, most
        self.left_out = 0

    def add(self, block: Block) -> None:
        """Append a block, up to the maximum number of rows."""
        end = min(self._most, self._used + len(block))
        self.left_out += self._used + len(block) - end
        if end > len(self._array):
            self._array.resize(max(end, len(self._array) * 9 // 8), refcheck=False)
        self._array[self._used : end] = block[: end - self._used]
        self._used = end

    def array(self) -> Block:
        """Return the rows; none can be added afterwards."""
        self._array.resize(self._used, refcheck=False)
        return self._array


class LogCollector:
    """Moves rows from the kernels' logs to callbacks and arrays.

    ``keep`` and ``callbacks`` are for deliveries, departures and answers, in this order.
    """

    def __init__(
        self,
        plan: Plan,
        max_rows: int,
        keep: tuple[bool, bool, bool],
        callbacks: tuple[Callable[[Block], None] | None, ...],
    ) -> None:
        self._memory, self._callbacks = plan.memory, callbacks
        self._rows = {
            name: _Rows(dtype, max_rows)
            for (name, _, dtype), kept in zip(_KINDS, keep, strict=True)
            if kept
        }
        self._flows = _FlowColumns(plan)

    def collect(self) -> None:
        """Empty the kernels' logs."""
        counts, start = offset_of(layout.LOG, "count"), offset_of(layout.LOG, "start")
        for (name, source, dtype), callback in zip(_KINDS, self._callbacks, strict=True):
            log = offset_of(layout.RUN, name)
            count = int(self._memory[log + counts])
            if count == 0:
                continue
            self._memory[log + counts] = 0
            first = int(self._memory[log + start])
            rows = self._memory[first : first + count * words_of(source)].view(source)
            # A copy, because the memory is reused.
            block = self._flows.departures(rows) if name == "departures" else rows.astype(dtype)
            if callback is not None:
                callback(block)
            if name in self._rows:
                self._rows[name].add(block)

    def logs(self) -> Logs:
        """Return the logs."""
        arrays: dict[str, Any] = {name: rows.array() for name, rows in self._rows.items()}
        left_out = {name: rows.left_out for name, rows in self._rows.items() if rows.left_out}
        return Logs(**arrays, left_out=left_out)


class _FlowColumns:
    """Columns of departures that depend on the flow."""

    def __init__(self, plan: Plan) -> None:
        flows = plan.graph.flows
        ports = [element for element in plan.graph.elements if isinstance(element, Port)]
        self._port = np.zeros(len(plan.graph.elements), np.int64)
        self._port[[port.index for port in ports]] = np.arange(len(ports))
        self._stream = np.array([flow.traffic.sender for flow in flows])
        self._returns = np.array([flow.traffic.returns for flow in flows])
        self._member = np.array([-1 if f.member is None else f.member for f in flows])
        self._full = np.array([flow.frames[0] for flow in flows])
        self._last = np.array([flow.frames[-1] for flow in flows])

    def departures(self, rows: Block) -> Block:
        """Convert rows of the kernels to :data:`DEPARTURE`."""
        meta = rows["meta"]
        flow = meta & layout.META_FLOW_MASK
        member = self._member[flow]
        block = np.empty(len(rows), DEPARTURE)
        block["port"] = self._port[rows["port"]]
        block["stream"] = self._stream[flow]
        block["returns"] = self._returns[flow]
        block["member"] = member
        block["fragment"] = (meta >> layout.META_FRAGMENT_SHIFT) & layout.META_FRAGMENT_MASK
        block["tagged"] = member >= 0
        block["sequence"] = np.where(member >= 0, (meta >> layout.META_SEQ_SHIFT) & 0xFFFF, 0)
        block["frame_bytes"] = np.where(meta & layout.META_LAST, self._last[flow], self._full[flow])
        for name in ("datagram", "sent_ps", "queued_ps", "start_ps", "end_ps"):
            block[name] = rows[name]
        return block


# --- queue depth ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Depth:
    """A queue's depth: ``held_bytes`` from each of ``times_ps`` to the next; shapes (n,)."""

    times_ps: npt.NDArray[np.int64]
    held_bytes: npt.NDArray[np.int64]

    def reached_ps(self, held_bytes: int) -> int | None:
        """Return when the queue first held so many bytes, or None."""
        reached = np.flatnonzero(self.held_bytes >= held_bytes)
        return int(self.times_ps[reached[0]]) if reached.size else None

    def highest(self, edges_ps: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the largest depth within each span of time, shape (spans,).

        ``edges_ps``: begins of the spans and the end of the last one, increasing, shape (spans +
        1,).
        """
        edges = np.asarray(edges_ps, np.int64)
        # The depth at the begin of a span counts too.
        begins = np.searchsorted(self.times_ps, edges[:-1], side="right")
        held = np.concatenate([[0], self.held_bytes])
        ends = np.searchsorted(self.times_ps, edges[1:], side="left")
        return np.array(
            [held[a : max(a, b) + 1].max() for a, b in zip(begins, ends, strict=True)], np.int64
        )


def queue_depth(departures: Block) -> Depth:
    """Return the depth of a port's queues over time.

    ``departures``: all frames that left one port, in the type of :data:`DEPARTURE`.

    Notes
    -----
    A frame is in its queue from its arrival until its last bit is sent, so that the log of
    departures determines the depth exactly. At one instant memory is released before the next frame
    is charged, as in the model's ports.
    """
    size = departures["frame_bytes"].astype(np.int64)
    times = np.concatenate([departures["end_ps"], departures["queued_ps"]])
    changes = np.concatenate([-size, size])
    order = np.argsort(times, kind="stable")
    return Depth(times[order], np.cumsum(changes[order]))


def first_drop_ps(departures: Block) -> int | None:
    """Return when the first dropped datagram arrived at a queue, or None.

    Its time is interpolated between those of the frames around it, and so accurate to one gap.

    ``departures``: all frames that left the queue, of one stream whose datagrams are single frames
    in order.
    """
    numbers, arrived = departures["datagram"], departures["queued_ps"]
    gap = np.flatnonzero(np.diff(numbers) > 1)
    if not gap.size:
        return None
    before, after = int(gap[0]), int(gap[0]) + 1
    share = 1 / int(numbers[after] - numbers[before])
    return int(arrived[before] + share * int(arrived[after] - arrived[before]))
