"""Measure a trial of ``failure``: a constant-rate stream while member paths and switches fail.

Every datagram is numbered: a trial records which were lost, repeated or out of order, and how long
nothing arrived, with the recovery counters and the latent errors that were detected.
"""

from dataclasses import asdict, replace
from typing import Any

from tsnrepro.common.topology import SWITCHES
from tsnrepro.experiments.failure.failover import failover
from tsnrepro.experiments.failure.plan import Factors
from tsnrepro.native.streams.log import compress
from tsnrepro.records.store import ARRIVALS, Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.faults import Fault, Timeline
from tsnrepro.runner.load import HostOptions, IntendedLoad, LoadOutcome
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.protocol import HostTestbed, Testbed


def _timeline(factors: Factors) -> Timeline:
    """Return the faults of a scenario, at fixed shares of the trial's duration.

    ``cuts``: both paths live, then one, then none, then one, then both. ``failover``: both, then
    one, then both, a third of the trial each. Every scenario of FRER detects latent errors, where
    the second switch can.
    """
    duration = factors.duration_s
    events: dict[str, tuple[Fault, ...]] = {
        "cuts": (
            Fault(0.2 * duration, "cut", path=0),
            Fault(0.4 * duration, "cut", path=1),
            Fault(0.6 * duration, "repair", path=1),
            Fault(0.8 * duration, "repair", path=0),
        ),
        "silent-death": (Fault(0.3 * duration, "impair", path=0, loss_percent=100.0),),
        "lossy": (Fault(0.1 * duration, "impair", path=0, loss_percent=factors.loss_percent),),
        "duplicating": (
            Fault(0.1 * duration, "impair", path=0, duplicate_percent=factors.duplicate_percent),
        ),
        "stuck-generator": (Fault(0.4 * duration, "stick"), Fault(0.6 * duration, "free")),
        "restart-sw1": (Fault(0.5 * duration, "restart", switch="sw1"),),
        "restart-sw2": (Fault(0.5 * duration, "restart", switch="sw2"),),
        "three-paths": (Fault(0.3 * duration, "cut", path=0), Fault(0.6 * duration, "cut", path=1)),
        "failover": (Fault(duration / 3, "cut", path=0), Fault(2 * duration / 3, "repair", path=0)),
    }
    latent = factors.latent if factors.configuration == "frer" else None
    return Timeline(events.get(factors.scenario, ()), latent)


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial; the record keeps every arrival."""
    factors = Factors.of(trial)
    load = IntendedLoad(
        factors.configuration, factors.payload_bytes, factors.rate_pps, factors.duration_s
    )
    options = HostOptions(receive_buffer_bytes=factors.receive_buffer_bytes)
    timeline = _timeline(factors)
    blind = timeline.latent is not None and not _detects_latent_errors(testbed)
    if blind:
        timeline = replace(timeline, latent=None)
    requests = backend(testbed, trial, measured, options)
    (outcome,) = requests.constant_rate([load], arrivals=True, timeline=timeline)
    assert outcome.arrivals is not None
    measured.outputs[ARRIVALS] = compress(outcome.arrivals)
    found = result(outcome, load)
    if factors.scenario == "failover":
        found |= failover(outcome, load)
    if blind:
        found["alarms"] = None
    measured.values |= {
        "result": found,
        "faults": [fault.as_record() for fault in outcome.faults],
        "alarms": None if blind else [asdict(alarm) for alarm in outcome.alarms],
        "listener_ahead_ns": outcome.listener_ahead_ns,
        "accounting": outcome.accounting,
        "recovery": outcome.recovery,
    }


def _detects_latent_errors(testbed: Testbed) -> bool:
    return not isinstance(testbed, HostTestbed) or SWITCHES[1] in testbed.faults.data_planes


def result(outcome: LoadOutcome, load: IntendedLoad) -> dict[str, Any]:
    """Return the counts of a run: lost, repeated, out of order, and the longest silence."""
    delivery = outcome.delivery()
    gap = delivery.longest_gap
    return {
        "sent": delivery.sent,
        "unique": delivery.unique,
        "lost": delivery.lost,
        "duplicated": outcome.duplicates,
        "reordered": delivery.reordered,
        "longest_loss_run": delivery.longest_loss_run,
        "longest_gap_ms": gap.duration_ns / 1e6 if gap else None,
        "lost_in_longest_gap": gap.lost_datagrams if gap else None,
        "silent_at_end_ms": _silent_at_end_ms(outcome),
        "achieved_pps": outcome.offered_pps,
        "late": outcome.late,
        "alarms": len(outcome.alarms),
        "first_alarm_s": outcome.alarms[0].at_s if outcome.alarms else None,
        "interval_ms": 1e3 / load.rate_pps,
    }


def _silent_at_end_ms(outcome: LoadOutcome) -> float:
    """Return the time from the last arrival to the end of sending; what never came has no gap."""
    arrivals = outcome.arrivals
    end = outcome.first_ns + outcome.sending_s * 1e9
    if arrivals is None or not len(arrivals):
        return outcome.sending_s * 1e3
    return max(0.0, end - float(arrivals["received_ns"].max())) / 1e6
