"""Requests of experiments to a network and their outcomes: loads, and round trips.

Counts are datagrams, rates datagrams a second or payload rates in Mb/s.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tsnrepro.common.ethernet import payload_rate_mbps, payload_rate_pps
from tsnrepro.config import Configuration
from tsnrepro.native.streams.delivery import Delivery, deliver
from tsnrepro.native.streams.log import Records
from tsnrepro.runner.faults import AppliedFault, LatentAlarm
from tsnrepro.testbeds.hosts.clocks import ClockSync, ClockSyncFailure, why_not_one_way
from tsnrepro.tools.sockperf import SockperfResult


@dataclass(frozen=True)
class HostOptions:
    """Socket buffers in bytes and the scheduling of a trial's programs.

    Buffers are on the scale of net.core.rmem_default; None is what the testbed's settings have.
    """

    receive_buffer_bytes: int | None = None
    realtime_listener: bool | None = None
    """Whether the receiving program runs under SCHED_FIFO."""
    send_buffer_bytes: int | None = None
    """Of the talker of :mod:`tsnrepro.native.streams`."""


OF_TESTBED = HostOptions()
"""Options that are all the testbed's."""


@dataclass(frozen=True)
class RateStep:
    """What follows the first part of a load without a pause: rate (datagrams/s) and duration."""

    rate_pps: float
    duration_s: float

    @property
    def datagrams(self) -> int:
        """Datagrams of this part."""
        return round(self.rate_pps * self.duration_s)


@dataclass(frozen=True)
class IntendedLoad:
    """Datagrams of one payload at a rate, from talker to listener (RFC 2285, 3.5.1).

    They are evenly spaced by default.

    Attributes
    ----------
    burst
        Exactly so many datagrams, once, as close together as the rate gives.
    then
        A second rate right after ``duration_s``.
    full_waits
        Whether the trial has the waits of RFC 2544, section 23: learning frames and 2 s before it,
        2 s for late frames after it, and 5 s of rest.
    trains
        Datagrams that are sent together in each slot, as a camera sends a picture; after the last
        train the first follows again.
    poisson
        A seed: gaps are exponential, so the number of datagrams is random too.
    phase_s
        Time of the first slot after a multiple of the slots' interval, by which several such loads
        differ.
    """

    configuration: Configuration
    payload_bytes: int
    rate_pps: float
    duration_s: float
    burst: int | None = None
    then: RateStep | None = None
    full_waits: bool = False
    trains: tuple[int, ...] = (1,)
    poisson: int | None = None
    phase_s: float | None = None

    @classmethod
    def at_mbps(
        cls,
        configuration: Configuration,
        payload_bytes: int,
        rate_mbps: float,
        duration_s: float,
    ) -> "IntendedLoad":
        """Return a load at a payload rate in Mb/s."""
        rate_pps = payload_rate_pps(rate_mbps, payload_bytes)
        return cls(configuration, payload_bytes, rate_pps, duration_s)

    @property
    def rate_mbps(self) -> float:
        """Payload rate in Mb/s."""
        return payload_rate_mbps(self.rate_pps, self.payload_bytes)

    @property
    def before_step(self) -> int:
        """Datagrams at the first rate."""
        if self.burst:
            return self.burst
        return in_trains(self.trains, self.slots)

    @property
    def slots(self) -> int:
        """Times at which something is sent at the first rate, a datagram or a train."""
        return max(1, round(self.rate_pps * self.duration_s / self._mean_train))

    @property
    def slot_s(self) -> float:
        """Time between two slots at the first rate, of random ones the mean."""
        return self._mean_train / self.rate_pps

    @property
    def _mean_train(self) -> float:
        return sum(self.trains) / len(self.trains)

    @property
    def datagrams(self) -> int:
        """Datagrams in all."""
        return self.before_step + (self.then.datagrams if self.then else 0)

    @property
    def step_s(self) -> float:
        """When the rate changes or, without a second one, sending ends: seconds from the first."""
        if len(self.trains) > 1:
            return self.slots * self.slot_s
        return self.before_step / self.rate_pps

    @property
    def sending_s(self) -> float:
        """Time that sending takes when the generator keeps up."""
        return self.step_s + (self.then.datagrams / self.then.rate_pps if self.then else 0.0)


def in_trains(trains: Sequence[int], count: int) -> int:
    """Return the datagrams of the first ``count`` trains of a group that is sent over and over."""
    groups, rest = divmod(count, len(trains))
    return groups * sum(trains) + sum(trains[:rest])


@dataclass(frozen=True)
class LoadOutcome:
    """The outcome of a load.

    Attributes
    ----------
    sent
        Datagrams that left the talker; those it could not send are not among them.
    received_total, received_unique
        Datagrams that the listener read, with and without repeats. A record's ``received`` is the
        number without repeats.
    sending_s
        Measured sending time, a gap for every datagram: sent / sending_s is the offered load.
    reordered
        First arrivals whose number is below the largest seen (RFC 4737, 3.3).
    elapsed_s
        Time of the whole trial with set-up and waiting; None where it was not measured.
    late
        Slots that were sent late, by the talker's own tolerance.
    timed_out
        Whether a deadline ended the sending.
    jitter_ms
        As iperf3 reports it (RFC 3550, 6.4.1); None where it was not measured.
    first_ns
        When the first datagram was sent, on the talker's clock.
    accounting
        Where the datagrams went; see :meth:`tsnrepro.records.accounting.Accounting.document`.
    recovery
        The clause 10 counters of the stream's recovery function.
    arrivals
        The listener's record of each datagram, where it was requested: first arrivals and, on
        hosts, repeats. Times are nanoseconds on the talker's clock.
    faults, alarms
        The faults as they took effect, and the latent errors that were detected.
    listener_ahead_ns
        How far the listener's clock was ahead of the talker's, subtracted from the times of the
        arrivals; None where both read one clock, or synchronised clocks.
    clocks, refusal
        How well talker's and listener's clocks agreed before and after, and the reason where the
        two reports' times do not compare; None where there is only one clock.
    """

    sent: int
    received_total: int
    received_unique: int
    sending_s: float
    reordered: int = 0
    elapsed_s: float | None = None
    late: int = 0
    timed_out: bool = False
    jitter_ms: float | None = None
    first_ns: int = 0
    accounting: dict[str, Any] | None = None
    recovery: dict[str, Any] | None = None
    arrivals: Records | None = field(default=None, repr=False)
    faults: tuple[AppliedFault, ...] = ()
    alarms: tuple[LatentAlarm, ...] = ()
    listener_ahead_ns: int | None = None
    clocks: tuple[ClockSync | ClockSyncFailure, ...] = ()
    refusal: ClockSyncFailure | None = None

    @property
    def lost(self) -> int:
        """Datagrams sent and not received."""
        return self.sent - self.received_unique

    @property
    def loss_percent(self) -> float:
        """Lost of sent (RFC 2544, 26.3); what was never sent was not lost."""
        return 100 * self.lost / self.sent

    @property
    def duplicates(self) -> int:
        """Datagrams received again."""
        return self.received_total - self.received_unique

    @property
    def offered_pps(self) -> float:
        """Offered load: the rate that was reached."""
        return self.sent / self.sending_s

    def offered_mbps(self, payload_bytes: int) -> float:
        """Return the offered load as a payload rate."""
        return payload_rate_mbps(self.offered_pps, payload_bytes)

    def why_not_one_way(self, smallest_ns: float) -> str | None:
        """Return the reason where clocks do not allow a one-way latency of this size."""
        if not self.clocks:
            return None
        refusal = self.refusal or why_not_one_way(smallest_ns, *self.clocks)
        return refusal.reason if refusal else None

    def delivery(self) -> Delivery:
        """Return the account by sequence numbers: losses, repeats, order, longest gap.

        Raises ValueError if arrivals were not requested.
        """
        return deliver(self.sent, self._recorded_arrivals())

    def sending_times_of_lost(self) -> npt.NDArray[np.float64]:
        """Return when the lost datagrams were sent, in seconds after the first, in order.

        A lost datagram leaves no record at the listener, but those around it carry their sending
        times: between two of them the times are interpolated, and before the first or after the
        last they go on at the mean gap of what arrived.

        Raises ValueError if arrivals were not requested, fewer than two different datagrams
        arrived, or a number is beyond what was sent.
        """
        arrivals = self._recorded_arrivals()
        numbers, first = np.unique(arrivals["sequence"].astype(np.int64), return_index=True)
        times = (arrivals["sent_ns"].astype(np.int64)[first] - self.first_ns) / 1e9
        if numbers.size < 2:
            raise ValueError(f"{numbers.size} datagrams arrived: times need two of them")
        if numbers[-1] >= self.sent:
            raise ValueError(f"sequence number {numbers[-1]} of {self.sent} sent")
        missing = np.setdiff1d(np.arange(self.sent), numbers, assume_unique=True)
        gap = (times[-1] - times[0]) / (numbers[-1] - numbers[0])
        before = np.minimum(missing - numbers[0], 0) * gap
        after = np.maximum(missing - numbers[-1], 0) * gap
        return np.interp(missing, numbers, times) + before + after

    def step_s(self, load: IntendedLoad) -> float:
        """Return when the rate of a load with ``then`` fell, in seconds after the first datagram.

        A generator that falls behind sends its datagrams later than planned. Where nothing sent at
        the second rate arrived, it is the planned time.

        Raises ValueError if arrivals were not requested.
        """
        arrivals = self._recorded_arrivals()
        slower = arrivals["sent_ns"][arrivals["sequence"] >= load.before_step].astype(np.int64)
        return float(slower.min() - self.first_ns) / 1e9 if len(slower) else load.step_s

    def step_and_last_loss(self, load: IntendedLoad) -> tuple[float, float | None]:
        """Return when the rate fell and when the last lost datagram was sent, None without any.

        Both are in seconds after the first datagram, by the sending times in what arrived.

        Raises ValueError as :meth:`sending_times_of_lost`.
        """
        stepped_s = self.step_s(load)
        return stepped_s, float(self.sending_times_of_lost()[-1]) if self.lost else None

    def _recorded_arrivals(self) -> Records:
        if self.arrivals is None:
            raise ValueError("the run recorded no arrivals")
        return self.arrivals

    def values(self, payload_bytes: int) -> dict[str, Any]:
        """Return the values for the record: result, accounting and recovery."""
        return {
            "result": {
                "sent": self.sent,
                "received": self.received_unique,
                "lost": self.lost,
                "out_of_order": self.reordered,
                "payload_bytes": payload_bytes,
                "send_seconds": self.sending_s,
                "jitter_ms": self.jitter_ms,
                "offered_mbps": self.offered_mbps(payload_bytes),
                "delivered_mbps": payload_rate_mbps(
                    self.received_unique / self.sending_s, payload_bytes
                ),
            },
            "accounting": self.accounting,
            "recovery": self.recovery,
        }


@dataclass(frozen=True)
class RoundTrips:
    """Half round trips in microseconds, in order; what sockperf reports of them; and recovery."""

    half_us: npt.NDArray[np.float64] = field(repr=False)
    report: SockperfResult
    recovery: dict[str, Any] | None
