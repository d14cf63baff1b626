"""A constant-rate run of our own talker and listener, as every kind of testbed reports it."""

from dataclasses import dataclass, field
from typing import Any

from tsnrepro.experiments.measurers.faults import Happened, LatentAlarm
from tsnrepro.settings import Configuration
from tsnrepro.streams.clocks import Agreement, Refusal, why_not_one_way
from tsnrepro.streams.delivery import Delivery, deliver
from tsnrepro.streams.log import Records

PORT = 5202


@dataclass(frozen=True)
class Pace:
    """What is sent: datagrams of one payload at a constant rate, and at a second one after it.

    ``burst`` datagrams are sent at each slot. ``then_count`` further datagrams follow at
    ``then_pps`` without a pause.
    """

    configuration: Configuration
    payload_bytes: int
    rate_pps: float
    count: int
    burst: int = 1
    then_pps: float | None = None
    then_count: int = 0

    @property
    def seconds(self) -> float:
        """Time that sending takes when the generator keeps up."""
        then = self.then_count / self.then_pps if self.then_pps else 0.0
        return self.count / self.rate_pps + then


@dataclass(frozen=True)
class PacedRun:
    """What came of it.

    Attributes
    ----------
    offered, received, unique, duplicates, reordered
        Datagrams that the talker's socket took, and that the listener's program read.
    sending_s
        Real sending time, a gap for every datagram.
    elapsed_s
        Time of the whole run with set-up and waiting.
    late
        Slots that were sent late, by the talker's own tolerance.
    arrivals
        The listener's record of each datagram, where it was asked for: first arrivals and, on
        hosts, repeats. Times are nanoseconds on the talker's clock.
    first_ns
        When the first datagram was sent, on that clock.
    recovery
        The clause 10 counters after the run.
    accounting
        Where the datagrams went.
    happened, alarms
        The faults as they took effect, and the latent errors that were detected.
    clocks, refusal
        How well talker's and listener's clocks agreed before and after, and why the two reports'
        times do not compare, if so; none where there is but one true time.
    """

    offered: int
    received: int
    unique: int
    duplicates: int
    reordered: int
    sending_s: float
    elapsed_s: float
    late: int
    first_ns: int
    accounting: dict[str, Any] | None
    recovery: dict[str, Any] | None
    arrivals: Records | None = field(default=None, repr=False)
    happened: tuple[Happened, ...] = ()
    alarms: tuple[LatentAlarm, ...] = ()
    clocks: tuple[Agreement | Refusal, ...] = ()
    refusal: Refusal | None = None

    @property
    def achieved_pps(self) -> float:
        """Offered rate that was reached, in datagrams a second."""
        return self.offered / self.sending_s

    def why_not_one_way(self, smallest_ns: float) -> str | None:
        """Return why no one-way latency of this size can be stated, if so."""
        if not self.clocks:
            return None
        refusal = self.refusal or why_not_one_way(smallest_ns, *self.clocks)
        return refusal.reason if refusal else None

    def delivery(self) -> Delivery:
        """Return the account by sequence numbers: losses, repeats, order, longest gap.

        Raises
        ------
        ValueError
            Arrivals were not asked for.
        """
        if self.arrivals is None:
            raise ValueError("the run kept no arrivals")
        return deliver(self.offered, self.arrivals)
