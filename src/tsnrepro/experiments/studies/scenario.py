"""The network of a study's point."""

from tsnrepro.common.ethernet import FULL_FRAME_BYTES, FULL_PAYLOAD_BYTES
from tsnrepro.experiments.studies.study import PointParameters
from tsnrepro.model.network import (
    Bursts,
    DuplexLink,
    Duration,
    EgressPort,
    EndStation,
    Network,
    Poisson,
    RandomLoss,
    Recovery,
    Replicated,
    SinglePath,
    Stalls,
    Switch,
    TrafficStream,
)

STREAM = "stream"
BACKGROUND = "background"
# The default of txqueuelen, 1000 full frames, which is more than the talker's socket admits.
HOST_PORT = EgressPort(queue_bytes=1000 * FULL_FRAME_BYTES)


def network_of(parameters: PointParameters, rate_mbps: float) -> Network:
    """Return the network of a point at an offered load, as a payload rate."""
    hosts = {"talker": _talker(parameters), "listener": _listener(parameters)}
    switch = Switch(port=EgressPort(queue_bytes=parameters.switch_queue_bytes))
    links = _links(parameters)
    streams = [
        TrafficStream(
            name=STREAM,
            talker="talker",
            listener="listener",
            payload_bytes=parameters.payload_bytes,
            send=Bursts(rate_mbps=rate_mbps, timer_us=parameters.pacing_timer_us),
            route=_route(parameters),
        )
    ]
    if parameters.background_mbps > 0:
        hosts |= {"other-talker": _talker(parameters), "other-listener": EndStation(port=HOST_PORT)}
        rate = parameters.link_rate_mbps
        links.append(DuplexLink(name="other-in", a="other-talker", b="sw1", rate_mbps=rate))
        links.append(DuplexLink(name="other-out", a="sw2", b="other-listener", rate_mbps=rate))
        streams.append(_background(parameters))
    return Network(
        hosts=hosts, switches={"sw1": switch, "sw2": switch}, links=links, streams=streams
    )


def _talker(parameters: PointParameters) -> EndStation:
    return EndStation(port=HOST_PORT, send_cost=_microseconds(parameters.send_time_us))


def _listener(parameters: PointParameters) -> EndStation:
    stalls = None
    if parameters.stall_length_ms > 0:
        stalls = Stalls(
            interval=_erlang(parameters.stall_interval_ms, 1),
            length=_erlang(parameters.stall_length_ms, parameters.stall_shape),
        )
    return EndStation(
        port=HOST_PORT,
        receive_buffer_bytes=parameters.receive_buffer_bytes,
        receive_time=_microseconds(parameters.receive_time_us),
        stack_time=_microseconds(parameters.stack_time_us),
        nic_ring_frames=parameters.nic_ring_frames,
        stalls=stalls,
    )


def _links(parameters: PointParameters) -> list[DuplexLink]:
    rate = parameters.link_rate_mbps
    delay_ns = 1000 * parameters.path_delay_us
    chance = parameters.path_loss_probability
    loss = RandomLoss(probability=chance) if chance > 0 else None
    second_ns = delay_ns + 1000 * parameters.path_skew_us
    return [
        DuplexLink(name="in", a="talker", b="sw1", rate_mbps=rate),
        DuplexLink(name="path-1", a="sw1", b="sw2", rate_mbps=rate, delay_ns=delay_ns, loss=loss),
        DuplexLink(name="path-2", a="sw1", b="sw2", rate_mbps=rate, delay_ns=second_ns, loss=loss),
        DuplexLink(name="out", a="sw2", b="listener", rate_mbps=rate),
    ]


def _route(parameters: PointParameters) -> SinglePath | Replicated:
    if parameters.configuration == "control":
        return SinglePath(links=["in", "path-1", "out"])
    recovery = Recovery(
        algorithm="vector",
        history_length=parameters.history_length,
        reset_ms=parameters.reset_ms,
    )
    members = [["path-1"], ["path-2"]]
    return Replicated(before=["in"], members=members, after=["out"], recovery=recovery)


def _background(parameters: PointParameters) -> TrafficStream:
    # Not in bursts: those of two talkers on one clock would always be in the same order.
    return TrafficStream(
        name=BACKGROUND,
        talker="other-talker",
        listener="other-listener",
        payload_bytes=FULL_PAYLOAD_BYTES,
        send=Poisson(rate_mbps=parameters.background_mbps),
        route=SinglePath(links=["other-in", "path-1", "other-out"]),
    )


def _microseconds(time_us: float) -> Duration:
    return Duration(mean_ns=1000 * time_us)


def _erlang(mean_ms: float, shape: int) -> Duration:
    return Duration(mean_ns=1e6 * mean_ms, distribution="erlang", shape=shape)
