"""Throughput by MLRsearch, the library of that name (draft-ietf-bmwg-mlrsearch)."""

from MLRsearch import (
    AbstractMeasurer,
    Config,
    GoalResult,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)

from tsnrepro.common.counts import plural
from tsnrepro.common.errors import ToolError
from tsnrepro.experiments.rfc2544.load_trial import Series
from tsnrepro.experiments.rfc2544.settings import MlrGoal, MlrSettings
from tsnrepro.experiments.rfc2544.throughput import ThroughputResult, departures, offered_at

_METHOD = "mlrsearch"


class _SeriesMeasurer(AbstractMeasurer):
    """Hands the library's trials to a series; loads are datagrams a second.

    The library counts an unsent datagram as a lost one, to steer towards loads that can be sent.
    A generator's ceiling would so pass for the network's. Here the intended count is the offered
    one, so that only the network can lose, and the highest load is the generator's ceiling, so
    that no load is credited that was never offered.
    """

    def __init__(self, series: Series, *, warms_up: bool) -> None:
        self._series, self._warms_up = series, warms_up

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """Run one trial of ``intended_load`` datagrams a second for ``intended_duration`` s."""
        # The library forgets its first trial where it asks for one to warm up.
        purpose = "warm-up" if self._warms_up else "search"
        self._warms_up = False
        outcome = self._series.run(intended_load, intended_duration, purpose=purpose).outcome
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=outcome.sent,
            forwarding_count=outcome.received_unique,
            offered_duration=outcome.sending_s,
            # The library adds these up to duration_sum: with pauses counted, three trials of one
            # second would stand for 21 s, and a trial sent a moment too fast would need another.
            duration_with_overheads=intended_duration,
        )


def search(series: Series, settings: MlrSettings, method: str = _METHOD) -> list[ThroughputResult]:
    """Search for all goals at once and return a result for each, in the goals' order.

    A load passes a goal when the trials that exceed its loss ratio take no more than
    ``exceed_ratio`` of the time that ``duration_sum_s`` asks for: single stalls are outvoted.
    With ``exceed_ratio`` 0, no loss and trials of 60 s the lower bound is RFC 2544's throughput.

    Raises
    ------
    ToolError
        The search went on beyond its deadline, or an outcome cannot be.
    """
    ceiling = series.ceiling.pps
    goals = {goal.name: _library_goal(goal) for goal in settings.goals}
    config = Config()
    config.goals = list(goals.values())
    config.min_load = ceiling * settings.min_load_percent / 100
    config.max_load = ceiling
    config.warmup_duration = settings.warm_up_s
    config.search_duration_max = settings.deadline_s
    try:
        found = MultipleLossRatioSearch(config).search(
            _SeriesMeasurer(series, warms_up=settings.warm_up_s > 0)
        )
    except RuntimeError as error:
        if type(error) is not RuntimeError:
            raise  # the measurer's own error, not the library's
        sut = series.sut
        raise ToolError(
            f"MLRsearch gave up after {plural(len(series.trials), 'trial')}: {error}",
            f"{sut.configuration}, {sut.payload_bytes} B",
            "Raise deadline_s of mlrsearch, or set wider bounds",
        ) from error
    return [_result(series, goal, found[goals[goal.name]], method) for goal in settings.goals]


def _library_goal(goal: MlrGoal) -> SearchGoal:
    return SearchGoal(
        loss_ratio=goal.loss_percent / 100,
        exceed_ratio=goal.exceed_ratio,
        relative_width=goal.relative_width_percent / 100,
        initial_trial_duration=goal.initial_trial_s,
        final_trial_duration=goal.final_trial_s,
        duration_sum=goal.duration_sum_s,
        preceding_targets=goal.preceding_targets,
        fail_fast=False,
    )


def _result(series: Series, goal: MlrGoal, found: GoalResult, method: str) -> ThroughputResult:
    low, high = found.relevant_lower_bound, found.relevant_upper_bound
    lower = offered = delivered = conditional = None
    if low is not None:
        load = float(low)
        there = [
            t
            for t in series.trials
            if t.purpose == "search"
            and t.load.rate_pps == load
            and t.load.duration_s >= goal.final_trial_s
        ]
        offered, delivered = offered_at(there)
        lower = min(load, offered)
        allowed = next(iter(low.target_to_stat.values())).pessimistic_loss_ratio
        conditional = load * (1 - allowed)
    limited_by = series.limited_by(lower, lossy_above=high is not None)
    return ThroughputResult(
        method=method,
        goal=goal.name,
        criterion=(
            f"at most {goal.loss_percent:g} % lost, in all but {goal.exceed_ratio:g} of "
            f"{goal.duration_sum_s:g} s in trials of {goal.final_trial_s:g} s"
        ),
        loss_percent=goal.loss_percent,
        lower_pps=lower,
        upper_pps=float(high) if high is not None else None,
        offered_pps=offered,
        delivered_pps=delivered,
        limited_by=limited_by,
        series=series,
        reasons=departures(
            goal.final_trial_s, goal.loss_percent, *_tolerance(goal), *series.departures
        ),
        conditional_pps=conditional,
    )


def _tolerance(goal: MlrGoal) -> tuple[str, ...]:
    if goal.exceed_ratio == 0:
        return ()
    return (f"a load passes with up to {goal.exceed_ratio:g} of its trial time lossy",)
