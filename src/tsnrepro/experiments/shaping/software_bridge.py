"""The software bridge as the switch of a shaping trial: its settings, commands and counters.

It holds its port to the line's rate and closes frames' gates in time itself, so that the port has
no queueing disciplines. Frames are tagged by eBPF, which needs no VLAN devices of the kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tsnrepro.common.ethernet import R_TAG_BYTES
from tsnrepro.common.topology import CARD, LISTENER
from tsnrepro.experiments.shaping.settings import TOGGLED, Mode
from tsnrepro.experiments.shaping.steps import COMMAND_S, nth, numbered
from tsnrepro.experiments.shaping.topology import VLAN_ID, Wiring
from tsnrepro.native import streams
from tsnrepro.native.bridge import counters, settings_file, tagger, tsn_bridge
from tsnrepro.native.bridge.settings_file import BridgeSettings, PortSettings, Shaper
from tsnrepro.native.streams.stalls import parse_stalls, stall_meter
from tsnrepro.testbeds.jobs.job import Step, Stop
from tsnrepro.tools import qdisc

if TYPE_CHECKING:
    from tsnrepro.experiments.shaping.settings import ShapingPart
    from tsnrepro.testbeds.jobs.job import JobResult

_NAME = "bridge"
_SETTINGS_PATH, _TAGGER_PATH = "/tmp/bridge.settings", "/tmp/tag.bpf.o"
# Settings of toggled gates, by whether they are enabled.
_STATES: dict[bool, tuple[str, Mode]] = {
    True: (_SETTINGS_PATH, "tas"),
    False: ("/tmp/bridge.disabled", "prio"),
}
_LONGEST_SLEEP_US = 200
# The bridge's threads run before ordinary programs, on processors that all share. A talker that
# had to wait for them would send what was due meanwhile at once, which is another stream, and a
# listener's wait would be taken for the network's. Both run before them, and sleep between
# datagrams.
END_PRIORITY = 2
_METER = "stallmeter"


def programs() -> list[str]:
    """Return the paths of the programs that a trial needs for it, built where they are missing."""
    return [_program(), _meter_program()]


def _program() -> str:
    return str(tsn_bridge())


def _meter_program() -> str:
    return str(streams.stallmeter())


def in_time(argv: list[str]) -> list[str]:
    """Return the command of a talker that sends when it is due, and not when it gets to run."""
    return ["chrt", "--fifo", str(END_PRIORITY), *argv]


def _meter(deadline_s: float) -> Step:
    """Return the step that meters stalls of the machine until it is stopped, see :func:`stalls`."""
    argv = tuple(stall_meter(_meter_program()))
    return Step(_METER, LISTENER, argv, deadline_s, background=True)


def stalls(result: JobResult) -> dict[str, Any]:
    """Return how the machine stalled, as other experiments record it."""
    return {LISTENER: parse_stalls(result.steps[_METER].stdout).values()}


def inputs(part: ShapingPart, mode: Mode, wiring: Wiring, listener: str) -> dict[str, bytes]:
    """Return the files that a trial needs; ``listener`` is the MAC address of its port."""
    modes: dict[str, Mode] = {_SETTINGS_PATH: mode}
    if mode == TOGGLED:
        modes = dict(_STATES.values())
    texts = {path: settings(part, each, wiring, listener).text() for path, each in modes.items()}
    files = {path: text.encode() for path, text in texts.items()}
    return files | {_TAGGER_PATH: tagger().read_bytes()}


def settings(part: ShapingPart, mode: Mode, wiring: Wiring, listener: str) -> BridgeSettings:
    """Return the bridge's settings for a mode: the port to the line shapes.

    The listener sends nothing that its address could be learned from.
    """
    assert mode != "cbs" or part.idle_slope_mbps is not None
    _, to_line = wiring.shaped[0]
    shapers = {part.priority: Shaper(part.idle_slope_mbps or 0.0)} if mode == "cbs" else {}
    plain = PortSettings(rate_mbps=part.link_rate_mbps, queue_bytes=part.queue_bytes)
    if wiring.replicated:
        plain = replace(plain, longest_bytes=plain.longest_bytes + R_TAG_BYTES)
    shaped = replace(
        plain,
        gates=part.gates if mode == "tas" else None,
        guard="frame" if part.gates is None or part.gates.guard_band else "none",
        shapers=shapers,
    )
    return BridgeSettings(
        every_port=plain,
        ports={to_line: shaped},
        # Without priorities all frames are of one class.
        classes=[(None, pcp, 0) for pcp in range(8)] if mode == "fifo" else [],
        addresses=[(listener, VLAN_ID, to_line)] if wiring.switched else [],
        sleep_us=_LONGEST_SLEEP_US,
        threads=part.threads,
        receivers=part.receivers,
        realtime=True,
    )


def tagging(wiring: Wiring) -> list[Step]:
    """Return the steps that give what hosts send a VLAN tag."""
    return [
        step
        for host in sorted({LISTENER, *wiring.senders})
        for step in numbered(f"tag-{host}", host, qdisc.tag_by_priority(CARD, _TAGGER_PATH))
    ]


def start(wiring: Wiring, deadline_s: float) -> list[Step]:
    """Return the steps that start the bridges, which takes DPDK a third of a second."""
    program = _program()
    return [
        Step(
            nth(_NAME, place),
            host,
            tuple(settings_file.command(program, _SETTINGS_PATH, wiring.devices(host))),
            deadline_s,
            background=True,
        )
        for place, host in enumerate(_hosts(wiring))
    ]


def started(wiring: Wiring, deadline_s: float) -> list[Step]:
    """Return the steps that wait for the bridges, and then meter stalls.

    Each forwards from when it answers. What starting and ending it takes of the machine is not
    metered: it holds a processor for 20 ms while nothing is sent.
    """
    ask = tuple(settings_file.query(_program(), "counters"))
    reading = [
        Step(f"{nth(_NAME, place)}-before", host, ask, COMMAND_S)
        for place, host in enumerate(_hosts(wiring))
    ]
    return [*reading, _meter(deadline_s)]


def toggle(wiring: Wiring, name: str, *, enable: bool) -> list[Step]:
    """Return the steps that enable or disable the gates while the bridge goes on."""
    path, _ = _STATES[enable]
    argv = tuple(settings_file.query(_program(), "settings", path))
    return [Step(name, host, argv, COMMAND_S) for host in _hosts(wiring)]


def stop(wiring: Wiring) -> list[Stop]:
    """Return the steps that end meter and bridges, which print what they counted then."""
    names = [nth(_NAME, place) for place, _ in enumerate(_hosts(wiring))]
    return [Stop(name) for name in (_METER, *names)]


def _hosts(wiring: Wiring) -> list[str]:
    return [host for host, _ in wiring.shaped] if wiring.switched else []


def counts_of(wiring: Wiring, result: JobResult) -> dict[str, Any]:
    """Return what each bridge counted, by its step's name."""
    names = [nth(_NAME, place) for place, _ in enumerate(_hosts(wiring))]
    return {name: counters.describe(counters.parse(result.steps[name].stdout)) for name in names}
