"""The engine: runs a network window by window, element by element, in compiled code.

In each window every element processes all frames that reach it before the window's end. Elements
are ordered after those that feed them, so no frame is missed, and the memory in use is that of one
window and the queues for any duration.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

import numpy as np
from numpy.random import SeedSequence

from tsnrepro.model import layout
from tsnrepro.model.compiled import SOURCE_DIGEST, entry_point, handle, kernel, memory_of, offset_of
from tsnrepro.model.listeners import run_receiver
from tsnrepro.model.logs import Block, LogCollector, check_names
from tsnrepro.model.network import (
    ConstantRate,
    DuplexLink,
    EgressPort,
    EndStation,
    Network,
    SinglePath,
    TrafficStream,
)
from tsnrepro.model.plan import LogRequest, Plan, plan_network
from tsnrepro.model.ports import run_fifo, run_scheduled
from tsnrepro.model.recording import logs_need_room
from tsnrepro.model.result import SimulationResult, Tally, read_result
from tsnrepro.model.senders import plan_call, plan_entry

_PICOSECONDS: Final = 10**12
_WINDOWS_PER_CALL: Final = 1024


class EngineFault(RuntimeError):
    """An internal error of the engine; its numbers must not be used."""


@kernel
def _start_senders(memory):
    run = layout.run(memory, 0)
    first = run.senders
    for place in range(first, first + run.sender_count):
        sender = layout.sender(memory, memory[place])
        if sender.kind == layout.TCP:
            continue
        if layout.element(memory, sender.port).kind == layout.FIFO_PORT:
            plan_entry(memory, sender)
        else:
            plan_call(memory, sender)


@kernel
def _run_window(memory, end):
    run = layout.run(memory, 0)
    first = run.elements
    for place in range(first, first + run.element_count):
        element = layout.element(memory, memory[place])
        kind = element.kind
        if kind == layout.FIFO_PORT:
            run_fifo(memory, element, end)
        elif kind == layout.RECEIVER:
            run_receiver(memory, element, end)
        else:
            run_scheduled(memory, element, end)


@kernel
def _run_windows(memory, windows):
    """Run up to ``windows`` windows, fewer if a log needs room."""
    run = layout.run(memory, 0)
    if not run.started:
        run.started = 1
        _start_senders(memory)
    for _ in range(windows):
        end = run.now + run.window
        _run_window(memory, end)
        run.now = end
        if run.fault or logs_need_room(memory):
            return


def _make_advance(digest: int) -> Callable[[Any, int], None]:
    def advance(handle, windows):
        if digest != 0:
            _run_windows(memory_of(handle), windows)

    return advance


_advance = entry_point(_make_advance(SOURCE_DIGEST))


class _State:
    """The state that Python reads between calls, by addresses that are computed once.

    Windows may be short, so this must be fast.
    """

    def __init__(self, plan: Plan) -> None:
        self._memory = plan.memory
        self._now, self._window, self._fault = (
            offset_of(layout.RUN, name) for name in ("now", "window", "fault")
        )
        events = [sender + offset_of(layout.SENDER, "next") for sender in plan.senders.values()]
        events += [tcp + offset_of(layout.TRANSPORT, "ack_at") for tcp in plan.transports.values()]
        events += [element + offset_of(layout.ELEMENT, "release_at") for element in plan.elements]
        self._events = events
        rings = np.array(plan.frame_rings())
        self._read, self._written = (
            rings + offset_of(layout.RING, name) for name in ("read", "written")
        )

    def windows_until(self, end_ps: int) -> int:
        """Return the number of windows up to a time; 0 if the run has reached it."""
        return max(
            0, -(-(end_ps - int(self._memory[self._now])) // int(self._memory[self._window]))
        )

    def is_idle(self) -> bool:
        """Return whether no event and no frame is left."""
        memory = self._memory
        if any(memory[event] < layout.NEVER for event in self._events):
            return False
        return bool((memory[self._read] == memory[self._written]).all())

    def check(self) -> None:
        """Raise EngineFault if a kernel has set the fault flag."""
        if self._memory[self._fault]:
            raise EngineFault("a ring is full although its size was computed to be sufficient")


def warm_up() -> None:
    """Compile the model if it is not cached yet, which takes half a minute."""
    port = EgressPort(queue_bytes=2000)
    network = Network(
        hosts={"talker": EndStation(port=port), "listener": EndStation(port=port)},
        links=[DuplexLink(name="link", a="talker", b="listener")],
        streams=[
            TrafficStream(
                name="stream",
                talker="talker",
                listener="listener",
                payload_bytes=1,
                send=ConstantRate(rate_mbps=1.0),
                route=SinglePath(links=["link"]),
            )
        ],
    )
    simulate(network, duration_s=1e-6)


def simulate(
    network: Network,
    *,
    duration_s: float,
    seed: int | SeedSequence = 0,
    drain_s: float = 1.0,
    record: bool | Collection[str] = False,
    departures: Collection[str] = (),
    on_delivery: Callable[[Block], None] | None = None,
    on_departure: Callable[[Block], None] | None = None,
    on_answer: Callable[[Block], None] | None = None,
    max_rows: int = 10_000_000,
    general_ports: bool = False,
) -> SimulationResult:
    """Run ``network``: writes begin before ``duration_s``, then queues drain for ``drain_s``.

    The same network, duration and seed give the same result, byte by byte, on any machine.

    ``record`` logs the deliveries, and a ping-pong's answers, of all streams or of those named;
    ``departures`` logs the frames that leave the ports named (node:link). They are in the result's
    ``logs``, at most ``max_rows`` rows of each, of :data:`~tsnrepro.model.layout.DELIVERY`
    (40 bytes), :data:`~tsnrepro.model.logs.DEPARTURE` (72) and
    :data:`~tsnrepro.model.layout.ANSWER` (32). The callbacks get the same rows in blocks during the
    run (in order of time for each stream, or each port), without limit, and of all streams unless
    ``record`` names some. ``general_ports`` serves FIFO ports event by event like the others, which
    is slower and has the same result.

    Raises ValueError for invalid times, names that are not in the network, or a network that cannot
    be laid out; ConservationError if the counts do not add up; EngineFault for an internal error.
    """
    stop_ps = round(duration_s * _PICOSECONDS)
    if not 0 < stop_ps < layout.NEVER // 2:
        raise ValueError(f"duration of {duration_s} s: give between 1e-12 and 2e6 s")
    if drain_s < 0:
        raise ValueError(f"drain of {drain_s} s: give 0 or more")
    streams = None if isinstance(record, bool) else frozenset(record)
    if record is False and on_delivery is None and on_answer is None:
        streams = frozenset()
    requested = LogRequest(streams, frozenset(departures))
    check_names(network, requested)
    root = seed if isinstance(seed, SeedSequence) else SeedSequence(seed)
    plan = plan_network(network, stop_ps, root, requested=requested, general_ports=general_ports)
    collector = LogCollector(
        plan,
        max_rows,
        keep=(record is not False, bool(departures), record is not False),
        callbacks=(on_delivery, on_departure, on_answer),
    )
    tally = Tally(plan)
    _run(plan, stop_ps + round(drain_s * _PICOSECONDS), tally, collector)
    return read_result(plan, tally, duration_s, collector.logs())


def _run(plan: Plan, end_ps: int, tally: Tally, collector: LogCollector) -> None:
    state = _State(plan)
    while windows := state.windows_until(end_ps):
        _advance(handle(plan.memory), min(_WINDOWS_PER_CALL, windows))
        state.check()
        tally.carry()
        collector.collect()
        if state.is_idle():
            return
