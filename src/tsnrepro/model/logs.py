"""Logs of a run as numpy arrays, one row a datagram or frame, and what is read from them.

Times are in picoseconds of the model's true time. ``stream`` is the stream's place in the network's
list. A run logs only what :func:`tsnrepro.model.engine.simulate` is asked for.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tsnrepro.model import layout as at
from tsnrepro.model.network import Gates, Network, Replicated, picoseconds
from tsnrepro.model.plan import Plan, Wanted, gate_windows_ps
from tsnrepro.model.result import Logs, Result

__all__ = [
    "ANSWER",
    "DELIVERY",
    "DEPARTURE",
    "Block",
    "Keeper",
    "check_names",
    "delivery_log",
    "departure_log",
    "gate_phase_ps",
    "in_window",
    "round_trips_ns",
]

Block: TypeAlias = npt.NDArray[np.void]

DELIVERY: Final = np.dtype(
    [
        ("stream", np.int64),
        ("datagram", np.int64),
        ("sent_ps", np.int64),
        ("arrived_ps", np.int64),
        ("delivered_ps", np.int64),
    ]
)
"""One datagram read by its listener for the first time: which stream (its place in the network's
list), which datagram of it (from 0), when its write began, when its last frame came to the
listener's card, and when the process had read it."""

ANSWER: Final = np.dtype(
    [
        ("stream", np.int64),
        ("request", np.int64),
        ("sent_ps", np.int64),
        ("answered_ps", np.int64),
    ]
)
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

_WORDS: Final = (
    (at.X_DELIVERIES, at.R_WORDS),
    (at.X_DEPARTURES, at.DP_WORDS),
    (at.X_ANSWERS, at.AN_WORDS),
)
_NAMES: Final = ("deliveries", "departures", "answers")


def check_names(network: Network, wanted: Wanted) -> None:
    """Raise ValueError for streams or ports to be logged that no frame passes."""
    streams = {stream.name for stream in network.streams}
    unknown = sorted((wanted.streams or frozenset()) - streams)
    if unknown:
        raise ValueError(
            f"record: no stream {', '.join(unknown)} (there are {', '.join(sorted(streams))})"
        )
    ports = {f"{end}:{link.name}" for link in network.links for end in (link.a, link.b)}
    unknown = sorted(wanted.ports - ports)
    if unknown:
        raise ValueError(
            f"departures: no port {', '.join(unknown)} (a port is node:link, one of "
            f"{', '.join(sorted(ports))})"
        )


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
        self._plan, self._keep, self._callbacks = plan, keep, callbacks
        self._room = [most_rows] * at.LOGS
        self._left_out = [0] * at.LOGS
        self._kept: list[list[Block]] = [[] for _ in range(at.LOGS)]
        self._flows = _FlowColumns(plan)

    def take(self) -> None:
        """Take all rows there are."""
        memory = self._plan.memory
        for number, (log, words) in enumerate(_WORDS):
            count = int(memory[log + at.LOG_COUNT])
            if count == 0:
                continue
            first = int(memory[log + at.LOG_START])
            memory[log + at.LOG_COUNT] = 0
            block = self._block(log, memory[first : first + count * words])
            callback = self._callbacks[number]
            if callback is not None:
                callback(block)
            if self._keep[number]:
                kept = block[: self._room[number]]
                self._room[number] -= len(kept)
                self._left_out[number] += len(block) - len(kept)
                self._kept[number].append(kept)

    def _block(self, log: int, rows: npt.NDArray[np.int64]) -> Block:
        if log == at.X_DELIVERIES:
            return rows.copy().view(DELIVERY)
        if log == at.X_ANSWERS:
            return rows.copy().view(ANSWER)
        return self._flows.departures(rows.reshape(-1, at.DP_WORDS))

    def logs(self) -> Logs:
        """Return what was kept."""
        types = (DELIVERY, DEPARTURE, ANSWER)
        arrays: dict[str, Any] = {
            name: np.concatenate([np.empty(0, types[number]), *self._kept[number]])
            for number, name in enumerate(_NAMES)
            if self._keep[number]
        }
        left_out = {
            name: self._left_out[number]
            for number, name in enumerate(_NAMES)
            if self._left_out[number]
        }
        return Logs(**arrays, left_out=left_out)


class _FlowColumns:
    """What the rows of departures say by the number of the flow."""

    def __init__(self, plan: Plan) -> None:
        flows = plan.graph.flows
        ports = [element for element in plan.graph.elements if element.link is not None]
        self._port = np.zeros(len(plan.graph.elements), np.int64)
        self._port[[port.index for port in ports]] = np.arange(len(ports))
        self._stream = np.array([flow.carried.sender for flow in flows])
        self._returns = np.array([flow.carried.returns for flow in flows])
        self._member = np.array([-1 if f.member is None else f.member for f in flows])
        self._full = np.array([flow.frames[0] for flow in flows])
        self._last = np.array([flow.frames[-1] for flow in flows])

    def departures(self, rows: npt.NDArray[np.int64]) -> Block:
        """Return rows of the kernels as rows of :data:`DEPARTURE`."""
        meta = rows[:, at.DP_META]
        flow = meta & at.META_FLOW_MASK
        member = self._member[flow]
        block = np.empty(len(rows), DEPARTURE)
        block["port"] = self._port[rows[:, at.DP_PORT]]
        block["stream"] = self._stream[flow]
        block["returns"] = self._returns[flow]
        block["member"] = member
        block["fragment"] = (meta >> at.META_FRAGMENT_SHIFT) & at.META_FRAGMENT_MASK
        block["tagged"] = member >= 0
        block["sequence"] = np.where(member >= 0, (meta >> at.META_SEQ_SHIFT) & 0xFFFF, 0)
        block["frame_bytes"] = np.where(meta & at.META_LAST, self._last[flow], self._full[flow])
        for name, column in (
            ("datagram", at.DP_IDENT),
            ("sent_ps", at.DP_SENT),
            ("queued_ps", at.DP_QUEUED),
            ("start_ps", at.DP_START),
            ("end_ps", at.DP_DONE),
        ):
            block[name] = rows[:, column]
        return block


def departure_log(result: Result, port: str) -> Block:
    """Return the rows of :data:`DEPARTURE` of one port (node:link), in order of time.

    Raises ValueError where departures from it were not logged.
    """
    departures = result.logs.departures
    if departures is None:
        raise ValueError(f"departures from {port} were not logged: give simulate() departures")
    if port not in result.ports:
        raise ValueError(f"no stream passes port {port}: it has no departures")
    return departures[departures["port"] == list(result.ports).index(port)]


def delivery_log(result: Result, stream: str) -> Block:
    """Return one row a delivered datagram of a stream, in order of delivery.

    Fields: ``sequence`` (from 0, without wrapping), ``written_ps``, ``arrived_ps``,
    ``delivered_ps``, ``transit_ps`` (from the write to the card of the listener), and, where the
    departures of the talker's port were logged too, ``departed_ps``, the start of the datagram's
    first frame there. Raises ValueError where the stream's deliveries were not logged.
    """
    names = [listed.name for listed in result.network.streams]
    if stream not in names:
        raise ValueError(f"no stream {stream} (there are {', '.join(names)})")
    number = names.index(stream)
    rows = result.deliveries[result.deliveries["stream"] == number]
    fields = [("sequence", np.int64), ("written_ps", np.int64), ("arrived_ps", np.int64)]
    fields += [("delivered_ps", np.int64), ("transit_ps", np.int64)]
    departed = _departed(result, number)
    if departed is not None:
        fields.append(("departed_ps", np.int64))
    log = np.empty(len(rows), np.dtype(fields))
    log["sequence"] = rows["datagram"]
    log["written_ps"] = rows["sent_ps"]
    log["arrived_ps"] = rows["arrived_ps"]
    log["delivered_ps"] = rows["delivered_ps"]
    log["transit_ps"] = rows["arrived_ps"] - rows["sent_ps"]
    if departed is not None:
        log["departed_ps"] = _look_up(departed, rows["datagram"])
    return log


def _departed(result: Result, number: int) -> Block | None:
    """Return when the first frames of a stream left its talker, if that was logged."""
    stream = result.network.streams[number]
    route = stream.route
    link = route.before[0] if isinstance(route, Replicated) else route.links[0]
    port = f"{stream.talker}:{link}"
    departures = result.logs.departures
    if departures is None or port not in result.ports:
        return None
    place = list(result.ports).index(port)
    rows = departures[departures["port"] == place]
    rows = rows[(rows["stream"] == number) & ~rows["returns"] & (rows["fragment"] == 0)]
    return rows if len(rows) else None


def _look_up(departed: Block, datagrams: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    order = np.argsort(departed["datagram"], kind="stable")
    ordered = departed[order]
    places = np.searchsorted(ordered["datagram"], datagrams)
    there = places < len(ordered)
    there[there] = ordered["datagram"][places[there]] == datagrams[there]
    if not there.all():
        raise ValueError(
            f"the log of departures lacks {int((~there).sum())} of {len(datagrams)} delivered "
            "datagrams: raise most_rows"
        )
    return ordered["start_ps"][places]


def round_trips_ns(result: Result, stream: str) -> npt.NDArray[np.float64]:
    """Return the round trip of every request answered in time, in nanoseconds, in order.

    Halve them to compare with what sockperf reports. Raises ValueError where they were not logged.
    """
    answers = result.logs.answers
    names = [listed.name for listed in result.network.streams]
    if stream not in names:
        raise ValueError(f"no stream {stream} (there are {', '.join(names)})")
    if answers is None:
        raise ValueError(f"answers of {stream} were not logged: give simulate() record")
    rows = answers[answers["stream"] == names.index(stream)]
    return (rows["answered_ps"] - rows["sent_ps"]) / 1000


def gate_phase_ps(gates: Gates, times_ps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where in the gate cycle times lie, by the clock of the port: 0 ... cycle - 1 ps."""
    shift = picoseconds(gates.clock_offset_ns) - gates.base_time_ns * 1000
    return (times_ps + shift) % (gates.cycle_ns * 1000)


def in_window(gates: Gates, traffic_class: int, departures: Block) -> npt.NDArray[np.bool_]:
    """Tell of each departed frame whether it began and ended within one window of its class.

    Without a guard band frames may run over the end of the window: then this asks only that they
    began in one.
    """
    windows = gate_windows_ps(gates, traffic_class)
    inside = np.zeros(len(departures), np.bool_)
    if windows is None:
        return ~inside
    cycle = gates.cycle_ns * 1000
    phase = gate_phase_ps(gates, departures["start_ps"])
    lasts = departures["end_ps"] - departures["start_ps"] if gates.guard_band else 1
    for opens, closes in windows:
        # A window through the end of the cycle ends beyond it: look from the cycle before, too.
        for shift in (0, cycle):
            inside |= (opens <= phase + shift) & (phase + shift + lasts <= closes)
    return inside
