"""Factors and trials of the experiment ``loss``."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

from tsnrepro.config.base import Configuration, Objective
from tsnrepro.config.frer import Elimination
from tsnrepro.experiments.loss.settings import Generator, LossPart, LossSettings
from tsnrepro.records.columns import LINK_RATES
from tsnrepro.runner.design import (
    OMITTED,
    Planned,
    StallLimits,
    TrialFactors,
    grouped_by_testbed,
    in_blocks,
    in_order_of,
    nominal_seconds,
)

# Configuring and counters; only the first estimate of time uses it.
_SET_UP_SECONDS = 0.2
_OF_TESTBED = (*LINK_RATES, "elimination", "paths")


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """A load, the programs that send and receive it, and the network in between.

    Of buffers, scheduling, link rates and paths, None is what the testbed's settings have.
    """

    experiment: ClassVar[str] = "loss"
    question: Objective = "sweep"
    configuration: Configuration
    payload_bytes: int
    rate_mbps: float
    duration_s: float
    generator: Generator = "iperf3"
    receive_buffer_bytes: int | None = None
    realtime_listener: bool | None = None
    send_buffer_bytes: int | None = None
    member_link_rate_mbps: int | None = None
    phase: int | None = field(default=None, metadata=OMITTED)
    link_rate_mbps: int | None = field(default=None, metadata=OMITTED)
    elimination: Elimination | None = field(default=None, metadata=OMITTED)
    paths: int | None = field(default=None, metadata=OMITTED)

    @property
    def label(self) -> str:
        """Question, phase, configuration, load, receiver and number of paths."""
        question = "" if self.question == "sweep" else f"{self.question}-"
        phase = f"phase{self.phase}-" if self.phase else ""
        buffer = f"-buffer{self.receive_buffer_bytes}" if self.receive_buffer_bytes else ""
        scheduling = {None: "", False: "-ordinary", True: "-realtime"}[self.realtime_listener]
        paths = f"-{self.paths}paths" if self.paths else ""
        load = f"{self.payload_bytes}B-{self.rate_mbps:g}M"
        return f"{question}{phase}{self.configuration}-{load}{buffer}{scheduling}{paths}"

    @property
    def testbed(self) -> dict[str, Any]:
        """Settings of the testbed that differ from its file."""
        return {name: value for name in _OF_TESTBED if (value := getattr(self, name))}


def plan(settings: LossSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every part, configuration, load, receiver and repetition.

    Trials on another testbed than configured come after the others, since it is brought up anew
    for them. Last come the further repetitions, which are measured until a ratio is precise enough.
    """
    first = [item for part in settings.parts for item in _of_part(part, settings, kind)]
    further = [
        item
        for part in settings.parts
        if part.max_repetitions
        for item in _of_part(part, settings, kind, up_to=part.max_repetitions)
    ]
    in_order = [*in_blocks(first, seed), *in_blocks(further, seed)]
    planned = grouped_by_testbed(in_order, compared="paths")
    # A further repetition is measured as a whole, on all its testbeds.
    return in_order_of(planned, lambda item: item.trial.repetition if item.stopping_rule else 0)


def _of_part(
    part: LossPart, settings: LossSettings, kind: str, up_to: int | None = None
) -> Iterator[Planned]:
    """Yield the trials of a part: its repetitions or, with ``up_to``, those beyond them."""
    least = part.repetitions or settings.repetitions
    repetitions = range(1, least + 1) if up_to is None else range(least + 1, up_to + 1)
    nominal_s = nominal_seconds(kind, part.duration_s, _SET_UP_SECONDS)
    for factors, repetition in product(_factors(part, settings), repetitions):
        yield factors.planned(
            repetition,
            nominal_s,
            testbed=factors.testbed,
            stopping_rule="" if up_to is None else part.objective,
            stall_limits=StallLimits(part.max_stall_ms),
        )


def _factors(part: LossPart, settings: LossSettings) -> list[Factors]:
    whole = part.duration_s == int(part.duration_s)
    return [
        Factors(
            question=part.objective,
            configuration=configuration,
            payload_bytes=part.payload_bytes,
            rate_mbps=rate,
            duration_s=int(part.duration_s) if whole else part.duration_s,
            generator=part.generator,
            receive_buffer_bytes=buffer,
            realtime_listener=realtime,
            send_buffer_bytes=part.send_buffer_bytes,
            member_link_rate_mbps=part.member_link_rate_mbps,
            phase=part.phase,
            link_rate_mbps=part.link_rate_mbps,
            elimination="listener" if part.objective == "elimination" else None,
            paths=paths,
        )
        for rate, buffer, realtime in product(
            part.rates_mbps, part.receive_buffers_bytes, part.listener_sched_fifo
        )
        for configuration, paths in _configured(part, settings)
    ]


def _configured(part: LossPart, settings: LossSettings) -> list[tuple[Configuration, int | None]]:
    """Return the configurations, each with its number of member paths if the part varies it.

    Control sends over the first path: with the fewest, whose testbed is up for FRER anyway.
    """
    if part.paths is None:
        return [(configuration, None) for configuration in settings.configurations]
    tried = {"control": [min(part.paths)], "frer": part.paths}
    return [(each, paths) for each in settings.configurations for paths in tried[each]]
