"""Shaping by commands on hosts: the job of a trial, and what came back.

Every command is a step of a job (:mod:`tsnrepro.testbeds.jobs.job`), the same text that an SSH host
would get. Hosts and links are in :mod:`.topology`; what makes a port shape is queueing disciplines
of a kernel (:mod:`.veth_queues`) or of a card (:mod:`.card_queues`), the queues of a board
(:mod:`.board_queues`), or the software bridge (:mod:`.software_bridge`).

Egress is the kernel's receive stamp at the listener, at the frame's first bit, late by the few
microseconds of bridge and network stack.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from tsnrepro.common.errors import ConfigurationError, ToolError
from tsnrepro.common.topology import INLINE_SWITCH, LISTENER, TALKER
from tsnrepro.config.registry import EMULATED, GUEST
from tsnrepro.experiments.shaping import (
    board_queues,
    card_queues,
    frer_switches,
    software_bridge,
    standing_queue,
    toggles,
    topology,
    veth_queues,
)
from tsnrepro.experiments.shaping.log import LOG, compress
from tsnrepro.experiments.shaping.plan import Factors
from tsnrepro.experiments.shaping.schedule import flows_of
from tsnrepro.experiments.shaping.settings import BOARD_MEDIUM, CARDS_MEDIUM, LAUNCHED
from tsnrepro.experiments.shaping.steps import COMMAND_S, nth, numbered
from tsnrepro.experiments.shaping.topology import Wiring
from tsnrepro.native import streams
from tsnrepro.native.streams import command
from tsnrepro.native.streams.log import read_listener_log, read_talker_log, with_queue_times
from tsnrepro.testbeds.hosts.clocks import ClockSync, ClockSyncFailure
from tsnrepro.testbeds.jobs.job import Cable, Job, JobResult, Pause, Step, Stop
from tsnrepro.testbeds.jobs.script import hardware_address
from tsnrepro.tools import qdisc

if TYPE_CHECKING:
    from tsnrepro.experiments.shaping.settings import Mode, ShapingPart
    from tsnrepro.records.store import Trial
    from tsnrepro.runner.measurement import Measurement
    from tsnrepro.testbeds.protocol import JobTestbed

_STREAM_PORT, _LOAD_PORT = 5005, 5006
_LOG_PATH, _TALKER_LOG_PATH = "/tmp/stream.log", "/tmp/talker.log"

# The load fills sockets before the stream starts; a queue that both share it fills first.
_LEAD_S, _LONGEST_FILLING_S = 0.2, 2.0
# The last datagrams come in after it: no more queues are full on their way, those of a port whose
# gates are open half of the time counted twice, and programs are late by less.
_FULL_QUEUES, _LATENESS_S = 4, 0.1
_LOAD_BUFFER_BYTES = 8_000_000
# The talker hands packets with a launch time over well before etf lets them go.
_LAUNCH_AHEAD_NS = 1_000_000
_GOLDEN = (5**0.5 - 1) / 2

_WALL_SECONDS = 400.0
# Kernel timers open gates late by 2 to 3 us, and the bridge takes a few more to the stamp.
_STAMP_UNCERTAINTY_NS = 10_000
# A card stamps a frame's beginning; the cable and both cards' latencies stay below this.
_CARD_UNCERTAINTY_NS = 1000.0
# Kinds of testbeds whose links are a job's own.
_OF_VETH = (EMULATED, GUEST)


def measure(testbed: JobTestbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial by a job; the record keeps every command, log and counter."""
    factors = Factors.of(trial)
    part, mode = factors.part, factors.mode
    seed = int(trial.digest, 16) % (1 << 31)
    wiring = _topology_of(part, mode, testbed.cable)
    job = job_of(part, mode, seed, testbed.cable)
    measured.outputs["job.json.gz"] = json.dumps(job.describe(), indent=1)
    result: JobResult = testbed.run(job)
    _keep(result, measured)
    result.check()
    log = read_listener_log(result.file(_LOG_PATH))
    if mode not in LAUNCHED:
        log = with_queue_times(log, read_talker_log(result.file(_TALKER_LOG_PATH)))
    measured.outputs[LOG] = compress(log)
    measured.values["guest" if testbed.kind == "guest" else "machine"] = result.describe()
    clocks = _agreements(result)
    measured.values |= {
        "seed": seed,
        "medium": _medium_of(testbed, wiring),
        "egress": _egress_of(testbed.cable, clocks),
        **_counts_of(part, wiring, result),
        **({"stalls": software_bridge.stalls(result)} if part.software_bridge else {}),
    }
    if testbed.kind in _OF_VETH:  # a card's or board's queues are its own
        standing_queue.check(part, mode, log, _STAMP_UNCERTAINTY_NS / 1000)


def _medium_of(testbed: JobTestbed, wiring: Wiring) -> str:
    if testbed.kind in _OF_VETH:
        return f"{testbed.kind} veth"
    return BOARD_MEDIUM if wiring.board else CARDS_MEDIUM


def _agreements(result: JobResult) -> list[ClockSync]:
    """Return how well hosts apart agreed on the time, before the steps and after them."""
    found = []
    for each in result.clocks or ():
        if isinstance(each, ClockSyncFailure):
            raise ToolError(
                f"clocks no longer agree: {each.reason}",
                f"job {result.job}",
                "The times of this attempt do not compare; what was measured is kept with it",
            )
        found.append(each)
    return found


def _egress_of(cable: Cable | None, clocks: list[ClockSync]) -> dict[str, Any]:
    """Return where egress times come from and how well they are known."""
    source, uncertainty_ns = "kernel receive stamp of the listener", float(_STAMP_UNCERTAINTY_NS)
    if cable is not None and cable.stamps == "hardware":
        source, uncertainty_ns = "receive stamp of the listener's card", _CARD_UNCERTAINTY_NS
    # Clocks apart add what linuxptp leaves of doubt.
    uncertainty_ns += max((each.uncertainty_ns for each in clocks), default=0.0)
    stamped = {"before_stamp_ns": 0, "frame_ns": 0}
    return {"source": source, **stamped, "uncertainty_ns": uncertainty_ns}


def _keep(result: JobResult, measured: Measurement) -> None:
    """Keep what every step printed, whether or not it succeeded."""
    for name, done in result.steps.items():
        measured.commands.append(done.as_record())
        if done.stdout:
            measured.outputs[f"{name}.txt"] = done.stdout
        if done.stderr:
            measured.outputs[f"{name}.stderr.txt"] = done.stderr


def _counts_of(part: ShapingPart, wiring: Wiring, result: JobResult) -> dict[str, Any]:
    """Return the accounts of stream and load and what everything on the way counted."""
    sent = command.parse_talker(result.steps["talker"].stdout)
    got = command.parse_listener(result.steps["listener"].stdout).stream(_STREAM_PORT)
    return {
        "result": {
            "sent": sent.sent,
            "received": got.unique,
            "lost": sent.sent - got.unique,
            "out_of_order": got.out_of_order,
            **_load_rates(part, wiring, result),
        },
        "talker": asdict(sent),
        "listener": asdict(got),
        "qdiscs": [] if part.software_bridge else _counted(result),
        **(software_bridge.counts_of(wiring, result) if part.software_bridge else {}),
        **({"frer": frer_switches.counts_of(result)} if wiring.replicated else {}),
        **_phases_of(part, sent, result),
    }


def _phases_of(part: ShapingPart, sent: command.TalkerResult, result: JobResult) -> dict[str, Any]:
    """Return when toggled gates were enabled and disabled, on the talker's clock."""
    if part.toggles is None:
        return {}
    if sent.first_ns is None or sent.last_ns is None:
        raise ToolError("the talker sent nothing", "step talker")
    toggled = []
    for place in range(part.toggles):
        done = result.steps[_toggle(place)]
        # Steps are timed by CLOCK_REALTIME.
        began = round(done.started_s * 1e9) + sent.tai_offset_s * 10**9
        toggled.append((began, began + round(done.seconds * 1e9)))
    return toggles.recorded(toggles.phases_between(toggled, sent.first_ns, sent.last_ns))


def _toggle(place: int) -> str:
    return f"toggle-{place + 1}"


def _sending_s(part: ShapingPart) -> float:
    return part.packets * part.interval_us / 1e6


def _deadline_s(part: ShapingPart) -> float:
    """Return what a program is given that runs from the first step to the last."""
    return _sending_s(part) + _LEAD_S + _LONGEST_FILLING_S + _drain_s(part) + 2 * COMMAND_S


def _lead_s(part: ShapingPart, mode: Mode) -> float:
    """Return how long the load runs before the stream, which is to find a full queue under FIFO."""
    if mode != "fifo":
        return _LEAD_S
    load = flows_of(part)[1]
    offered_mbps = part.loads_mbps[0] * sum(load.wire_bytes) / part.load_payload_bytes
    surplus_mbps = offered_mbps - part.link_rate_mbps
    if surplus_mbps <= 0:
        return _LEAD_S
    return _LEAD_S + min(part.queue_bytes * 8 / (surplus_mbps * 1e6), _LONGEST_FILLING_S)


def _drain_s(part: ShapingPart) -> float:
    """Return how long to wait for the last datagrams once nothing is sent any more.

    Without a load no queue is full.
    """
    queued_bytes = _FULL_QUEUES * part.queue_bytes if part.loads_mbps[0] else 0
    return _LATENESS_S + queued_bytes * 8 / (part.link_rate_mbps * 1e6)


def _counted(result: JobResult) -> list[dict[str, Any]]:
    before, after = (
        qdisc.parse_statistics(result.steps[f"qdisc-{when}"].stdout) for when in ("before", "after")
    )
    return qdisc.statistics_between(before, after)


def _load_rates(part: ShapingPart, wiring: Wiring, result: JobResult) -> dict[str, float]:
    """Return the payload rates of all loads together, in Mb/s."""
    rates = {"load_offered_mbps": 0.0, "load_delivered_mbps": 0.0}
    if part.loads_mbps[0] == 0:
        return rates
    got = command.parse_listener(result.steps["load-listener"].stdout)
    for place, _ in enumerate(wiring.loaders):
        name = nth("load", place)
        sent = command.parse_talker(result.steps[name].stdout)
        if sent.first_ns is None or sent.last_ns is None or sent.last_ns == sent.first_ns:
            raise ToolError("the load sent less than two datagrams", f"step {name}")
        bits = sent.payload_bytes * 8 / ((sent.last_ns - sent.first_ns) / 1e9) / 1e6
        rates["load_offered_mbps"] += sent.sent * bits
        rates["load_delivered_mbps"] += got.stream(_LOAD_PORT + place).unique * bits
    return rates


# --- the job ----------------------------------------------------------------------------------


def _topology_of(part: ShapingPart, mode: Mode, cable: Cable | None) -> Wiring:
    return topology.of_cable(cable, part) if cable else topology.of_veth(part, mode)


def job_of(part: ShapingPart, mode: Mode, seed: int, cable: Cable | None = None) -> Job:
    """Return everything that a trial does, from links to the last counter.

    ``part`` and ``mode``: what is measured; ``seed``: of the moment at which the steps begin.
    ``cable``: between two cards that are there; by default the job makes links of its own. Raises
    ConfigurationError if the part is of a kind that takes another testbed.
    """
    wiring = _topology_of(part, mode, cable)
    names = [str(streams.talker()), str(streams.listener())]
    if part.software_bridge:
        names += software_bridge.programs()
    if wiring.replicated:
        names.append(frer_switches.program())
    job = Job(
        name=f"shaping {part.name} {mode}",
        links=wiring.links,
        bridges=wiring.bridges,
        ends=wiring.ends,
        beforehand=(wiring.board.host,) if wiring.board else (),
        set_up=tuple(_board(part, mode, wiring, cable)),
        configure=tuple(_configuration(part, mode, wiring, cable)),
        meanwhile=tuple(software_bridge.start(wiring, _deadline_s(part)))
        if part.software_bridge
        else (),
        steps=tuple(_steps(part, mode, wiring)),
        programs=tuple(names),
        seed=seed,
        deadline_s=_WALL_SECONDS,
    )
    return replace(job, inputs=_inputs(part, mode, wiring, job))


def _inputs(part: ShapingPart, mode: Mode, wiring: Wiring, job: Job) -> dict[str, bytes]:
    inputs = frer_switches.inputs() if wiring.replicated else {}
    if part.software_bridge:
        listener = hardware_address(job, wiring.listener)
        inputs |= software_bridge.inputs(part, mode, wiring, listener)
    return inputs


def _configuration(
    part: ShapingPart, mode: Mode, wiring: Wiring, cable: Cable | None
) -> list[Step]:
    if wiring.board:
        return []  # its clock has to agree first
    if cable:
        ((host, device),) = wiring.shaped
        return numbered("shape", host, card_queues.commands(part, mode, device, cable.chip))
    return [
        *(software_bridge.tagging(wiring) if part.software_bridge else []),
        *(frer_switches.set_up(_STREAM_PORT) if wiring.replicated else []),
        *_shaping(part, mode, wiring),
    ]


def _board(part: ShapingPart, mode: Mode, wiring: Wiring, cable: Cable | None) -> list[Step]:
    """Return the steps that set a board's port up, once its clock agrees with the others'.

    The listener speaks once, so that the board learns where it is and floods nothing.
    """
    if wiring.board is None or cable is None:
        return []
    talker = cable.talker.addresses[0].partition("/")[0]
    speak = ("ping", "-n", "-c", "1", "-W", "5", talker)
    commands = board_queues.commands(part, mode, wiring.board)
    return [
        Step("speak", LISTENER, speak, COMMAND_S),
        *numbered("shape", wiring.board.host, commands),
    ]


def _shaping(part: ShapingPart, mode: Mode, wiring: Wiring) -> list[Step]:
    """Return the steps that give the shaped port its queues; the software bridge has its own."""
    if wiring.switched and part.software_bridge:
        return []
    ((host, device),) = wiring.shaped
    commands = veth_queues.commands(part, mode, device)
    if host == INLINE_SWITCH:
        classes = {part.priority: part.priority, part.load_priority: part.load_priority}
        commands = [*qdisc.pin_queues(device, classes), *commands]
    return numbered("shape", host, commands)


def interval_ns(part: ShapingPart) -> int:
    """Return the talker's interval.

    With a spread, it differs from ``interval_us`` by a part of the spread that is irrational to
    it: places in the spread are then met evenly, in any number of datagrams, without chance.
    """
    return round((part.interval_us - (1 - _GOLDEN) * part.interval_spread_us) * 1000)


def _pacing(part: ShapingPart, mode: Mode) -> command.Pacing:
    cycle_ns = part.gates.cycle if part.gates else None
    if mode in LAUNCHED:
        assert cycle_ns is not None
        phase_ns = round(part.txtime_offset_us * 1000)
        return command.Pacing(round(part.interval_us * 1000), cycle_ns=cycle_ns, phase_ns=phase_ns)
    if not part.interval_spread_us:
        return command.Pacing(interval_ns(part), cycle_ns=cycle_ns, phase_ns=cycle_ns and 0)
    if cycle_ns and part.interval_spread_us * 1000 % cycle_ns:
        raise ConfigurationError(
            f"on hosts sends cannot spread over {part.interval_spread_us:g} us of a cycle of "
            f"{cycle_ns / 1000:g} us",
            f"shaping part {part.name}",
            "Give it an interval_spread_us of 0, in step with the gates, or of whole cycles",
        )
    return command.Pacing(interval_ns(part))


def _steps(part: ShapingPart, mode: Mode, wiring: Wiring) -> list[Step | Stop | Pause]:
    """Start what listens and what loads, let the talker send, end all and read the counters."""
    deadline = _deadline_s(part)
    loaded = part.loads_mbps[0] > 0
    loads = [nth("load", place) for place, _ in enumerate(wiring.loaders)] if loaded else []
    return [
        _listener(part, wiring, deadline),
        *_statistics(part, wiring, "before"),
        *(software_bridge.started(wiring, deadline) if part.software_bridge else []),
        *(_loads(part, wiring, deadline) if loaded else []),
        *([Pause(_lead_s(part, mode))] if loaded else []),
        *_sending(part, mode, wiring, deadline),
        *(Stop(load) for load in loads),
        Pause(_drain_s(part)),
        Stop("listener"),
        *([Stop("load-listener")] if loaded else []),
        *(software_bridge.stop(wiring) if part.software_bridge else []),
        *(frer_switches.ask() if wiring.replicated else []),
        *_statistics(part, wiring, "after"),
        *_board_cleared(wiring),
    ]


def _board_cleared(wiring: Wiring) -> list[Step]:
    if wiring.board is None:
        return []
    ((host, device),) = wiring.shaped
    return [Step("clear", host, tuple(board_queues.cleared(device)), COMMAND_S)]


def _statistics(part: ShapingPart, wiring: Wiring, when: str) -> list[Step]:
    """Return the step that reads the shaped port's counters; the software bridge prints its own."""
    if part.software_bridge:
        return []
    ((host, device),) = wiring.shaped
    return [Step(f"qdisc-{when}", host, tuple(qdisc.show(device)), COMMAND_S)]


def _listener(part: ShapingPart, wiring: Wiring, deadline: float) -> Step:
    listen = command.listener(
        str(streams.listener()),
        [_STREAM_PORT],
        command.StopCondition(),
        log=_LOG_PATH,
        timestamps=wiring.stamps,
        realtime=software_bridge.END_PRIORITY if part.software_bridge else None,
    )
    return replace(_listening("listener", listen, deadline), files=(_LOG_PATH,))


def _listening(name: str, argv: list[str], deadline: float) -> Step:
    """Return the step that listens; it runs once it has printed that it listens."""
    return Step(name, LISTENER, tuple(argv), deadline, background=True, ready=command.READY)


def _talker(part: ShapingPart, mode: Mode, wiring: Wiring, deadline: float) -> Step:
    # A launch time is what its frames are held against, not when they are handed over.
    stamped = mode not in LAUNCHED
    talk = command.talker(
        str(streams.talker()),
        wiring.to,
        _STREAM_PORT,
        _pacing(part, mode),
        command.StopCondition(count=part.packets),
        payload_bytes=part.payload_bytes,
        priority=part.priority,
        txtime_ahead_ns=_LAUNCH_AHEAD_NS if mode in LAUNCHED else None,
        log=_TALKER_LOG_PATH if stamped else None,
        timestamps="queued" if stamped else None,
    )
    if part.software_bridge:
        talk = software_bridge.in_time(talk)
    files = (_TALKER_LOG_PATH,) if stamped else ()
    return Step("talker", TALKER, tuple(talk), deadline, files=files)


def _sending(part: ShapingPart, mode: Mode, wiring: Wiring, deadline: float) -> list:
    """Return the steps during which the talker sends, and the gates are toggled where they are."""
    talker = _talker(part, mode, wiring, deadline)
    if part.toggles is None:
        return [talker]
    steps: list[Step | Stop | Pause] = [replace(talker, background=True)]
    for place in range(part.toggles):
        enable = place % 2 == 1
        toggling = software_bridge.toggle(wiring, _toggle(place), enable=enable)
        steps += [Pause(part.phase_s), *toggling]
    # It ends by itself, late by no more than programs are.
    return [*steps, Pause(part.phase_s + _LATENESS_S), Stop("talker")]


def _loads(part: ShapingPart, wiring: Wiring, deadline: float) -> list[Step]:
    """Return the steps that load every shaped port, each to a port of the listener's."""
    ports = [_LOAD_PORT + place for place, _ in enumerate(wiring.loaders)]
    listen = command.listener(
        str(streams.listener()), ports, command.StopCondition(), buffer_bytes=_LOAD_BUFFER_BYTES
    )
    steps = [_listening("load-listener", listen, deadline)]
    for place, (host, port) in enumerate(zip(wiring.loaders, ports, strict=True)):
        talk = command.talker(
            str(streams.talker()),
            wiring.to,
            port,
            command.Pacing.at_rate(part.loads_mbps[0], part.load_payload_bytes),
            command.StopCondition(),
            payload_bytes=part.load_payload_bytes,
            priority=part.load_priority,
        )
        steps.append(Step(nth("load", place), host, tuple(talk), deadline, background=True))
    return steps
