"""The constant-rate run on the model testbed."""

from dataclasses import asdict

import numpy as np
import numpy.typing as npt
from numpy.random import SeedSequence

from tsnrepro.experiments.measurers.faults import NOTHING, Happened, LatentAlarm, Timeline
from tsnrepro.experiments.measurers.faulty_network import faulty_network, faulty_route
from tsnrepro.experiments.measurers.model_terms import account, recovery_of, seed_of
from tsnrepro.experiments.measurers.paced import PORT, Pace, PacedRun
from tsnrepro.experiments.run import Measurement
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import ConstantRate, Listed, Stream
from tsnrepro.model.result import Result
from tsnrepro.records.store import Trial
from tsnrepro.streams.log import LISTENER_DTYPE, Records
from tsnrepro.testbed.model import LISTENER, TALKER, ModelTestbed

STREAM = "measured"
# Waiting that a trial of RFC 2544 has: 2 s for late frames and 5 s to settle (section 23).
PAUSE_SECONDS = 7.0


def paced(
    testbed: ModelTestbed,
    trial: Trial,
    pace: Pace,
    *,
    measured: Measurement,
    arrivals: bool = False,
    timeline: Timeline = NOTHING,
) -> PacedRun:
    """Simulate a run; the runs of one trial have independent chances, in their order.

    Parameters
    ----------
    testbed
        The model.
    trial
        Whose repetition gives the values of uncertain parameters, and whose digest the chances.
    pace
        What is sent.
    measured
        Keeps count of the trial's runs.
    arrivals
        Whether to return every arrival.
    timeline
        What goes wrong meanwhile; it takes effect at once.
    """
    number = measured.values.get("runs", 0) + 1
    measured.values["runs"] = number
    repetition = trial.repetition
    seed = SeedSequence((seed_of(testbed, trial), number))
    stream = Stream(
        name=STREAM,
        talker=TALKER,
        listener=LISTENER,
        payload_bytes=pace.payload_bytes,
        send=_sending(pace),
        route=faulty_route(testbed.route(pace.configuration), timeline),
        datagrams=pace.count + pace.then_count,
    )
    network = faulty_network(
        testbed.network(testbed.parameters(repetition), [stream]), timeline, testbed.member_links()
    )
    sending_s = _sending_seconds(testbed, repetition, pace)
    # A talker that was stalled goes on until all is sent.
    longest = 1.2 * sending_s + 1
    result = simulate(network, duration_s=longest, seed=seed, record=arrivals)
    of = result.streams[STREAM]
    accounting = account(network, of, result)
    logged = result.logs.deliveries
    return PacedRun(
        offered=of.entered,
        received=of.delivered,
        unique=of.unique,
        duplicates=of.duplicates,
        reordered=of.out_of_order,
        sending_s=sending_s,
        elapsed_s=sending_s + PAUSE_SECONDS,
        late=0,
        first_ns=0,
        accounting=asdict(accounting) | {"unaccounted": accounting.unaccounted},
        recovery=recovery_of(result, STREAM),
        arrivals=None if logged is None else as_arrivals(logged),
        happened=tuple(Happened(fault, fault.at_s, fault.at_s) for fault in timeline.faults),
        alarms=_alarms(result, sending_s),
    )


def _alarms(result: Result, sending_s: float) -> tuple[LatentAlarm, ...]:
    """Return the alarms while datagrams were sent: what comes after is the end of the run."""
    found = result.latent_errors.get(STREAM)
    alarms = [LatentAlarm(a.time_ps / 1e12, a.moved) for a in (found.alarms if found else [])]
    return tuple(alarm for alarm in alarms if alarm.at_s <= sending_s)


def _sending(pace: Pace) -> ConstantRate | Listed:
    if pace.burst == 1 and not pace.then_count:
        return ConstantRate(rate_mbps=pace.rate_pps * pace.payload_bytes * 8 / 1e6)
    return Listed(times_ns=slots_ns(pace).tolist())


def slots_ns(pace: Pace) -> npt.NDArray[np.int64]:
    """Return when each datagram is to be sent, in nanoseconds after the first."""
    places = np.arange(pace.count) // pace.burst * (pace.burst * 1e9 / pace.rate_pps)
    if not pace.then_count or pace.then_pps is None:
        return places.astype(np.int64)
    after = pace.count * 1e9 / pace.rate_pps + np.arange(pace.then_count) * (1e9 / pace.then_pps)
    return np.concatenate([places, after]).astype(np.int64)


def _sending_seconds(testbed: ModelTestbed, repetition: int, pace: Pace) -> float:
    """Return how long sending takes: as asked for, unless a send costs more than the gap."""
    fastest = 1e6 / testbed.parameters(repetition).send_us
    seconds = pace.count / min(pace.rate_pps, fastest)
    if pace.then_pps:
        seconds += pace.then_count / min(pace.then_pps, fastest)
    return seconds


def as_arrivals(deliveries: npt.NDArray[np.void]) -> Records:
    """Return first arrivals as a listener's log has them, in order of reading."""
    ordered = deliveries[np.argsort(deliveries["delivered_ps"], kind="stable")]
    records = np.empty(len(ordered), LISTENER_DTYPE)
    records["stream"] = PORT
    records["sequence"] = ordered["datagram"]
    for name, source in (
        ("sent_ns", "sent_ps"),
        ("received_ns", "delivered_ps"),
        ("stamped_ns", "arrived_ps"),
    ):
        records[name] = ordered[source] // 1000
    return records
