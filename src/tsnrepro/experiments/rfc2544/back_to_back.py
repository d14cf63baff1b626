"""Back-to-back frames (RFC 2544, 26.4, as updated by RFC 9004) and the buffer time they imply."""

import math
import statistics
from dataclasses import dataclass

from tsnrepro.experiments.rfc2544.load_trial import BenchmarkResult, Series
from tsnrepro.experiments.rfc2544.settings import BackToBackSettings

_LONGEST_SECONDS = 2.0
"""Shortest allowed length of the longest burst (RFC 2544, 26.4)."""
_SEARCHES = 50
"""How often the search is to be repeated (RFC 2544, 26.4)."""


@dataclass(frozen=True)
class BufferTime:
    """The buffer that an average burst shows (RFC 9004).

    ``implied_s`` is the burst's time on the line. ``corrected_s`` takes off what the device sent
    on meanwhile at its throughput; ``datagrams`` is the same as a count.
    """

    implied_s: float
    corrected_s: float
    datagrams: float


def buffer_time(burst: float, line_pps: float, throughput_pps: float) -> BufferTime:
    """Return the buffer time behind an average burst.

    Implied: burst / maximum theoretical rate. Corrected: implied x (1 - throughput / maximum
    theoretical rate), RFC 9004. All rates are datagrams a second, of one size.

    Raises
    ------
    ValueError
        A rate is not positive, or the throughput is above the maximum: nothing would be buffered.
    """
    if line_pps <= 0 or not 0 <= throughput_pps <= line_pps:
        raise ValueError(
            f"throughput {throughput_pps} must lie between 0 and the maximum rate {line_pps}"
        )
    implied = burst / line_pps
    corrected = implied * (1 - throughput_pps / line_pps)
    return BufferTime(implied, corrected, corrected * line_pps)


@dataclass(frozen=True)
class BackToBackResult(BenchmarkResult):
    """The longest bursts without loss, in datagrams, one a search; and what follows from them.

    ``unbounded`` counts searches whose longest burst passed, or the longest that the generator
    could send: the buffer is at least that.
    """

    bursts: tuple[int, ...]
    mean: float
    sd: float | None
    low: int
    high: int
    unbounded: int
    line_pps: float
    achieved_pps: float
    throughput_pps: float | None
    buffer: BufferTime | None


def search(
    series: Series, settings: BackToBackSettings, throughput_pps: float | None
) -> BackToBackResult:
    """Search the longest burst without loss, ``searches`` times, and report the average.

    Bursts are sent at the line's limit. Where the generator cannot, the gap between frames is
    not the smallest one: the result has that, and the buffer follows from the rate it reached.

    ``throughput_pps`` is that of RFC 2544 (26.1) for the same configuration and size; without it,
    where it reaches the burst's rate, or where the longest burst passed, there is no buffer time.
    The nearer the throughput is to the burst's rate, the more an error of it weighs.

    Raises
    ------
    ToolError
        An outcome cannot be, see :meth:`Series.run`.
    """
    line = series.sut.line_pps
    longest = max(1, math.ceil(settings.max_burst_s * line))
    bursts = [_longest_burst(series, longest, settings) for _ in range(settings.searches)]
    trials = [trial for trial in series.trials if trial.load.burst]
    datagrams = sum(trial.outcome.sent for trial in trials)
    achieved = datagrams / sum(trial.outcome.sending_s for trial in trials)
    behind = achieved < (1 - series.shortfall) * line
    rate = achieved if behind else line
    found = [burst for burst, _ in bursts]
    mean = statistics.fmean(found)
    unbounded = sum(passed for _, passed in bursts)
    buffer = None
    if throughput_pps is not None and throughput_pps < rate and not unbounded:
        buffer = buffer_time(mean, rate, throughput_pps)
    return BackToBackResult(
        bursts=tuple(found),
        mean=mean,
        sd=statistics.stdev(found) if len(found) > 1 else None,
        low=min(found),
        high=max(found),
        unbounded=unbounded,
        line_pps=line,
        achieved_pps=achieved,
        throughput_pps=throughput_pps,
        buffer=buffer,
        reasons=(
            *_reasons(settings, behind, throughput_pps, rate),
            *_at_least(unbounded, sum(t.outcome.sent < t.load.datagrams for t in trials)),
            *series.departures,
        ),
    )


def _longest_burst(series: Series, longest: int, settings: BackToBackSettings) -> tuple[int, bool]:
    """Return the longest burst without loss, and whether a longer one could have passed.

    A burst of which the generator sent a part only is credited with that part, and nothing longer
    can be tried.
    """
    line = series.sut.line_pps
    low, high, burst = 0, longest, longest
    while high - low > max(1, high * settings.resolution_percent / 100) or burst == longest:
        trial = series.run(line, burst / line, purpose="back-to-back", burst=burst)
        if trial.outcome.lost == 0:
            low = max(low, trial.outcome.sent)
            if burst == longest or trial.outcome.sent < burst:
                return low, True
        else:
            high = min(burst, trial.outcome.sent)
        burst = (low + high) // 2
    return low, False


def _reasons(
    settings: BackToBackSettings, behind: bool, throughput_pps: float | None, rate: float
) -> tuple[str, ...]:
    found = []
    if settings.max_burst_s < _LONGEST_SECONDS:
        found.append(f"bursts of up to {settings.max_burst_s:g} s, not 2 s (RFC 2544, 26.4)")
    if settings.searches < _SEARCHES:
        found.append(f"{settings.searches} searches, not 50 (RFC 2544, 26.4)")
    if behind:
        found.append("the generator's gaps are longer than the smallest one")
    if throughput_pps is None:
        found.append("no throughput for this size, so no buffer time (RFC 9004)")
    elif throughput_pps >= rate:
        found.append("the throughput reaches the burst's rate: nothing is buffered (RFC 9004)")
    return tuple(found)


def _at_least(unbounded: int, cut: int) -> tuple[str, ...]:
    found = []
    if unbounded:
        found.append(
            f"the longest burst passed in {unbounded} searches: the buffer is larger than shown"
        )
    if cut:
        found.append(f"the generator sent a part only of {cut} bursts, which count with that part")
    return tuple(found)
