"""Logs of a run as numpy arrays, one row a datagram or frame, and what is read from them.

Times are in picoseconds of the model's true time. ``stream`` is the stream's place in the network's
list. A run logs only what :func:`tsnrepro.model.engine.simulate` is asked for.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tsnrepro.model import layout as at
from tsnrepro.model.compiled import offset_of, words_of
from tsnrepro.model.network import Network
from tsnrepro.model.plan import LogRequest, Plan
from tsnrepro.model.result import Logs
from tsnrepro.model.routes import Port

Block: TypeAlias = npt.NDArray[np.void]

DELIVERY: Final = np.dtype(at.DELIVERY.descr)
"""One datagram read by its listener for the first time: which stream, which datagram of it (from
0), when its write began, when its last frame came to the listener's card, and when the process had
read it."""

ANSWER: Final = np.dtype(at.ANSWER.descr)
"""One request of a ping-pong that was answered in time: when its write began, when its answer had
been read."""

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
"""One frame that starts at a port: the port's place in the result's ``ports``, the stream (with
``returns`` its acknowledgements or answers), the member path (-1: none), the fragment, whether it
has an R-TAG and which number stands there, its bytes with FCS, the datagram (for answers the
request, for acknowledgements a packed word), when the write began that it comes from, when it
joined the queue, when its preamble began, when its last bit was sent."""

_KINDS: Final = (
    ("deliveries", at.DELIVERY, DELIVERY),
    ("departures", at.STARTED, DEPARTURE),
    ("answers", at.ANSWER, ANSWER),
)


def check_names(network: Network, requested: LogRequest) -> None:
    """Raise ValueError for streams or ports to be logged that no frame passes."""
    streams = {stream.name for stream in network.streams}
    ports = {f"{end}:{link.name}" for link in network.links for end in (link.a, link.b)}
    for option, asked, known, words in (
        ("record: no stream", requested.streams or (), streams, "there are"),
        ("departures: no port", requested.ports, ports, "a port is node:link, one of"),
    ):
        if unknown := sorted({*asked} - known):
            raise ValueError(f"{option} {', '.join(unknown)} ({words} {', '.join(sorted(known))})")


class _Rows:
    """Rows in an array that grows by an eighth at a time, so that it is never much too large.

    It grows in place (realloc, which moves the pages of a large array instead of copying them):
    rows in blocks that are joined at the end would take twice the memory.
    """

    def __init__(self, dtype: np.dtype, most: int) -> None:
        self._array, self._used, self._most = np.empty(0, dtype), 0, most
        self.left_out = 0

    def add(self, block: Block) -> None:
        """Take a block over, as far as there may be more rows."""
        end = min(self._most, self._used + len(block))
        self.left_out += self._used + len(block) - end
        if end > len(self._array):
            self._array.resize(max(end, len(self._array) * 9 // 8), refcheck=False)
        self._array[self._used : end] = block[: end - self._used]
        self._used = end

    def array(self) -> Block:
        """Return the rows; there cannot be more of them after this."""
        self._array.resize(self._used, refcheck=False)
        return self._array


class Keeper:
    """Takes the rows out of the kernels' logs: to the callbacks, and to keep.

    ``keep`` and ``callbacks`` are for deliveries, departures and answers, in this order.
    """

    def __init__(
        self,
        plan: Plan,
        most_rows: int,
        keep: tuple[bool, bool, bool],
        callbacks: tuple[Callable[[Block], None] | None, ...],
    ) -> None:
        self._memory, self._callbacks = plan.memory, callbacks
        self._rows = {
            name: _Rows(dtype, most_rows)
            for (name, _, dtype), kept in zip(_KINDS, keep, strict=True)
            if kept
        }
        self._flows = _FlowColumns(plan)

    def take(self) -> None:
        """Take all rows there are."""
        counted, start = offset_of(at.LOG, "count"), offset_of(at.LOG, "start")
        for (name, noted, dtype), callback in zip(_KINDS, self._callbacks, strict=True):
            log = offset_of(at.RUN, name)
            count = int(self._memory[log + counted])
            if count == 0:
                continue
            self._memory[log + counted] = 0
            first = int(self._memory[log + start])
            rows = self._memory[first : first + count * words_of(noted)].view(noted)
            # A copy, because the memory is written again.
            block = self._flows.departures(rows) if name == "departures" else rows.astype(dtype)
            if callback is not None:
                callback(block)
            if name in self._rows:
                self._rows[name].add(block)

    def logs(self) -> Logs:
        """Return what was kept."""
        arrays: dict[str, Any] = {name: rows.array() for name, rows in self._rows.items()}
        left_out = {name: rows.left_out for name, rows in self._rows.items() if rows.left_out}
        return Logs(**arrays, left_out=left_out)


class _FlowColumns:
    """What the rows of departures say by the number of the flow."""

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
        """Return rows of the kernels as rows of :data:`DEPARTURE`."""
        meta = rows["meta"]
        flow = meta & at.META_FLOW_MASK
        member = self._member[flow]
        block = np.empty(len(rows), DEPARTURE)
        block["port"] = self._port[rows["port"]]
        block["stream"] = self._stream[flow]
        block["returns"] = self._returns[flow]
        block["member"] = member
        block["fragment"] = (meta >> at.META_FRAGMENT_SHIFT) & at.META_FRAGMENT_MASK
        block["tagged"] = member >= 0
        block["sequence"] = np.where(member >= 0, (meta >> at.META_SEQ_SHIFT) & 0xFFFF, 0)
        block["frame_bytes"] = np.where(meta & at.META_LAST, self._last[flow], self._full[flow])
        for name in ("datagram", "sent_ps", "queued_ps", "start_ps", "end_ps"):
            block[name] = rows[name]
        return block
