"""Measuring on the model testbed: the network of a trial, simulated, in the records' terms."""

import json
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from tsnrepro.experiments.measurers.model_terms import account, recovery_of, seed_of
from tsnrepro.experiments.measurers.paced_model import paced
from tsnrepro.experiments.measurers.round_trips_model import (
    half_round_trips_ps,
    keep,
    round_trips,
)
from tsnrepro.experiments.measurers.several_model import several
from tsnrepro.experiments.measurers.sleeping_generator import (
    HEADERS_AND_FCS_BYTES,
    Sending,
    delay_us,
    target_pps,
    values,
)
from tsnrepro.experiments.run import Measurement
from tsnrepro.model.engine import simulate
from tsnrepro.model.ethernet import TCP_SEGMENT_BYTES
from tsnrepro.model.network import Bursts, ConstantRate, PingPong, Stream, TcpBulk
from tsnrepro.model.result import PingPongResult as ModelPingPong
from tsnrepro.model.result import Result, StreamResult
from tsnrepro.records.store import Trial
from tsnrepro.testbed.model import (
    LISTENER,
    TALKER,
    ModelTestbed,
)
from tsnrepro.tools.iperf3 import TcpResult, UdpResult
from tsnrepro.tools.mausezahn import TIMER_SLACK_US
from tsnrepro.tools.sockperf import PingPongResult

STREAM = "measured"

__all__ = [
    "paced",
    "ping_pong",
    "round_trips",
    "several",
    "sleeping_generator",
    "tcp_bulk",
    "udp_bursts",
]


def run(
    testbed: ModelTestbed,
    trial: Trial,
    streams: list[Stream],
    measured: Measurement,
    duration_s: float | None = None,
    *,
    record: bool = False,
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
    result = simulate(network, duration_s=duration, seed=seed, record=record)
    keep_counts(result, measured)
    return result


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


def ping_pong(testbed: ModelTestbed, trial: Trial, measured: Measurement) -> None:
    """Send one request at a time, as sockperf does; the record keeps every observation."""
    configuration = trial.factors["configuration"]
    stream = Stream(
        name=STREAM,
        talker=TALKER,
        listener=LISTENER,
        payload_bytes=trial.factors["payload_bytes"],
        send=PingPong(answer_route=testbed.route(configuration, back=True)),
        route=testbed.route(configuration),
    )
    result = run(testbed, trial, [stream], measured, record=True)
    of, half_ps = result.streams[STREAM], half_round_trips_ps(result, trial)
    assert of.ping_pong is not None
    keep(half_ps, measured)
    measured.values |= {
        "result": asdict(_as_sockperf(of.ping_pong, half_ps / 1e6, trial.factors["duration_s"])),
        "recovery": recovery_of(result, STREAM),
    }


def _as_sockperf(
    counts: ModelPingPong, half_us: npt.NDArray[np.float64], duration_s: float
) -> PingPongResult:
    """Return counts and half round trips as sockperf reports them."""
    percentages = ("25.000", "50.000", "75.000", "90.000", "99.000", "99.900")
    found = np.quantile(half_us, [float(p) / 100 for p in percentages], method="inverted_cdf")
    return PingPongResult(
        sent=counts.answered + counts.timeouts + counts.waiting,
        received=counts.answered,
        observations=len(half_us),
        valid_seconds=float(duration_s),
        dropped=counts.timeouts,
        duplicated=counts.disregarded,
        mean_us=float(half_us.mean()),
        sd_us=float(half_us.std()),
        min_us=float(half_us.min()),
        max_us=float(half_us.max()),
        percentiles_us=dict(zip(percentages, map(float, found), strict=True)),
    )


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
