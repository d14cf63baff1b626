"""The model testbed: the topology of the emulated one as compiled queues.

::

    talker --- sw1 === m0, m1, ... === sw2 --- listener

It needs no privileges and no other host. An uncertain parameter has a range in the configuration;
each repetition uses another value of it.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from tsnrepro.common.code_digest import code_digest
from tsnrepro.common.topology import LISTENER, SWITCHES, TALKER, member_names
from tsnrepro.config import Configuration, ModelSettings, Range, Uncertain
from tsnrepro.model.network import (
    DuplexLink,
    Duration,
    EgressPort,
    EndStation,
    Network,
    Recovery,
    Replicated,
    SinglePath,
    Stalls,
    Switch,
    TrafficStream,
)
from tsnrepro.testbeds.hosts import facts

TALKER_LINK, LISTENER_LINK = "talker-sw1", "sw2-listener"


@dataclass(frozen=True)
class ModelParameters:
    """The values of uncertain parameters in one repetition."""

    switch_us: float
    send_us: float
    receive_us: float
    stack_us: float
    stall_interval_s: float | None
    stall_length_ms: float | None


class ModelTestbed:
    """The model testbed; there is nothing to set up.

    ``settings``: parameters, some of them as ranges. ``seed``: seed of the campaign: it shifts the
    values of all repetitions.
    """

    kind = "model"
    machines = ()
    """None: stalls do not affect computed results."""

    def __init__(self, settings: ModelSettings, seed: int = 1) -> None:
        self.settings = settings
        self.seed = seed

    def __enter__(self) -> "ModelTestbed":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def max_parallel(self) -> int:
        """Number of processors: the compiled model does not hold Python's global lock."""
        return len(os.sched_getaffinity(0))

    def parameters(self, repetition: int) -> ModelParameters:
        """Return the values of a repetition; its trials share them, so they can be paired."""
        s = self.settings
        stalls = s.stalls
        position = spread(self.seed, repetition, 6)
        return ModelParameters(
            switch_us=_value(s.forwarding_delay_us, next(position)),
            send_us=_value(s.talker.send_us, next(position)),
            receive_us=_value(s.listener.receive_us, next(position)),
            stack_us=_value(s.listener.stack_us, next(position)),
            stall_interval_s=_value(stalls.interval_s, next(position)) if stalls else None,
            stall_length_ms=_value(stalls.length_ms, next(position)) if stalls else None,
        )

    def route(self, configuration: Configuration, *, back: bool = False) -> SinglePath | Replicated:
        """Return the way of a stream from talker to listener, or of its answers back."""
        first, last = (LISTENER_LINK, TALKER_LINK) if back else (TALKER_LINK, LISTENER_LINK)
        members = member_names(self.settings.paths)
        if configuration == "control":
            return SinglePath(links=[first, members[0], last])
        recovery = Recovery(**self.settings.frer.model_dump())
        # The first switch recovers what comes back wherever the copies of the way there end.
        if self.settings.elimination == "listener" and not back:
            tagged = [[link, last] for link in members]
            return Replicated(before=[first], members=tagged, recovery=recovery)
        return Replicated(
            before=[first], members=[[link] for link in members], after=[last], recovery=recovery
        )

    def network(self, parameters: ModelParameters, streams: list[TrafficStream]) -> Network:
        """Return the network of the testbed with some streams."""
        port = EgressPort(queue_bytes=self.settings.queue_bytes)
        stalls = _stalls(parameters)
        settings = self.settings
        talker = EndStation(
            port=port,
            send_buffer_bytes=settings.talker.send_buffer_bytes,
            send_cost=_microseconds(parameters.send_us),
            receive_time=_microseconds(parameters.receive_us),
            stack_time=_microseconds(parameters.stack_us),
            stalls=stalls,
        )
        listener = EndStation(
            port=port,
            send_cost=_microseconds(parameters.send_us),
            receive_buffer_bytes=settings.listener.receive_buffer_bytes,
            receive_time=_microseconds(parameters.receive_us),
            stack_time=_microseconds(parameters.stack_us),
            stalls=stalls,
        )
        switch = Switch(port=port, processing_ns=parameters.switch_us * 1000)
        return Network(
            hosts={TALKER: talker, LISTENER: listener},
            switches=dict.fromkeys(SWITCHES, switch),
            links=self._links(),
            streams=streams,
        )

    def _links(self) -> list[DuplexLink]:
        settings = self.settings
        rate, cable = float(settings.link_rate_mbps), settings.propagation_delay_ns
        member_rate = float(settings.member_link_rate_mbps or settings.link_rate_mbps)
        names = member_names(settings.paths)
        delays = dict(zip(names, settings.delay_us, strict=False))
        jitters = dict(zip(names, settings.jitter_us, strict=False))
        members = [
            DuplexLink(
                name=name,
                a="sw1",
                b="sw2",
                rate_mbps=member_rate,
                delay_ns=cable + delays.get(name, 0.0) * 1000,
                jitter_ns=jitters.get(name, 0.0) * 1000,
            )
            for name in names
        ]
        return [
            DuplexLink(name=TALKER_LINK, a=TALKER, b="sw1", rate_mbps=rate, delay_ns=cable),
            *members,
            DuplexLink(name=LISTENER_LINK, a="sw2", b=LISTENER, rate_mbps=rate, delay_ns=cable),
        ]

    def describe(self) -> dict:
        """Return the facts that every record of this testbed has."""
        return {
            "testbed": self.kind,
            "settings": self.settings.recorded(),
            "model_sources": code_digest("tsnrepro.model.engine"),
            "controller": facts.controller(),
        }


def spread(seed: int, repetition: int, dimensions: int) -> Iterator[float]:
    """Yield the coordinates, in 0 ... 1, of a repetition's point.

    The points are a low-discrepancy sequence, evenly spread whatever the number of repetitions:
    multiples, modulo one, of the inverse powers of the generalised golden ratio (M. Roberts, The
    unreasonable effectiveness of quasirandom sequences, 2018), shifted by the seed.
    """
    ratio = 1.0
    for _ in range(60):  # the fixed point of x -> (1 + x) ** (1 / (d + 1))
        ratio = (1 + ratio) ** (1 / (dimensions + 1))
    for power in count(1):
        yield math.fmod(0.5 + seed * 0.7548776662466927 + repetition * ratio**-power, 1.0)


def _value(parameter: Uncertain, position: float) -> float:
    if not isinstance(parameter, Range):
        return parameter
    return parameter.low * (parameter.high / parameter.low) ** position


def _microseconds(mean: float) -> Duration:
    return Duration(mean_ns=mean * 1000)


def _stalls(parameters: ModelParameters) -> Stalls | None:
    if parameters.stall_interval_s is None or parameters.stall_length_ms is None:
        return None
    return Stalls(
        interval=_exponential(parameters.stall_interval_s * 1e9),
        length=_exponential(parameters.stall_length_ms * 1e6),
    )


def _exponential(mean_ns: float) -> Duration:
    return Duration(mean_ns=mean_ns, distribution="erlang", shape=1)
