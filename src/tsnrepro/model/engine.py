"""Run a network: window after window, element after element, in compiled code.

In each window every element takes all frames that reach it before the window's end. An element
comes after those that feed it, so nothing is missed, and the memory in use is that of one window
plus the queues, however long the run.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

from numpy.random import SeedSequence

from tsnrepro.model import layout as at
from tsnrepro.model.compiled import SOURCE_DIGEST, entry_point, handle, kernel, words
from tsnrepro.model.layout import (
    E_KIND,
    FIFO_PORT,
    RECEIVER,
    S_KIND,
    S_PORT,
    TCP,
    X_ELEMENT_COUNT,
    X_ELEMENTS,
    X_FAULT,
    X_NOW,
    X_SENDER_COUNT,
    X_SENDERS,
    X_STARTED,
    X_WINDOW,
)
from tsnrepro.model.listeners import run_receiver
from tsnrepro.model.logs import DELIVERY, Block, Keeper, check_names
from tsnrepro.model.network import Network
from tsnrepro.model.plan import Plan, Wanted, plan_network
from tsnrepro.model.ports import run_fifo, run_scheduled
from tsnrepro.model.result import Result, Tally, read_result
from tsnrepro.model.rows import logs_need_room
from tsnrepro.model.senders import plan_call, plan_entry

__all__ = ["DELIVERY", "EngineFault", "simulate"]

_PICOSECONDS: Final = 10**12
_WINDOWS_A_VISIT: Final = 1024


class EngineFault(RuntimeError):
    """The engine broke a rule of its own; its numbers must not be used."""


@kernel
def _start_senders(memory):
    first = memory[X_SENDERS]
    for place in range(first, first + memory[X_SENDER_COUNT]):
        sender = memory[place]
        if memory[sender + S_KIND] == TCP:
            continue
        if memory[memory[sender + S_PORT] + E_KIND] == FIFO_PORT:
            plan_entry(memory, sender)
        else:
            plan_call(memory, sender)


@kernel
def _run_window(memory, end):
    first = memory[X_ELEMENTS]
    for place in range(first, first + memory[X_ELEMENT_COUNT]):
        element = memory[place]
        kind = memory[element + E_KIND]
        if kind == FIFO_PORT:
            run_fifo(memory, element, end)
        elif kind == RECEIVER:
            run_receiver(memory, element, end)
        else:
            run_scheduled(memory, element, end)


@kernel
def _run_windows(memory, windows):
    """Run up to ``windows`` windows; stop early where a log needs room."""
    if not memory[X_STARTED]:
        memory[X_STARTED] = 1
        _start_senders(memory)
    for _ in range(windows):
        end = memory[X_NOW] + memory[X_WINDOW]
        _run_window(memory, end)
        memory[X_NOW] = end
        if memory[X_FAULT] or logs_need_room(memory):
            return


def _make_advance(digest: int) -> Callable[[Any, int], None]:
    def advance(handed, windows):
        if digest != 0:
            _run_windows(words(handed), windows)

    return advance


_advance = entry_point(_make_advance(SOURCE_DIGEST))


def _is_idle(plan: Plan) -> bool:
    """Tell whether nothing is left to happen."""
    memory = plan.memory
    if any(memory[sender + at.S_NEXT] < at.NEVER for sender in plan.senders.values()):
        return False
    if any(memory[tcp + at.T_ACK_AT] < at.NEVER for tcp in plan.transports.values()):
        return False
    rings = list(plan.edges)
    for element in plan.elements:
        if memory[element + at.E_RELEASE_AT] < at.NEVER:
            return False
        if memory[element + at.E_KIND] == at.SCHEDULED_PORT:
            classes = int(memory[element + at.E_CLASSES])
            rings += [classes + number * at.Q_COLUMNS for number in range(at.CLASSES)]
    return all(memory[r + at.RING_READ] == memory[r + at.RING_WRITTEN] for r in rings)


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
) -> Result:
    """Run ``network``: writes begin before ``duration_s``, then queues drain for ``drain_s``.

    The same network, duration and seed give the same result, to the byte, on any machine.

    ``record`` keeps the deliveries, and a ping-pong's answers, of all streams or of those named;
    ``departures`` keeps what leaves the ports named (node:link). They are in the result's ``logs``,
    at most ``most_rows`` rows of each, of :data:`~tsnrepro.model.logs.DELIVERY` (40 bytes),
    :data:`~tsnrepro.model.logs.DEPARTURE` (72) and :data:`~tsnrepro.model.logs.ANSWER` (32). The
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
    wanted = Wanted(streams, frozenset(departures))
    check_names(network, wanted)
    root = seed if isinstance(seed, SeedSequence) else SeedSequence(seed)
    plan = plan_network(network, stop_ps, root, wanted=wanted, general_ports=general_ports)
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
    memory = plan.memory
    while True:
        left = -(-(end_ps - int(memory[X_NOW])) // int(memory[X_WINDOW]))
        _advance(handle(memory), min(_WINDOWS_A_VISIT, left))
        if memory[X_FAULT]:
            raise EngineFault("a ring ran full although its size was computed to hold everything")
        tally.carry()
        keeper.take()
        if memory[X_NOW] >= end_ps or _is_idle(plan):
            return
