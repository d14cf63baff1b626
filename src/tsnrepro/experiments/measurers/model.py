"""Measuring on the model testbed: the network of a trial, simulated, in the records' terms."""

import json
from dataclasses import asdict

from tsnrepro.experiments.mausezahn import HEADERS_AND_FCS_BYTES, delay_us, target_pps
from tsnrepro.experiments.measurers.sleeping_generator import Sending, values
from tsnrepro.experiments.run import Measurement
from tsnrepro.model.engine import simulate
from tsnrepro.model.ethernet import TCP_SEGMENT_BYTES
from tsnrepro.model.network import Bursts, ConstantRate, Network, Stream, TcpBulk
from tsnrepro.model.result import Result, StreamResult
from tsnrepro.records.accounting import REASSEMBLY, SOCKET_BUFFER, Accounting
from tsnrepro.records.store import Trial
from tsnrepro.testbed.model import (
    LISTENER,
    LISTENER_LINK,
    TALKER,
    TALKER_LINK,
    ModelTestbed,
)
from tsnrepro.tools.iperf3 import TcpResult, UdpResult
from tsnrepro.tools.mausezahn import TIMER_SLACK_US

STREAM = "measured"


def run(
    testbed: ModelTestbed,
    trial: Trial,
    streams: list[Stream],
    measured: Measurement,
    duration_s: float | None = None,
) -> Result:
    """Simulate a trial with some streams; the record keeps network, seed and all counts.

    It lasts as its factors say unless another duration is given.
    """
    parameters = testbed.parameters(trial.repetition)
    network = testbed.network(parameters, streams)
    seed = seed_of(testbed, trial)
    measured.outputs["network.json.gz"] = network.model_dump_json(indent=1)
    measured.values |= {"parameters": asdict(parameters), "seed": seed}
    duration = float(duration_s or trial.factors["duration_s"])
    result = simulate(network, duration_s=duration, seed=seed)
    keep_counts(result, measured)
    return result


def seed_of(testbed: ModelTestbed, trial: Trial) -> int:
    """Return the seed of a trial's chances: each trial of a campaign has its own."""
    return int(trial.digest, 16) ^ testbed.seed


def keep_counts(result: Result, measured: Measurement) -> None:
    """Keep the counts of every port, stream and recovery function."""
    counts = {
        "ended_s": result.ended_s,
        "streams": {name: asdict(s.frames) for name, s in result.streams.items()},
        "ports": {
            name: {
                "busy_ps": port.busy_ps,
                "peak_queue_bytes": port.peak_queue_bytes,
                "streams": [asdict(part) for part in port.streams],
            }
            for name, port in result.ports.items()
        },
        "recoveries": [asdict(recovery) for recovery in result.recoveries],
    }
    measured.outputs["counts.json.gz"] = json.dumps(counts, indent=1)


def udp_bursts(testbed: ModelTestbed, trial: Trial, measured: Measurement) -> None:
    """Send as iperf3 does: bursts on a timer's ticks."""
    factors = trial.factors
    stream = Stream(
        name=STREAM,
        talker=TALKER,
        listener=LISTENER,
        payload_bytes=factors["payload_bytes"],
        send=Bursts(rate_mbps=float(factors["rate_mbps"])),
        route=testbed.route(factors["configuration"]),
    )
    result = run(testbed, trial, [stream], measured)
    udp = udp_result(result.streams[STREAM], float(factors["duration_s"]))
    accounting = account(result.network, result.streams[STREAM], result)
    measured.values |= {
        "result": asdict(udp) | {"lost": udp.lost},
        "accounting": asdict(accounting) | {"unaccounted": accounting.unaccounted},
        "recovery": recovery_of(result, STREAM),
    }


def udp_result(stream: StreamResult, duration_s: float) -> UdpResult:
    """Return a stream's counts as a UDP test reports them. Jitter is not modelled."""
    return UdpResult(
        sent=stream.entered,
        received=stream.unique,
        out_of_order=stream.out_of_order,
        payload_bytes=stream.payload_bytes,
        send_seconds=duration_s,
        jitter_ms=None,
        offered_mbps=stream.offered_mbps(duration_s),
        delivered_mbps=stream.goodput_mbps(duration_s),
    )


def recovery_of(result: Result, stream: str) -> dict[str, int] | None:
    """Return the clause 10 counters of a stream's recovery function, None without one."""
    found = [r.counters for r in result.recoveries if (r.stream, r.member) == (stream, None)]
    return found[0] if found else None


def account(network: Network, stream: StreamResult, result: Result) -> Accounting:
    """Return where a stream's frames went, by the places of the emulated testbed.

    Counted are frames: datagrams, unless a datagram is several frames.
    """
    ledger, parts = stream.frames, stream.fragments
    drops = {"talker socket": 0, "talker queue": _at(ledger.queue_drops, f"{TALKER}:{TALKER_LINK}")}
    members = [link.name for link in network.links if (link.a, link.b) == ("sw1", "sw2")]
    for member in members:
        drops[f"sw1 queue {member}"] = _at(ledger.queue_drops, f"sw1:{member}")
        lost = _at(ledger.lost_random, f"sw1:{member}") + _at(ledger.lost_down, f"sw1:{member}")
        drops[f"path {member}"] = lost
    drops["sw2 queue p0"] = _at(ledger.queue_drops, f"sw2:{LISTENER_LINK}")
    refused = recovery_of(result, stream.name) or {}
    drops["recovery: rogue"] = refused.get("rogue", 0)
    drops["recovery: tagless"] = refused.get("tagless", 0)
    drops["listener card"] = ledger.nic_drops
    drops[SOCKET_BUFFER] = stream.receiver_socket_drops * parts
    read = stream.delivered * parts
    drops[REASSEMBLY] = ledger.taken - read - drops[SOCKET_BUFFER]
    drops["still on the way"] = ledger.left
    return Accounting(
        sent=ledger.entered,
        copies=ledger.copied,
        received=read,
        eliminated=ledger.eliminated - drops["recovery: rogue"] - drops["recovery: tagless"],
        drops=drops,
    )


def _at(counts: dict[str, int], place: str) -> int:
    return counts.get(place, 0)


def tcp_bulk(testbed: ModelTestbed, trial: Trial, measured: Measurement) -> None:
    """Transfer as fast as the windows allow."""
    configuration, duration = trial.factors["configuration"], float(trial.factors["duration_s"])
    stream = Stream(
        name=STREAM,
        talker=TALKER,
        listener=LISTENER,
        payload_bytes=TCP_SEGMENT_BYTES,
        send=TcpBulk(ack_route=testbed.route(configuration, back=True)),
        route=testbed.route(configuration),
    )
    result = run(testbed, trial, [stream], measured)
    of = result.streams[STREAM]
    assert of.tcp is not None
    # What was on its way at the end arrives later: counted, so its time counts too.
    seconds = max(duration, (of.last_delivered_ps or 0) / 1e12)
    tcp = TcpResult(
        goodput_mbps=of.goodput_mbps(seconds),
        sent_mbps=of.offered_mbps(duration),
        retransmits=of.tcp.retransmitted,
        seconds=seconds,
    )
    measured.values |= {"result": asdict(tcp), "recovery": recovery_of(result, STREAM)}


def sleeping_generator(testbed: ModelTestbed, trial: Trial, measured: Measurement) -> None:
    """Send a frame, sleep, send the next: the sleep takes the timer's slack longer than asked."""
    factors = trial.factors
    target = target_pps(
        factors["frame_bytes"], factors["load_percent"], testbed.settings.link_rate_mbps
    )
    frames = max(1, round(target * factors["duration_s"]))
    payload = factors["frame_bytes"] - HEADERS_AND_FCS_BYTES
    send_us = testbed.parameters(trial.repetition).send_us
    pps = 1e6 / (delay_us(target) + TIMER_SLACK_US + send_us)
    deadline = float(factors["deadline_s"])
    stream = Stream(
        name=STREAM,
        talker=TALKER,
        listener=LISTENER,
        payload_bytes=payload,
        send=ConstantRate(rate_mbps=pps * payload * 8 / 1e6),
        route=testbed.route(factors["configuration"]),
        datagrams=frames,
    )
    seconds = min(deadline, frames / pps + 1)
    of = run(testbed, trial, [stream], measured, seconds).streams[STREAM]
    measured.values["result"] = values(
        trial,
        Sending(
            target_pps=target,
            delay_us=delay_us(target),
            planned_frames=frames,
            into_first_switch=of.entered,
            # As on other testbeds, the card counts, and not a program.
            at_listener=of.unique + of.duplicates + of.receiver_socket_drops,
            achieved_pps=pps,
            timed_out=of.entered < frames,
            run_seconds=min(deadline, frames / pps),
        ),
    )
