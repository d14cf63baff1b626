"""How the requests of experiments are measured: by tools on hosts, or by the model."""

from collections.abc import Sequence
from typing import Any, Protocol

from tsnrepro.common.errors import TestbedError
from tsnrepro.config import Configuration
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends.hosts import HostsBackend
from tsnrepro.runner.faults import NOTHING, Timeline
from tsnrepro.runner.load import IntendedLoad, LoadOutcome
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.round_trips import RoundTrips
from tsnrepro.testbeds.protocol import HostTestbed, Testbed
from tsnrepro.tools.iperf3 import Iperf3TcpResult


class Backend(Protocol):
    """What experiments ask of a testbed within one trial.

    Raw output, counters and commands go to the trial's measurement as they come, so that a failure
    keeps them.
    """

    @property
    def link_rate_mbps(self) -> float:
        """Wire rate of the talker's and the listener's link."""
        ...

    def udp(self, load: IntendedLoad) -> LoadOutcome:
        """Send a load as ``iperf3 -u`` does, in bursts on a timer's ticks."""
        ...

    def tcp(
        self, configuration: Configuration, duration_s: int
    ) -> tuple[Iperf3TcpResult, dict[str, Any] | None]:
        """Transfer as fast as TCP allows; return this and the recovery function's counters."""
        ...

    def constant_rate(
        self,
        loads: Sequence[IntendedLoad],
        *,
        arrivals: bool = False,
        timeline: Timeline = NOTHING,
    ) -> list[LoadOutcome]:
        """Send loads at the same time, each by a talker of ours to one listener.

        One load is a trial's stream, under its configuration. Of several, those with FRER are
        streams of their own and the others are best effort: untagged, over the first path. Where
        none has FRER, each is a stream that is counted on its own.

        Parameters
        ----------
        loads
            What each talker sends.
        arrivals
            Whether to return every arrival.
        timeline
            What goes wrong meanwhile.
        """
        ...

    def round_trips(
        self,
        configuration: Configuration,
        payload_bytes: int,
        duration_s: float,
        *,
        beside_pps: float = 0.0,
        keep: bool = True,
    ) -> RoundTrips:
        """Send one request at a time, as ``sockperf ping-pong`` does.

        ``beside_pps`` is the rate of a load of the same payload and configuration beside it. The
        record keeps every observation, unless this is only a look at how fast answers come.
        """
        ...

    def mausezahn_load(self, load: IntendedLoad, deadline_s: float) -> LoadOutcome:
        """Send a load by mausezahn, which sleeps between frames; counts are frames at the cards.

        The sending time is that at the rate seen at the first switch while frames flowed.
        """
        ...


def backend(testbed: Testbed, trial: Trial, measured: Measurement) -> Backend:
    """Return what measures a trial on a testbed.

    Raises
    ------
    TestbedError
        The testbed has neither hosts that take commands, nor is it the model.
    """
    if isinstance(testbed, HostTestbed):
        return HostsBackend(testbed, trial, measured)
    # Compiled code, which takes a second to load: only for those who simulate.
    from tsnrepro.runner.backends.model import ModelBackend  # noqa: PLC0415
    from tsnrepro.testbeds.model import ModelTestbed  # noqa: PLC0415

    if isinstance(testbed, ModelTestbed):
        return ModelBackend(testbed, trial, measured)
    raise TestbedError(
        f"a testbed of kind {testbed.kind} cannot measure this experiment", trial.experiment
    )
