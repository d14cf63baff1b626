"""Run a network: window after window, element after element, in compiled code.

In each window every element takes all frames that reach it before the window's end. An element
comes after those that feed it, so nothing is missed, and the memory in use is that of one window
plus the queues, however long the run.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

import numpy as np
from numpy.random import SeedSequence

from tsnrepro.model import layout as at
from tsnrepro.model.compiled import SOURCE_DIGEST, entry_point, handle, kernel, offset_of, words
from tsnrepro.model.listeners import run_receiver
from tsnrepro.model.logs import Block, Keeper, check_names
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
from tsnrepro.model.result import SimulationResult, Tally, read_result
from tsnrepro.model.rows import logs_need_room
from tsnrepro.model.senders import plan_call, plan_entry

_PICOSECONDS: Final = 10**12
_WINDOWS_A_VISIT: Final = 1024


class EngineFault(RuntimeError):
    """The engine broke a rule of its own; its numbers must not be used."""


@kernel
def _start_senders(memory):
    run = at.run(memory, 0)
    first = run.senders
    for place in range(first, first + run.sender_count):
        sender = at.sender(memory, memory[place])
        if sender.kind == at.TCP:
            continue
        if at.element(memory, sender.port).kind == at.FIFO_PORT:
            plan_entry(memory, sender)
        else:
            plan_call(memory, sender)


@kernel
def _run_window(memory, end):
    run = at.run(memory, 0)
    first = run.elements
    for place in range(first, first + run.element_count):
        element = at.element(memory, memory[place])
        kind = element.kind
        if kind == at.FIFO_PORT:
            run_fifo(memory, element, end)
        elif kind == at.RECEIVER:
            run_receiver(memory, element, end)
        else:
            run_scheduled(memory, element, end)


@kernel
def _run_windows(memory, windows):
    """Run up to ``windows`` windows; stop early where a log needs room."""
    run = at.run(memory, 0)
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
    def advance(handed, windows):
        if digest != 0:
            _run_windows(words(handed), windows)

    return advance


_advance = entry_point(_make_advance(SOURCE_DIGEST))


class _Visit:
    """What Python looks at between windows, by addresses that are computed once.

    Many windows are short, so this must be quick.
    """

    def __init__(self, plan: Plan) -> None:
        self._memory = plan.memory
        self._now, self._window, self._fault = (
            offset_of(at.RUN, name) for name in ("now", "window", "fault")
        )
        events = [sender + offset_of(at.SENDER, "next") for sender in plan.senders.values()]
        events += [tcp + offset_of(at.TRANSPORT, "ack_at") for tcp in plan.transports.values()]
        events += [element + offset_of(at.ELEMENT, "release_at") for element in plan.elements]
        self._events = events
        rings = np.array(plan.frame_rings())
        self._read, self._written = (
            rings + offset_of(at.RING, name) for name in ("read", "written")
        )

    def windows_until(self, end_ps: int) -> int:
        """Return how many windows there are up to a time; none where the run has got there."""
        return max(
            0, -(-(end_ps - int(self._memory[self._now])) // int(self._memory[self._window]))
        )

    def is_idle(self) -> bool:
        """Tell whether nothing is left to happen."""
        memory = self._memory
        if any(memory[event] < at.NEVER for event in self._events):  # mostly the first one is
            return False
        return bool((memory[self._read] == memory[self._written]).all())

    def check(self) -> None:
        """Raise EngineFault where a kernel has noted a fault."""
        if self._memory[self._fault]:
            raise EngineFault("a ring ran full although its size was computed to hold everything")


def warm_up() -> None:
    """Compile the model, where it is not yet (half a minute), and store it for every later use."""
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
    most_rows: int = 10_000_000,
    general_ports: bool = False,
) -> SimulationResult:
    """Run ``network``: writes begin before ``duration_s``, then queues drain for ``drain_s``.

    The same network, duration and seed give the same result, to the byte, on any machine.

    ``record`` keeps the deliveries, and a ping-pong's answers, of all streams or of those named;
    ``departures`` keeps what leaves the ports named (node:link). They are in the result's ``logs``,
    at most ``most_rows`` rows of each, of :data:`~tsnrepro.model.layout.DELIVERY` (40 bytes),
    :data:`~tsnrepro.model.logs.DEPARTURE` (72) and :data:`~tsnrepro.model.layout.ANSWER` (32). The
    callbacks are given the same in blocks, as it is computed (in order of time for each stream, or
    each port), without bound and, where ``record`` does not name streams, of all streams.
    ``general_ports`` serves FIFO ports event by event like the others: slower, the same result.

    Raises ValueError for times that cannot be, names that are not in the network, or a network that
    cannot be laid out, ConservationError where the counts do not add up, EngineFault where the
    engine fails itself.
    """
    stop_ps = round(duration_s * _PICOSECONDS)
    if not 0 < stop_ps < at.NEVER // 2:
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
    keeper = Keeper(
        plan,
        most_rows,
        keep=(record is not False, bool(departures), record is not False),
        callbacks=(on_delivery, on_departure, on_answer),
    )
    tally = Tally(plan)
    _run(plan, stop_ps + round(drain_s * _PICOSECONDS), tally, keeper)
    return read_result(plan, tally, duration_s, keeper.logs())


def _run(plan: Plan, end_ps: int, tally: Tally, keeper: Keeper) -> None:
    visit = _Visit(plan)
    while windows := visit.windows_until(end_ps):
        _advance(handle(plan.memory), min(_WINDOWS_A_VISIT, windows))
        visit.check()
        tally.carry()
        keeper.take()
        if visit.is_idle():
            return
