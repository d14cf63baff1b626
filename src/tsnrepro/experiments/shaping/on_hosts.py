"""Shaping by commands on hosts: topology, queueing disciplines and programs of a trial, as data.

Every command is a step of a job (:mod:`tsnrepro.testbed.jobs.job`), the same text that an SSH host
would get. Egress is told by the kernel's receive stamp at the other end of the shaped port's link:
veth takes no time, so the stamp is the departure, late by the network stack's few microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tsnrepro.errors import ConfigurationError, ToolError
from tsnrepro.experiments.shaping.factors import part_of
from tsnrepro.experiments.shaping.log import LOG, compress
from tsnrepro.experiments.shaping.schedule import flows_of
from tsnrepro.streams import build, command
from tsnrepro.streams.log import read_listener_log
from tsnrepro.testbed.jobs.job import Bridge, Job, JobResult, Link, Pause, Port, Step, Stop, Vlan
from tsnrepro.tools import qdisc

if TYPE_CHECKING:
    from tsnrepro.experiments.run import Measurement
    from tsnrepro.records.store import Trial
    from tsnrepro.settings.shaping import Mode, ShapingPart

TALKER, LISTENER, LOADER, SWITCH = "talker", "listener", "loader", "sw"
DEVICE, TO_LISTENER = "eth0", "p0"
VLAN_ID = 10
ADDRESSES = {TALKER: "10.0.0.1", LISTENER: "10.0.0.2", LOADER: "10.0.0.3"}
STREAM_PORT, LOAD_PORT = 5005, 5006
LOG_PATH = "/tmp/stream.log"

# The load fills queues and sockets before the stream starts; the last datagrams come in after it.
LEAD_S, DRAIN_S = 0.2, 0.5
COMMAND_S = 10.0
LOAD_BUFFER_BYTES = 4_000_000
# Without a card that holds packets until their launch, etf lets each go this long before it; one
# that its timer wakes later than the launch is dropped. The talker hands packets over well before.
ETF_DELTA_NS, LAUNCH_AHEAD_NS = 20_000, 1_000_000
# What a token bucket may send at once after idling: a frame with its tag.
BURST_BYTES = 1600
GOLDEN = (5**0.5 - 1) / 2

WALL_SECONDS = 400.0
# Kernel timers open gates late by 2 to 3 us, and the stack takes a few more to the stamp.
STAMP_UNCERTAINTY_NS = 5000


@dataclass(frozen=True)
class Topology:
    """Links and bridges of a kind of part, and where its shaped port is."""

    links: tuple[Link, ...]
    bridges: tuple[Bridge, ...]
    shaped: tuple[str, str]
    """Host and device."""
    load_from: str


def measure(testbed: Any, trial: Trial, measured: Measurement) -> None:
    """Measure one trial by a job; the record keeps every command, log and counter."""
    part, mode = part_of(trial.factors), trial.factors["mode"]
    seed = int(trial.digest, 16) % (1 << 31)
    job = job_of(part, mode, seed)
    measured.outputs["job.json.gz"] = json.dumps(job.describe(), indent=1)
    result: JobResult = testbed.run(job)
    _keep(result, measured)
    result.check()
    log = read_listener_log(result.file(LOG_PATH))
    measured.outputs[LOG] = compress(log)
    measured.values |= {
        "seed": seed,
        "medium": f"{testbed.kind} veth",
        "egress": {
            "source": "kernel receive stamp at the link's other end",
            "before_stamp_ns": 0,
            "frame_ns": 0,
            "uncertainty_ns": STAMP_UNCERTAINTY_NS,
        },
        "guest" if testbed.kind == "guest" else "machine": result.describe(),
        **counts_of(part, result),
    }


def _keep(result: JobResult, measured: Measurement) -> None:
    """Keep what every step printed, whether or not it succeeded."""
    for name, done in result.steps.items():
        measured.commands.append(
            {
                "host": done.host,
                "argv": list(done.argv),
                "exit_status": done.exit_status,
                "started_s": done.started_s,
                "seconds": done.seconds,
            }
        )
        if done.stdout:
            measured.outputs[f"{name}.txt"] = done.stdout
        if done.stderr:
            measured.outputs[f"{name}.stderr.txt"] = done.stderr


def counts_of(part: ShapingPart, result: JobResult) -> dict[str, Any]:
    """Return the accounts of stream and load and what the shaped port's qdiscs counted."""
    sent = command.parse_talker(result.steps["talker"].stdout)
    got = command.parse_listener(result.steps["listener"].stdout).stream(STREAM_PORT)
    before = qdisc.parse_statistics(result.steps["qdisc-before"].stdout)
    after = qdisc.parse_statistics(result.steps["qdisc-after"].stdout)
    loads = {"load_offered_mbps": 0.0, "load_delivered_mbps": 0.0}
    if part.loads_mbps[0] > 0:
        loads = _load_rates(result)
    return {
        "result": {
            "sent": sent.sent,
            "received": got.unique,
            "lost": sent.sent - got.unique,
            "out_of_order": got.out_of_order,
            **loads,
        },
        "talker": asdict(sent),
        "listener": asdict(got),
        "qdiscs": qdisc.counted_between(before, after),
    }


def _load_rates(result: JobResult) -> dict[str, float]:
    sent = command.parse_talker(result.steps["load"].stdout)
    got = command.parse_listener(result.steps["load-listener"].stdout).stream(LOAD_PORT)
    if sent.first_ns is None or sent.last_ns is None or sent.last_ns == sent.first_ns:
        raise ToolError("the load sent less than two datagrams", "step load")
    seconds = (sent.last_ns - sent.first_ns) / 1e9
    bits = sent.payload_bytes * 8 / seconds / 1e6
    return {"load_offered_mbps": sent.sent * bits, "load_delivered_mbps": got.unique * bits}


# --- the job ----------------------------------------------------------------------------------


def job_of(part: ShapingPart, mode: Mode, seed: int) -> Job:
    """Return everything that a trial does, from links to the last counter.

    Raises
    ------
    ConfigurationError
        The part is of a kind that takes another testbed.
    """
    topology = topology_of(part, mode)
    programs = build.programs()
    return Job(
        name=f"shaping {part.name} {mode}",
        links=topology.links,
        bridges=topology.bridges,
        configure=tuple(_configuration(part, mode, topology)),
        steps=tuple(_steps(part, mode, topology)),
        programs=(str(programs.talker), str(programs.listener)),
        seed=seed,
        deadline_s=WALL_SECONDS,
    )


def topology_of(part: ShapingPart, mode: Mode) -> Topology:
    """Return the hosts and links of a part; ``direct`` has no switch."""
    if part.kind == "tas-frer":
        raise ConfigurationError(
            "FRER behind gates is not built of namespaces",
            f"shaping part {part.name}",
            "Give it testbeds: [model]",
        )
    if part.kind == "end-station" or mode == "direct":
        link = Link(_end(part, TALKER), _end(part, LISTENER))
        return Topology((link,), (), (TALKER, DEVICE), TALKER)
    names = {TALKER: "p1", LOADER: "p2", LISTENER: TO_LISTENER}
    links = tuple(
        Link(_end(part, host), Port(SWITCH, device, mtu=_MTU)) for host, device in names.items()
    )
    bridge = Bridge(SWITCH, tuple(names.values()))
    return Topology(links, (bridge,), (SWITCH, TO_LISTENER), LOADER)


_MTU = 1504  # a tagged frame of a full packet


def _end(part: ShapingPart, host: str) -> Port:
    address = (f"{ADDRESSES[host]}/24",)
    if part.tagged:
        return Port(host, DEVICE, vlans=(Vlan(VLAN_ID, address),), mtu=_MTU)
    return Port(host, DEVICE, address)


def _configuration(part: ShapingPart, mode: Mode, topology: Topology) -> list[Step]:
    host, device = topology.shaped
    commands = shaping_commands(part, mode, device)
    if host == SWITCH:
        classes = {part.priority: part.priority, part.load_priority: part.load_priority}
        commands = [*qdisc.pin_queues(device, classes), *commands]
        return [
            *_numbered("shape", host, commands),
            *_numbered("wire-talker", TALKER, [_wire(part, DEVICE)]),
            *_numbered("wire-loader", LOADER, [_wire(part, DEVICE)]),
        ]
    return _numbered("shape", host, commands)


def _numbered(name: str, host: str, commands: Sequence[list[str]]) -> list[Step]:
    return [
        Step(f"{name}-{number}", host, tuple(argv), COMMAND_S)
        for number, argv in enumerate(commands, 1)
    ]


def _wire(part: ShapingPart, device: str) -> list[str]:
    return qdisc.tbf(
        device, part.link_rate_mbps, burst_bytes=BURST_BYTES, limit_bytes=part.queue_bytes
    )


def shaping_commands(part: ShapingPart, mode: Mode, device: str) -> list[list[str]]:
    """Return the commands that give a veth port a mode, in software.

    veth sends at no rate of its own, so a token bucket stands for the line: above the queues
    where one qdisc can hold them all, below each class where gates or launch times come first.
    """
    if mode in ("fifo", "direct"):
        return [_wire(part, device)]
    if mode in ("prio", "cbs"):
        commands = [_wire(part, device), qdisc.prio(device, parent="1:1", handle="2:")]
        if mode == "cbs":
            # Band n of prio is class 2:(n + 1), and priority 7 is band 0.
            commands.append(qdisc.cbs(device, _credits(part), parent=f"2:{8 - part.priority}"))
        return commands
    if mode == "tas":
        assert part.gates is not None
        entries = [(entry.mask, entry.interval_ns) for entry in part.gates.entries]
        taprio = qdisc.taprio(
            device,
            entries,
            base_time_ns=part.gates.base_time_ns,
            cycle_time_ns=part.gates.cycle,
        )
        return [taprio, *_class_wires(part, device)]
    mqprio = qdisc.mqprio(device)
    if mode == "mqprio":
        return [mqprio, *_class_wires(part, device)]
    launch = qdisc.etf(device, f"100:{part.priority + 1}", delta_ns=ETF_DELTA_NS)
    return [mqprio, launch]


def _class_wires(part: ShapingPart, device: str) -> list[list[str]]:
    return [
        qdisc.tbf(
            device,
            part.link_rate_mbps,
            burst_bytes=BURST_BYTES,
            limit_bytes=part.queue_bytes,
            parent=f"100:{traffic_class + 1}",
            handle=f"{11 + traffic_class}:",
        )
        for traffic_class in sorted({part.priority, part.load_priority})
    ]


def _credits(part: ShapingPart) -> qdisc.Credits:
    """Return cbs's parameters against the speed that veth claims."""
    assert part.idle_slope_mbps is not None
    wires = [max(flow.wire_bytes) for flow in flows_of(part)]
    return qdisc.credits_of(
        part.idle_slope_mbps,
        qdisc.VETH_MBPS,
        frame_wire_bytes=wires[0],
        interference_wire_bytes=wires[-1],
    )


def interval_ns(part: ShapingPart) -> int:
    """Return the talker's interval.

    With a spread, it differs from ``interval_us`` by a part of the spread that is irrational to
    it: places in the spread are then met evenly, in any number of datagrams, without chance.
    """
    return round((part.interval_us - (1 - GOLDEN) * part.interval_spread_us) * 1000)


def _pacing(part: ShapingPart, mode: Mode) -> command.Pacing:
    if mode != "etf":
        return command.Pacing(interval_ns(part))
    assert part.gates is not None
    phase = round(part.launch_phase_us * 1000)
    return command.Pacing(round(part.interval_us * 1000), cycle_ns=part.gates.cycle, phase_ns=phase)


def _steps(part: ShapingPart, mode: Mode, topology: Topology) -> list[Step | Stop | Pause]:
    programs = build.programs()
    host, device = topology.shaped
    show = tuple(qdisc.show(device))
    seconds = part.packets * part.interval_us / 1e6
    deadline = seconds + LEAD_S + DRAIN_S + 2 * COMMAND_S
    forever = command.Extent()
    listen = command.listener(
        str(programs.listener), [STREAM_PORT], forever, log=LOG_PATH, timestamps="software"
    )
    talk = command.talker(
        str(programs.talker),
        ADDRESSES[LISTENER],
        STREAM_PORT,
        _pacing(part, mode),
        command.Extent(count=part.packets),
        payload_bytes=part.payload_bytes,
        priority=part.priority,
        txtime_ahead_ns=LAUNCH_AHEAD_NS if mode == "etf" else None,
    )
    steps: list[Step | Stop | Pause] = [
        Step("listener", LISTENER, tuple(listen), deadline, background=True, files=(LOG_PATH,)),
        Step("qdisc-before", host, show, COMMAND_S),
    ]
    loaded = part.loads_mbps[0] > 0
    if loaded:
        steps += _load(part, topology, deadline)
    steps += [Pause(LEAD_S), Step("talker", TALKER, tuple(talk), deadline)]
    if loaded:
        steps += [Stop("load")]
    steps += [Pause(DRAIN_S), Stop("listener"), *([Stop("load-listener")] if loaded else [])]
    return [*steps, Step("qdisc-after", host, show, COMMAND_S)]


def _load(part: ShapingPart, topology: Topology, deadline: float) -> list[Step | Stop | Pause]:
    programs = build.programs()
    listen = command.listener(
        str(programs.listener),
        [LOAD_PORT],
        command.Extent(),
        buffer_bytes=LOAD_BUFFER_BYTES,
    )
    talk = command.talker(
        str(programs.talker),
        ADDRESSES[LISTENER],
        LOAD_PORT,
        command.Pacing.at_rate(part.loads_mbps[0], part.load_payload_bytes),
        command.Extent(),
        payload_bytes=part.load_payload_bytes,
        priority=part.load_priority,
    )
    return [
        Step("load-listener", LISTENER, tuple(listen), deadline, background=True),
        Step("load", topology.load_from, tuple(talk), deadline, background=True),
    ]
