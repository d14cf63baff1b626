"""Small networks on the model, for sliders: loss over load, and latency behind gates.

All results are simulated, within some tens of milliseconds.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tsnrepro.common.ethernet import FULL_FRAME_BYTES, FULL_PAYLOAD_BYTES
from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.config.gates import GateControlList, GateWindow
from tsnrepro.experiments.studies.scenario import STREAM, network_of
from tsnrepro.experiments.studies.study import PointParameters
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import (
    ConstantRate,
    DuplexLink,
    EgressPort,
    EndStation,
    Network,
    Poisson,
    Replicated,
    SinglePath,
    Switch,
    TrafficStream,
)

RATES_MBPS = (100, 200, 300, 450, 600, 750, 900)
_MEMBERS = ("path-1", "path-2", "path-3", "path-4")
_BEST_EFFORT, _SCHEDULED = 0, 7


def loss_over_load(
    *,
    paths: int = 2,
    rates_mbps: Sequence[float] = RATES_MBPS,
    duration_s: float = 0.1,
    seed: int = 0,
    **parameters: float,
) -> pd.DataFrame:
    """Return the loss by place over the offered load, with one path and with several.

    Parameters
    ----------
    paths
        Member paths of FRER, 2 to 4, all like the first.
    rates_mbps
        Payload rates.
    duration_s
        Simulated time of sending at each rate.
    seed
        Seed of the random numbers, which are the same at every point.
    **parameters
        Those of :class:`tsnrepro.experiments.studies.study.PointParameters`, such as
        ``receive_buffer_bytes``.

    Returns
    -------
    pandas.DataFrame
        A row for each rate and configuration (``control``: one path): ``rate_mbps``,
        ``configuration``, ``loss_percent``, ``sent``, ``lost``, and ``at_the_listener`` and
        ``in_the_network``, counts of the lost datagrams, ``latency_p99_us``.
    """
    rows = []
    for configuration in CONFIGURATIONS:
        for rate in rates_mbps:
            point = PointParameters.model_validate(
                parameters | {"configuration": configuration, "rate_mbps": float(rate)}
            )
            network = with_paths(network_of(point, float(rate)), paths)
            stream = simulate(network, duration_s=duration_s, seed=seed).streams[STREAM]
            at_listener = min(stream.lost, stream.receiver_socket_drops + stream.frames.nic_drops)
            rows.append(
                {
                    "rate_mbps": rate,
                    "configuration": configuration,
                    "loss_percent": 100 * stream.loss_ratio,
                    "sent": stream.entered,
                    "lost": stream.lost,
                    "at_the_listener": at_listener,
                    "in_the_network": stream.lost - at_listener,
                    "latency_p99_us": stream.latency.quantile_ns(0.99) / 1000,
                }
            )
    return pd.DataFrame(rows)


def with_paths(network: Network, paths: int) -> Network:
    """Return the network of a study with 2 to 4 member paths, if it replicates."""
    stream = network.streams[0]
    if not isinstance(stream.route, Replicated):
        return network
    names = _MEMBERS[:paths]
    present = {link.name: link for link in network.links}
    added = [
        present[_MEMBERS[0]].model_copy(update={"name": name})
        for name in names
        if name not in present
    ]
    route = stream.route.model_copy(update={"members": [[name] for name in names]})
    streams = [stream.model_copy(update={"route": route}), *network.streams[1:]]
    return network.model_copy(update={"links": [*network.links, *added], "streams": streams})


def gated_latency(
    *,
    window_us: float = 100.0,
    cycle_us: float = 500.0,
    load_mbps: float = 800.0,
    guard_band: bool = True,
    interval_us: float = 501.0,
    packets: int = 500,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the one-way latencies of a scheduled stream with and without gates.

    Stream and load share a link of 1 Gb/s between two switches. The gate of the stream is open for
    ``window_us`` of each cycle, that of the load for the rest; the stream is not synchronized to
    the cycle. ``priority`` is strict priority without gates, ``fifo`` one queue for both.

    Parameters
    ----------
    window_us, cycle_us
        Gate window and cycle time of the gate control list (IEEE Std 802.1Q-2022, 8.6.8.4).
    load_mbps
        Payload rate of the load, full frames at random times.
    guard_band
        Whether a frame starts only if it ends before its gate closes.
    interval_us
        Interval between datagrams of the stream, of 100 bytes. Unless it is a multiple of the
        cycle, they arrive at every phase.
    packets
        Datagrams of the stream.
    seed
        Seed of the random numbers.

    Returns
    -------
    pandas.DataFrame
        One row per received datagram: ``mode``, ``datagram``, ``latency_us``.
    """
    gates = _gate_list(window_us, cycle_us, guard_band)
    queue_bytes = 400 * FULL_FRAME_BYTES
    ports = {
        "gates": EgressPort(queue_bytes=queue_bytes, scheduler="strict_priority", gates=gates),
        "priority": EgressPort(queue_bytes=queue_bytes, scheduler="strict_priority"),
        "fifo": EgressPort(queue_bytes=queue_bytes),
    }
    parts = []
    for mode, port in ports.items():
        network = _shared_port(port, load_mbps, interval_us, packets)
        duration_s = ((packets + 1) * interval_us + 2 * cycle_us) / 1e6
        delivered = simulate(network, duration_s=duration_s, seed=seed, record=[STREAM]).deliveries
        latency_us = (delivered["arrived_ps"] - delivered["sent_ps"]) / 1e6
        parts.append(
            pd.DataFrame(
                {"mode": mode, "datagram": delivered["datagram"], "latency_us": latency_us}
            )
        )
    return pd.concat(parts, ignore_index=True)


def _gate_list(window_us: float, cycle_us: float, guard_band: bool) -> GateControlList:
    window_ns = round(1000 * window_us)
    rest_ns = max(1, round(1000 * cycle_us) - window_ns)
    others = [number for number in range(8) if number != _SCHEDULED]
    return GateControlList(
        entries=[
            GateWindow(open_classes=[_SCHEDULED], interval_ns=window_ns),
            GateWindow(open_classes=others, interval_ns=rest_ns),
        ],
        guard_band=guard_band,
    )


def _shared_port(port: EgressPort, load_mbps: float, interval_us: float, packets: int) -> Network:
    """Return two switches whose shared port a stream and a load use."""
    host = EndStation(port=EgressPort(queue_bytes=1000 * FULL_FRAME_BYTES))
    payload_bytes = 100
    stream = TrafficStream(
        name=STREAM,
        talker="talker",
        listener="listener",
        payload_bytes=payload_bytes,
        send=ConstantRate(rate_mbps=8 * payload_bytes / interval_us),
        route=SinglePath(links=["in", "out", "last"]),
        priority=_SCHEDULED,
        datagrams=packets,
    )
    links = [
        DuplexLink(name="in", a="talker", b="sw1"),
        DuplexLink(name="load-in", a="loader", b="sw1"),
        DuplexLink(name="out", a="sw1", b="sw2"),
        DuplexLink(name="last", a="sw2", b="listener"),
        DuplexLink(name="sink-out", a="sw2", b="sink"),
    ]
    return Network(
        hosts=dict.fromkeys(("talker", "loader", "listener", "sink"), host),
        switches={name: Switch(port=host.port) for name in ("sw1", "sw2")},
        links=links,
        streams=[stream, _load(load_mbps)] if load_mbps > 0 else [stream],
        ports={"sw1:out": port},
    )


def _load(rate_mbps: float) -> TrafficStream:
    return TrafficStream(
        name="load",
        talker="loader",
        listener="sink",
        payload_bytes=FULL_PAYLOAD_BYTES,
        send=Poisson(rate_mbps=rate_mbps),
        route=SinglePath(links=["load-in", "out", "sink-out"]),
        priority=_BEST_EFFORT,
    )


def quantiles(latencies: pd.DataFrame) -> pd.DataFrame:
    """Return median, 99 % and largest latency of each mode, in microseconds."""
    grouped = latencies.groupby("mode", sort=False)["latency_us"]
    return pd.DataFrame(
        {
            "median_us": grouped.median(),
            "p99_us": grouped.quantile(0.99),
            "largest_us": grouped.max(),
            "datagrams": grouped.size(),
        }
    ).replace({np.nan: None})
