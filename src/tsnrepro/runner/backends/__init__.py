"""Back ends of measurements: tools on the hosts of a testbed, or the model."""

from collections.abc import Sequence
from typing import Any, Protocol

from tsnrepro.common.errors import TestbedError
from tsnrepro.config import Configuration
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends.hosts import HostsBackend
from tsnrepro.runner.faults import NOTHING, Fault, Timeline
from tsnrepro.runner.load import OF_TESTBED, HostOptions, IntendedLoad, LoadOutcome, RoundTrips
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.protocol import HostTestbed, Testbed
from tsnrepro.tools.iperf3 import Iperf3TcpResult


class Backend(Protocol):
    """The requests of experiments to a testbed within one trial.

    Raw output, counters and commands go to the trial's measurement as they arise, so that a failed
    attempt records them.
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
        """Transfer as fast as TCP allows; return the result and the recovery's counters."""
        ...

    def constant_rate(
        self,
        loads: Sequence[IntendedLoad],
        *,
        arrivals: bool = False,
        timeline: Timeline = NOTHING,
    ) -> list[LoadOutcome]:
        """Send loads at the same time, each by its own talker to one listener.

        A single load is the trial's stream, under its configuration. Of several, each with FRER is
        a stream, and the others are best effort: untagged, over the first path. Where none has
        FRER, each is a stream and counted separately.

        Parameters
        ----------
        loads
            The load of each talker.
        arrivals
            Whether to return every arrival.
        timeline
            The faults meanwhile.
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
        faults: tuple[Fault, ...] = (),
    ) -> RoundTrips:
        """Send one request at a time, as ``sockperf ping-pong`` does.

        ``beside_pps`` is the rate of a load of the same payload and configuration beside it. With
        ``keep`` the record has every observation. ``faults`` are there from before the first
        request to the end, whatever their time. A request without an answer has no round trip and
        counts as dropped: in the model after 10 ms, on namespaces of this machine after 100 ms, by
        a library in sockperf's client. On other hosts sockperf waits for the answer until the test
        ends and writes no log: there a lossy path without FRER is refused by TestbedError.
        """
        ...

    def mausezahn_load(self, load: IntendedLoad, deadline_s: float, port: int) -> LoadOutcome:
        """Send a load by mausezahn, which sleeps between frames; counts are frames at the cards.

        The sending time follows from the rate at the first switch while frames flowed. ``port`` is
        the UDP port, source and destination.
        """
        ...


def backend(
    testbed: Testbed, trial: Trial, measured: Measurement, options: HostOptions = OF_TESTBED
) -> Backend:
    """Return the back end that measures a trial on a testbed.

    ``options`` are those of the trial's programs.

    Raises
    ------
    TestbedError
        The testbed is neither one of hosts that run commands nor the model.
    """
    if isinstance(testbed, HostTestbed):
        return HostsBackend(testbed, trial, measured, options)
    # Compiled code takes a second to load.
    from tsnrepro.runner.backends.model import ModelBackend  # noqa: PLC0415
    from tsnrepro.testbeds.model import ModelTestbed  # noqa: PLC0415

    if isinstance(testbed, ModelTestbed):
        return ModelBackend(testbed, trial, measured, options)
    raise TestbedError(
        f"a testbed of kind {testbed.kind} cannot measure this experiment", trial.experiment
    )
