"""Shaping by commands on hosts: topology, queueing disciplines and programs of a trial, as data.

Every command is a step of a job (:mod:`tsnrepro.testbed.jobs.job`), the same text that an SSH host
would get.

veth sends at no rate of its own. In every mode all frames therefore pass one token bucket, the
*line*, on a bridge of its own between the shaped port and the listener. The port itself has to
send no faster, or queues would stand in the line, where no mode has a say: a bucket above the
scheduler where one qdisc can hold it, below each class where it cannot (taprio, mqprio). There

- gates close a frame's time on the line before their window ends, since the kernel's own guard
  band is that of veth's 10 Gb/s (``guard_band``);
- with launch times or separate queues alone (etf, mqprio) nothing arbitrates between classes, so
  the load's bucket has what the stream leaves of the line.

Where the switch is the software bridge, it does all that itself: it holds its port to the line's
rate and closes frames' gates in time, so that its port has no queueing disciplines. Frames are
tagged by eBPF then, which needs no VLAN devices of the kernel.

Between two network cards that a cable joins nothing stands in for anything: the talker's card
shapes (:mod:`tsnrepro.experiments.shaping.card_queues`), and the cable is the line.

Egress is told by the kernel's receive stamp behind the line, at the frame's first bit, late by the
few microseconds of bridge and network stack.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from tsnrepro.bridge import build as software_bridge
from tsnrepro.bridge import counters as bridge_counters
from tsnrepro.bridge import words as bridge_words
from tsnrepro.bridge.words import BridgeSettings, PortSettings, Shaper
from tsnrepro.errors import ConfigurationError, ToolError
from tsnrepro.ethernet import VLAN_TAG_BYTES
from tsnrepro.experiments.shaping import card_queues
from tsnrepro.experiments.shaping.factors import part_of
from tsnrepro.experiments.shaping.log import LOG, compress
from tsnrepro.experiments.shaping.schedule import flows_of, smallest_window_ns
from tsnrepro.registry import EMULATED, GUEST
from tsnrepro.settings.shaping import LAUNCHED
from tsnrepro.streams import build, command
from tsnrepro.streams.log import read_listener_log
from tsnrepro.testbed.jobs.job import (
    Bridge,
    Cable,
    Job,
    JobResult,
    Link,
    LinkEnd,
    Pause,
    Step,
    Stop,
    Vlan,
)
from tsnrepro.tools import qdisc

if TYPE_CHECKING:
    from tsnrepro.experiments.measurement import Measurement
    from tsnrepro.records.store import Trial
    from tsnrepro.settings.shaping import Mode, ShapingPart
    from tsnrepro.testbed.protocol import JobTestbed

TALKER, LISTENER, _LOADER, _SWITCH, LINE = "talker", "listener", "loader", "sw", "line"
_DEVICE, _TO_LINE, _LINE_IN, _LINE_OUT = "eth0", "p0", "p0", "p1"
_VLAN_ID = 10
_ADDRESSES = {TALKER: "10.0.0.1", LISTENER: "10.0.0.2", _LOADER: "10.0.0.3"}
_STREAM_PORT, _LOAD_PORT = 5005, 5006
_LOG_PATH = "/tmp/stream.log"
_SETTINGS_PATH, _TAGGER_PATH = "/tmp/bridge.settings", "/tmp/tag.bpf.o"

# The load fills queues and sockets before the stream starts; the last datagrams come in after it.
_LEAD_S, _DRAIN_S = 0.2, 0.5
_COMMAND_S = 10.0
_LOAD_BUFFER_BYTES = 8_000_000
# Without a card that holds packets until their launch, etf lets each go this long before it; one
# that its timer wakes later than the launch is dropped. The talker hands packets over well before.
_ETF_DELTA_NS, _LAUNCH_AHEAD_NS = 20_000, 1_000_000
# Besides one frame, what a token bucket may send at once: a timer late by less costs no rate.
_BURST_SLACK_BYTES = 250
_GOLDEN = (5**0.5 - 1) / 2

_WALL_SECONDS = 400.0
# Kernel timers open gates late by 2 to 3 us, and the bridge takes a few more to the stamp.
_STAMP_UNCERTAINTY_NS = 10_000
# A card stamps a frame's beginning; the cable and both cards' latencies stay below this.
_CARD_UNCERTAINTY_NS = 1000.0
# Kinds of testbeds whose links are a job's own.
_OF_VETH = (EMULATED, GUEST)


@dataclass(frozen=True)
class _Topology:
    """Links and bridges of a kind of part, where its shaped port is, and who sends the load."""

    links: tuple[Link, ...]
    bridges: tuple[Bridge, ...]
    shaped: tuple[str, str]
    """Host and device."""
    load_from: str
    line: tuple[str, str] | None = (LINE, _LINE_OUT)
    """Host and device of the token bucket that stands for the line; a real cable needs none."""
    to: str = _ADDRESSES["listener"]
    """The listener's address."""
    stamps: command.Stamps = "software"
    """What stamps the stream's arrivals."""


def measure(testbed: JobTestbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial by a job; the record keeps every command, log and counter."""
    part, mode = part_of(trial.factors), trial.factors["mode"]
    seed = int(trial.digest, 16) % (1 << 31)
    job = job_of(part, mode, seed, testbed.cable)
    measured.outputs["job.json.gz"] = json.dumps(job.describe(), indent=1)
    result: JobResult = testbed.run(job)
    _keep(result, measured)
    result.check()
    log = read_listener_log(result.file(_LOG_PATH))
    measured.outputs[LOG] = compress(log)
    measured.values |= {
        "seed": seed,
        "medium": f"{testbed.kind} veth" if testbed.kind in _OF_VETH else "network cards",
        "egress": _egress_of(testbed.cable, result),
        "guest" if testbed.kind == "guest" else "machine": result.describe(),
        **_counts_of(part, result),
    }


def _egress_of(cable: Cable | None, result: JobResult) -> dict[str, Any]:
    """Return where egress times come from and how well they are known."""
    source, uncertainty_ns = "kernel receive stamp behind the line", float(_STAMP_UNCERTAINTY_NS)
    if cable is not None and cable.stamps == "hardware":
        source, uncertainty_ns = "receive stamp of the listener's card", _CARD_UNCERTAINTY_NS
    # Clocks apart add what linuxptp leaves of doubt.
    uncertainty_ns += max((each.uncertainty_ns for each in result.clocks or ()), default=0.0)
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


def _counts_of(part: ShapingPart, result: JobResult) -> dict[str, Any]:
    """Return the accounts of stream and load and what the shaped port's qdiscs counted."""
    sent = command.parse_talker(result.steps["talker"].stdout)
    got = command.parse_listener(result.steps["listener"].stdout).stream(_STREAM_PORT)
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
        "qdiscs": [] if _bridged(part) else _counted(result, "qdisc"),
        "line": _counted(result, "line") if "line-before" in result.steps else [],
        **(_bridge_counts(result) if _BRIDGE in result.steps else {}),
    }


def _bridge_counts(result: JobResult) -> dict[str, Any]:
    counted = bridge_counters.parse(result.steps[_BRIDGE].stdout)
    return {"bridge": bridge_counters.describe(counted)}


def _counted(result: JobResult, name: str) -> list[dict[str, Any]]:
    before, after = (
        qdisc.parse_statistics(result.steps[f"{name}-{when}"].stdout)
        for when in ("before", "after")
    )
    return qdisc.counted_between(before, after)


def _load_rates(result: JobResult) -> dict[str, float]:
    sent = command.parse_talker(result.steps["load"].stdout)
    got = command.parse_listener(result.steps["load-listener"].stdout).stream(_LOAD_PORT)
    if sent.first_ns is None or sent.last_ns is None or sent.last_ns == sent.first_ns:
        raise ToolError("the load sent less than two datagrams", "step load")
    seconds = (sent.last_ns - sent.first_ns) / 1e9
    bits = sent.payload_bytes * 8 / seconds / 1e6
    return {"load_offered_mbps": sent.sent * bits, "load_delivered_mbps": got.unique * bits}


# --- the job ----------------------------------------------------------------------------------


def job_of(part: ShapingPart, mode: Mode, seed: int, cable: Cable | None = None) -> Job:
    """Return everything that a trial does, from links to the last counter.

    Parameters
    ----------
    part, mode
        What is measured.
    seed
        Of the moment at which the steps begin.
    cable
        Between two cards that are there; by default the job makes links of its own.

    Raises
    ------
    ConfigurationError
        The part is of a kind that takes another testbed.
    """
    topology = _cabled(cable) if cable else _topology_of(part, mode)
    programs = build.programs()
    names = [str(programs.talker), str(programs.listener)]
    inputs = {}
    if _bridged(part):
        names.append(str(software_bridge.bridge()))
        inputs[_TAGGER_PATH] = software_bridge.tagger().read_bytes()
        inputs[_SETTINGS_PATH] = bridge_settings(part, mode).text().encode()
    return Job(
        name=f"shaping {part.name} {mode}",
        links=topology.links,
        bridges=topology.bridges,
        configure=tuple(_configuration(part, mode, topology, cable)),
        steps=tuple(_steps(part, mode, topology)),
        programs=tuple(names),
        inputs=inputs,
        seed=seed,
        deadline_s=_WALL_SECONDS,
    )


def _cabled(cable: Cable) -> _Topology:
    """Return the two hosts and the cable between them; the talker's own card shapes."""
    return _Topology(
        (Link(cable.talker, cable.listener),),
        (),
        (TALKER, cable.talker.device),
        TALKER,
        line=None,
        to=cable.listener.addresses[0].partition("/")[0],
        stamps=cable.stamps,
    )


def _topology_of(part: ShapingPart, mode: Mode) -> _Topology:
    """Return the hosts and links of a part; ``direct`` has no switch."""
    if part.kind == "tas-frer":
        raise ConfigurationError(
            "FRER behind gates is not built of namespaces",
            f"shaping part {part.name}",
            "Give it testbeds: {model: {}}",
        )
    line = Bridge(LINE, (_LINE_IN, _LINE_OUT))
    out = Link(LinkEnd(LINE, _LINE_OUT, mtu=_MTU), _end(part, LISTENER))
    if part.kind == "end-station" or mode == "direct":
        link = Link(_end(part, TALKER), LinkEnd(LINE, _LINE_IN, mtu=_MTU))
        return _Topology((link, out), (line,), (TALKER, _DEVICE), TALKER)
    names = {TALKER: "p1", _LOADER: "p2"}
    links = tuple(
        Link(_end(part, host), LinkEnd(_SWITCH, device, mtu=_MTU)) for host, device in names.items()
    )
    last = Link(LinkEnd(_SWITCH, _TO_LINE, mtu=_MTU), LinkEnd(LINE, _LINE_IN, mtu=_MTU))
    switches = () if _bridged(part) else (Bridge(_SWITCH, (*names.values(), _TO_LINE)),)
    return _Topology((*links, last, out), (*switches, line), (_SWITCH, _TO_LINE), _LOADER)


_MTU = 1504  # a tagged frame of a full packet


def _end(part: ShapingPart, host: str) -> LinkEnd:
    address = (f"{_ADDRESSES[host]}/24",)
    if part.tagged and not _bridged(part):
        return LinkEnd(host, _DEVICE, vlans=(Vlan(_VLAN_ID, address),), mtu=_MTU)
    return LinkEnd(host, _DEVICE, address)


def _configuration(
    part: ShapingPart, mode: Mode, topology: _Topology, cable: Cable | None
) -> list[Step]:
    host, device = topology.shaped
    if cable:
        return _numbered("shape", host, card_queues.commands(part, mode, device, cable.chip))
    commands = _shaping_commands(part, mode, device)
    wired = [("line", LINE, _LINE_OUT)]
    tagged = sorted({TALKER, LISTENER, topology.load_from}) if _bridged(part) else []
    if host == _SWITCH and _bridged(part):
        commands = []
    elif host == _SWITCH:
        classes = {part.priority: part.priority, part.load_priority: part.load_priority}
        commands = [*qdisc.pin_queues(device, classes), *commands]
    if host == _SWITCH:
        wired += [("wire-talker", TALKER, _DEVICE), ("wire-loader", _LOADER, _DEVICE)]
    return [
        *(
            step
            for name in tagged
            for step in _numbered(
                f"tag-{name}",
                name,
                qdisc.tag_by_priority(_DEVICE, _TAGGER_PATH),
            )
        ),
        *_numbered("shape", host, commands),
        *(step for name, at, port in wired for step in _numbered(name, at, [_wire(part, port)])),
    ]


def _numbered(name: str, host: str, commands: Sequence[list[str]]) -> list[Step]:
    return [
        Step(f"{name}-{number}", host, tuple(argv), _COMMAND_S)
        for number, argv in enumerate(commands, 1)
    ]


def _uncounted_bytes(part: ShapingPart) -> int:
    """Return what a qdisc does not count of a frame; a tag stands beside it, not in it."""
    return qdisc.UNCOUNTED_BYTES + (VLAN_TAG_BYTES if part.tagged else 0)


def _wire(
    part: ShapingPart,
    device: str,
    rate_mbps: float | None = None,
    *,
    parent: str = "root",
    handle: str = "1:",
) -> list[str]:
    """Return the command that holds a port or a class to the line's rate, or to another."""
    longest = max(max(flow.wire_bytes) for flow in flows_of(part))
    return qdisc.tbf(
        device,
        part.link_rate_mbps if rate_mbps is None else rate_mbps,
        burst_bytes=longest + _BURST_SLACK_BYTES,
        limit_bytes=part.queue_bytes,
        overhead_bytes=_uncounted_bytes(part),
        parent=parent,
        handle=handle,
    )


# --- the software bridge ----------------------------------------------------------------------

_BRIDGE = "bridge"
# Frames may be handed over so far ahead of their time on the line, which holds them: a thread that
# wakes up late by less costs the line nothing.
_AHEAD_US = 50.0
_LONGEST_SLEEP_US = 200


def _bridged(part: ShapingPart) -> bool:
    return part.switch == "bridge"


def bridge_settings(part: ShapingPart, mode: Mode) -> BridgeSettings:
    """Return what the software bridge is told for a mode: the port to the line shapes."""
    assert mode != "cbs" or part.idle_slope_mbps is not None
    shapers = {part.priority: Shaper(part.idle_slope_mbps or 0.0)} if mode == "cbs" else {}
    plain = PortSettings(
        rate_mbps=part.link_rate_mbps, queue_bytes=part.queue_bytes, ahead_us=_AHEAD_US
    )
    shaped = replace(
        plain,
        gates=part.gates if mode == "tas" else None,
        guard="frame" if part.gates is None or part.gates.guard_band else "none",
        shapers=shapers,
    )
    return BridgeSettings(
        every_port=plain,
        ports={_TO_LINE: shaped},
        # Without priorities all frames are of one class.
        classes=[(None, pcp, 0) for pcp in range(8)] if mode == "fifo" else [],
        sleep_us=_LONGEST_SLEEP_US,
        realtime=True,
    )


def _bridge_steps(topology: _Topology, deadline: float) -> list[Step | Stop | Pause]:
    """Start the bridge, and go on when it answers: it forwards from then on."""
    program = str(software_bridge.bridge())
    ports = [
        end.device
        for link in topology.links
        for end in (link.one, link.other)
        if end.host == _SWITCH
    ]
    run = bridge_words.command(program, _SETTINGS_PATH, ports)
    ask = bridge_words.ask(program, "counters")
    return [
        Step(_BRIDGE, _SWITCH, tuple(run), deadline, background=True),
        Step(f"{_BRIDGE}-before", _SWITCH, tuple(ask), _COMMAND_S),
    ]


# --- queueing disciplines ---------------------------------------------------------------------


def _shaping_commands(part: ShapingPart, mode: Mode, device: str) -> list[list[str]]:
    """Return the commands that give a veth port a mode, in software; see the module's head."""
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
        taprio = qdisc.taprio(
            device,
            gate_entries(part),
            base_time_ns=part.gates.base_time_ns,
            cycle_time_ns=part.gates.cycle,
        )
        classes = sorted({part.priority, part.load_priority})
        return [taprio, *(_class_wire(part, device, number) for number in classes)]
    stream, wire_ns = flows_of(part)[0], part.interval_us * 1000
    left_mbps = part.link_rate_mbps - sum(stream.wire_bytes) * 8000 / wire_ns
    return [
        qdisc.mqprio(device),
        _class_wire(part, device, part.load_priority, left_mbps),
        qdisc.etf(device, f"100:{part.priority + 1}", delta_ns=_ETF_DELTA_NS)
        if mode == "etf"
        else _class_wire(part, device, part.priority),
    ]


def gate_entries(part: ShapingPart) -> list[tuple[int, int]]:
    """Return the masks and intervals (ns) of a part's gates, guard bands of the line included."""
    assert part.gates is not None
    gates, rate = part.gates, part.link_rate_mbps
    if not gates.guard_band:
        return [(entry.mask, entry.interval_ns) for entry in gates.entries]
    closed = {}
    for flow in flows_of(part):
        if not gates.always_open(flow.traffic_class):
            guard = smallest_window_ns(flow, rate)
            closed[flow.traffic_class] = [
                (until - guard, until) for _, until in gates.windows_ns(flow.traffic_class)
            ]
    starts = [0, *accumulate(entry.interval_ns for entry in gates.entries)]
    edges = {*starts, *(edge % gates.cycle for band in closed.values() for e in band for edge in e)}
    entries = []
    for begin, end in pairwise(sorted(edges)):
        mask = gates.entries[bisect_right(starts, begin) - 1].mask
        for number, bands in closed.items():
            if any(a <= begin + turn < b for a, b in bands for turn in (0, gates.cycle)):
                mask &= ~(1 << number)
        entries.append((mask, end - begin))
    return entries


def _class_wire(
    part: ShapingPart, device: str, traffic_class: int, rate_mbps: float | None = None
) -> list[str]:
    parent, handle = f"100:{traffic_class + 1}", f"{11 + traffic_class}:"
    return _wire(part, device, rate_mbps, parent=parent, handle=handle)


def _credits(part: ShapingPart) -> qdisc.Credits:
    """Return cbs's parameters: slopes against the speed that veth claims, credit for the line."""
    assert part.idle_slope_mbps is not None
    wires = [max(flow.wire_bytes) for flow in flows_of(part)]
    return qdisc.credits_of(
        part.idle_slope_mbps,
        part.link_rate_mbps,
        frame_wire_bytes=wires[0],
        interference_wire_bytes=wires[-1],
        kernel_mbps=qdisc.VETH_MBPS,
        uncounted_bytes=_uncounted_bytes(part),
    )


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
        phase_ns = round(part.launch_phase_us * 1000)
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


def _steps(part: ShapingPart, mode: Mode, topology: _Topology) -> list[Step | Stop | Pause]:
    programs = build.programs()
    host, device = topology.shaped
    shows = {} if _bridged(part) else {"qdisc": (host, tuple(qdisc.show(device)))}
    if topology.line:
        shows["line"] = (topology.line[0], tuple(qdisc.show(topology.line[1])))
    seconds = part.packets * part.interval_us / 1e6
    deadline = seconds + _LEAD_S + _DRAIN_S + 2 * _COMMAND_S
    forever = command.Extent()
    listen = command.listener(
        str(programs.listener), [_STREAM_PORT], forever, log=_LOG_PATH, timestamps=topology.stamps
    )
    talk = command.talker(
        str(programs.talker),
        topology.to,
        _STREAM_PORT,
        _pacing(part, mode),
        command.Extent(count=part.packets),
        payload_bytes=part.payload_bytes,
        priority=part.priority,
        txtime_ahead_ns=_LAUNCH_AHEAD_NS if mode in LAUNCHED else None,
    )
    has_bridge = _bridged(part) and host == _SWITCH
    steps: list[Step | Stop | Pause] = [
        *(_bridge_steps(topology, deadline) if has_bridge else []),
        Step("listener", LISTENER, tuple(listen), deadline, background=True, files=(_LOG_PATH,)),
        *(Step(f"{name}-before", *show, _COMMAND_S) for name, show in shows.items()),
    ]
    loaded = part.loads_mbps[0] > 0
    if loaded:
        steps += _load(part, topology, deadline)
    steps += [Pause(_LEAD_S), Step("talker", TALKER, tuple(talk), deadline)]
    if loaded:
        steps += [Stop("load")]
    steps += [Pause(_DRAIN_S), Stop("listener"), *([Stop("load-listener")] if loaded else [])]
    steps += [Stop(_BRIDGE)] if has_bridge else []
    return [*steps, *(Step(f"{name}-after", *show, _COMMAND_S) for name, show in shows.items())]


def _load(part: ShapingPart, topology: _Topology, deadline: float) -> list[Step | Stop | Pause]:
    programs = build.programs()
    listen = command.listener(
        str(programs.listener),
        [_LOAD_PORT],
        command.Extent(),
        buffer_bytes=_LOAD_BUFFER_BYTES,
    )
    talk = command.talker(
        str(programs.talker),
        topology.to,
        _LOAD_PORT,
        command.Pacing.at_rate(part.loads_mbps[0], part.load_payload_bytes),
        command.Extent(),
        payload_bytes=part.load_payload_bytes,
        priority=part.load_priority,
    )
    return [
        Step("load-listener", LISTENER, tuple(listen), deadline, background=True),
        Step("load", topology.load_from, tuple(talk), deadline, background=True),
    ]
