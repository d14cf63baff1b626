"""Experiment ``rfc2544``: the benchmarks of RFC 2544 as stored trials on any testbed."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tsnrepro.experiments.measurers import measurer
from tsnrepro.experiments.measurers.paced import Pace, PacedRun
from tsnrepro.experiments.rfc2544 import benchmarks, latency_trial
from tsnrepro.experiments.rfc2544 import plan as planning
from tsnrepro.experiments.rfc2544.load_trial import Load, LoadOutcome
from tsnrepro.experiments.run import Measurement, Planned
from tsnrepro.records.store import Trial
from tsnrepro.settings import Campaign
from tsnrepro.settings.rfc2544 import Rfc2544Settings

PacedCall = Callable[..., PacedRun]


def plan(campaign: Campaign) -> list[Planned]:
    """Return the trials of the campaign's benchmarks."""
    settings = campaign.rfc2544
    return planning.plan(settings, campaign.seed) if settings else []


def measuring(campaign: Campaign) -> Callable[[Any, Trial, Measurement], None]:
    """Return what measures the trials of a campaign."""
    return partial(measure, campaign.rfc2544 or Rfc2544Settings())


def measure(settings: Rfc2544Settings, testbed: Any, trial: Trial, measured: Measurement) -> None:
    """Measure one trial: a whole search or procedure, of which every load trial is kept."""
    factors = trial.factors
    throughput = benchmarks.throughput_of(
        measured.earlier(), factors["configuration"], factors["payload_bytes"]
    )
    if factors["benchmark"] == "latency":
        latency_trial.measure(settings, testbed, trial, throughput, measured)
        return
    run = partial(measurer(testbed).paced, testbed, trial, measured=measured)
    measured.values |= benchmarks.measure_benchmark(
        factors,
        settings,
        partial(load_trial, run),
        testbed.settings.link_rate_mbps,
        throughput,
    )


def load_trial(run: PacedCall, load: Load) -> LoadOutcome:
    """Run one load trial by our own talker and listener."""
    pace = pace_of(load)
    # Which datagram was lost last matters only where the rate changes.
    done = run(pace, arrivals=load.then is not None)
    stepped = pace.count / pace.rate_pps if load.then else None
    return LoadOutcome(
        offered=done.offered,
        received=done.unique,
        duration_s=done.sending_s,
        accounting=done.accounting,
        elapsed_s=done.elapsed_s,
        stepped_s=stepped,
        last_lost_s=_last_lost(done, pace) if load.then else None,
    )


def pace_of(load: Load) -> Pace:
    """Return what the talker is to send for a load."""
    count = load.burst or max(1, round(load.rate_pps * load.duration_s))
    then = load.then
    return Pace(
        load.configuration,
        load.payload_bytes,
        load.rate_pps,
        count,
        then_pps=then.rate_pps if then else None,
        then_count=round(then.rate_pps * then.duration_s) if then else 0,
    )


def _last_lost(done: PacedRun, pace: Pace) -> float | None:
    """Return when the last lost datagram was to be sent, in seconds after the first."""
    runs = done.delivery().loss_runs
    if not len(runs):
        return None
    last = int(runs[-1].sum()) - 1
    if last < pace.count or not pace.then_pps:
        return last / pace.rate_pps
    return pace.count / pace.rate_pps + (last - pace.count) / pace.then_pps
