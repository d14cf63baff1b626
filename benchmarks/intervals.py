"""Simulate how often each printed interval covers, under what really happens to trials.

Losses in bursts, trials that stall at any load, shifts between repetitions, skewed latencies, two
regimes, single runs that take much longer, drift, readings in steps, correlated samples. For every
method and cell of the grid the share of data sets in which the method gives limits, and the share
of these that hold the truth. A cell fails where that is below 93 % by more than chance explains
(one in a hundred), or, of those that are called an interval, above 99 %. A bound or a bracket says
that it may hold more often. What fewer than a twentieth of the data sets get is judged by how many
of all data sets get wrong ones. The mean of losses and the coefficient of variation have no limits.

The cells of ``dependent`` are not judged: all limits assume that repetitions are independent, or
that what they share is shared by both sides of a pair, and these show what becomes of them else.

    python benchmarks/intervals.py                     the grid; thresholds and stopped take hours
    python benchmarks/intervals.py --sets 600 tails    one family, in short
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product

# One processor: on small matrices more threads cost more than they give.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import special, stats
from scipy.signal import lfilter

from tsnrepro.config.base import Objective
from tsnrepro.config.files import campaign
from tsnrepro.experiments.latency.stopping import ratio_of_medians
from tsnrepro.experiments.loss.settings import LossPart
from tsnrepro.experiments.shaping.modes import RANKED_FROM
from tsnrepro.stats.comparisons import median_difference, relative_difference, signed_rank
from tsnrepro.stats.estimate import LEVEL_OF_EACH_LOOK, MIN_RUNS_TO_STOP, Estimate, Limits
from tsnrepro.stats.losses import difference_of_shares, trend_over_runs
from tsnrepro.stats.proportions import share, upper_bound_when_none_lost
from tsnrepro.stats.quantiles import correlated_quantile
from tsnrepro.stats.replication import median_over_runs
from tsnrepro.stats.thresholds import Sweep, compare_thresholds, threshold

Generator = np.random.Generator
# What one data set gives: the method, its estimate, and the truth.
Outcome = tuple[str, Estimate, float]

REPETITIONS = (3, 5, 10)
STALLS_A_TRIAL = (0.05, 0.2, 0.5, 1.0, 5.0)
STALLED = (0.05, 0.15)
SHIFTS = (0.1, 0.3)
# Shares of trials that lose at the highest loads, of which none is the load where half lose.
BELOW_HALF = (0.2, 0.4)
SKEWS = (0.1, 0.3, 1.0)
CORRELATIONS = (0.0, 0.5, 0.9, 0.99)
SAMPLES = (2000, 20_000)
QUANTILES = (0.5, 0.9, 0.99, 0.999)
BURST, SENT = 300, 30_000
TRIALS_A_REPETITION = (6, 18)
# Of these campaigns the loads of the main sweep, in Mb/s.
SWEPT = ("quick", "documents")
# Rise of the loss in one repetition, as a share of the rate.
WIDTH = 0.02
# Questions of campaign quick with loads around a line's limit: they stop once the ratio is known.
NARROW: tuple[Objective, ...] = ("limit", "bottleneck")
NARROW_SHIFTS, NARROW_WIDTH = (0.001, 0.004), 0.001
# Spread of the logarithm of two medians' ratio between repetitions.
SCATTERS = (0.01, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
LOWEST, HIGHEST, FEWEST_SETS = 93.0, 99.0, 0.05
CHANCE = 0.01
SETS = 5000
# Of the campaigns' comparisons; fewer than six give a range, which is not judged.
REPETITIONS_OF_PAIRS = (3, MIN_RUNS_TO_STOP, RANKED_FROM, 10, 12)


@dataclass
class Tally:
    """How many limits were given, of so many data sets, and how many of them held the truth."""

    sets: int = 0
    given: int = 0
    held: int = 0

    @property
    def rare(self) -> bool:
        return self.given < FEWEST_SETS * self.sets

    @property
    def percent(self) -> float:
        """Share of the limits given that hold the truth."""
        return 100 * self.held / self.given if self.given else float("nan")

    def within(self, highest: float, chance: float) -> bool:
        """Tell whether the share may be within limits, by a binomial test either way."""
        if self.rare:
            return self.given - self.held <= FEWEST_SETS * self.sets
        as_few = stats.binom.cdf(self.held, self.given, LOWEST / 100)
        as_many = stats.binom.sf(self.held - 1, self.given, highest / 100)
        return min(as_few, as_many) >= chance


@dataclass
class Cell:
    """What one method did in one cell of the grid: all its limits, and those called intervals."""

    method: str
    cell: str
    judged: bool = True
    limits: Tally = field(default_factory=Tally)
    intervals: Tally = field(default_factory=Tally)

    def add(self, estimate: Estimate, truth: float) -> None:
        for tally, counts in (
            (self.limits, estimate.decides),
            (self.intervals, estimate.limits is Limits.INTERVAL),
        ):
            tally.sets += 1
            tally.given += counts
            tally.held += counts and estimate.contains(truth)

    def acceptable(self, chance: float = CHANCE) -> bool:
        """Tell whether the cell may be within its limits: so unlikely a simulation refutes it."""
        return not self.judged or (
            self.limits.within(100.0, chance) and self.intervals.within(HIGHEST, chance)
        )

    @property
    def inside(self) -> bool:
        """Whether the shares themselves are within the limits."""
        bounds = ((self.limits, 100.0), (self.intervals, HIGHEST))
        return all(t.rare or LOWEST <= t.percent <= highest for t, highest in bounds)


def bursts(rng: Generator, stalls: float | np.ndarray, runs: int, *, alike: bool) -> np.ndarray:
    """Return the loss of each run in percent: bursts of 300 datagrams, all so long or in the mean.

    A stall's length is exponential, as the model's hosts have it, and what a burst loses with it.
    """
    met = rng.poisson(stalls, runs)
    sizes = met if alike else np.where(met > 0, rng.gamma(np.maximum(met, 1)), 0.0)
    return 100 * BURST / SENT * sizes


def losses(rng: Generator) -> Iterator[tuple[str, Callable[[], list[Outcome]]]]:
    """Trials that lose, at so many stalls a trial."""
    for stalls, runs in product(STALLS_A_TRIAL, REPETITIONS):

        def one(stalls: float = stalls, runs: int = runs) -> list[Outcome]:
            lost = bursts(rng, stalls, runs, alike=True)
            chance, lossy = -np.expm1(-stalls), int((lost > 0).sum())
            bound = Estimate(0, 0, upper_bound_when_none_lost(runs), 0.95, "bound", runs,
                             limits=Limits.BOUND)  # fmt: skip
            # What is said of no losses is judged over all data sets: no other makes it wrong.
            return [
                ("chance that a trial loses", share(lossy, runs), chance),
                ("0 of k trials lost", bound, chance if lossy == 0 else 0.0),
            ]

        yield f"{stalls:g} stalls a trial, {runs} runs", one


def shares(rng: Generator) -> Iterator[tuple[str, Callable[[], list[Outcome]]]]:
    """Shares of a few trials that lose, of two ways to read: what a buffer or priority changes."""
    chances = ((0.5, 0.0), (0.5, 0.05), (0.3, 0.3), (0.9, 0.5), (0.1, 0.05))
    for (one_way, other), trials, runs in product(chances, TRIALS_A_REPETITION, REPETITIONS):

        def one(
            one_way: float = one_way, other: float = other, trials: int = trials, runs: int = runs
        ) -> list[Outcome]:
            a, b = (100 * rng.binomial(trials, p, runs) / trials for p in (one_way, other))
            found = difference_of_shares(a, b, paired=True, unit="")
            return [("difference of shares", found, 100 * (one_way - other))]

        yield f"{one_way:g} against {other:g} of {trials} trials, {runs} runs", one


def _sizes(*, alike: bool) -> str:
    return "bursts alike" if alike else "exponential bursts"


def trends(rng: Generator) -> Iterator[tuple[str, Callable[[], list[Outcome]]]]:
    """Losses in bursts whose mean grows over the runs: by nothing, or threefold."""
    percent = 100 * BURST / SENT
    cells = product(STALLS_A_TRIAL, (6, 12, 36), (0.0, 1.0), (True, False))
    for stalls, runs, growth, alike in cells:
        # Repetitions are not quite evenly spaced: a trial that failed was measured again.
        times = np.arange(runs) + 0.2 * np.sin(np.arange(runs))
        middle = times.mean()
        slope = growth * stalls / runs
        expected = stalls + slope * (times - middle)

        def one(
            expected: np.ndarray = expected,
            times: np.ndarray = times,
            slope: float = slope,
            alike: bool = alike,
        ) -> list[Outcome]:
            lost = bursts(rng, expected, times.size, alike=alike)
            return [("trend of losses", trend_over_runs(lost, times), percent * slope)]

        yield (
            f"{stalls:g} stalls a trial, {_sizes(alike=alike)}, {runs} runs, growth {growth:g}",
            one,
        )


def thresholds(rng: Generator) -> Iterator[tuple[str, Callable[[], list[Outcome]]]]:
    """Thresholds of sweeps with stalled trials and shifts between repetitions."""
    loads = {name: loads_of(name) for name in SWEPT}
    for name, runs, stalled, shift in product(SWEPT, REPETITIONS, STALLED, SHIFTS):

        def one(
            rates: np.ndarray = loads[name],
            runs: int = runs,
            stalled: float = stalled,
            shift: float = shift,
        ) -> list[Outcome]:
            # Anywhere between the loads: no grid may be kind to one truth.
            truth = np.exp(rng.uniform(np.log(300), np.log(700)))
            ratio = np.exp(rng.uniform(-0.2, 0.2))
            hours = shifts(rng, shift, runs)
            control = sweeps(rng, rates, truth * hours, stalled)
            frer = sweeps(rng, rates, truth * ratio * shifts(rng, shift, runs), stalled)
            found = compare_thresholds(frer, control)
            # The same hours for both.
            alike = compare_thresholds(sweeps(rng, rates, truth * ratio * hours, stalled), control)
            return [
                ("ratio, sweeps that shift alike", alike.ratio, ratio),
                ("difference, sweeps that shift alike", alike.difference, truth * (ratio - 1)),
                ("threshold", threshold(control), truth),
                ("ratio of thresholds", found.ratio, ratio),
                ("difference of thresholds", found.difference, truth * (ratio - 1)),
            ]

        yield f"{name}, {runs} runs, {100 * stalled:g} % stalled, shift {shift:g}", one
    for name, runs, most, shift in product(SWEPT, REPETITIONS, BELOW_HALF, SHIFTS):

        def never(
            rates: np.ndarray = loads[name],
            runs: int = runs,
            most: float = most,
            shift: float = shift,
        ) -> list[Outcome]:
            rise = np.exp(rng.uniform(np.log(300), np.log(700))) * shifts(rng, shift, runs)
            swept = sweeps(rng, rates, rise, STALLED[0], most=most)
            return [("threshold that no load reaches", threshold(swept), np.inf)]

        yield f"{name}, {runs} runs, at most {100 * most:g} % lose, shift {shift:g}", never


@cache
def loads_of(name: str) -> np.ndarray:
    """Return the loads of a campaign's main sweep in Mb/s."""
    section = campaign(name).loss
    parts = section.parts if section else []
    main = (p for p in parts if p.objective == "sweep" and p.payload_bytes == 1472 and not p.phase)
    return np.array(sorted({rate for part in main for rate in part.rates_mbps}), float)


@cache
def part_of(objective: Objective) -> LossPart:
    """Return the part of the default campaign with an objective."""
    section = campaign("quick").loss
    assert section is not None
    return next(part for part in section.parts if part.objective == objective)


def stopped(rng: Generator) -> Iterator[tuple[str, Callable[[], list[Outcome]]]]:
    """Thresholds and medians of as many repetitions as it took to know their ratio."""
    latency = campaign("quick").latency
    assert latency is not None
    most_medians, within = latency.max_repetitions or 0, latency.ratio_precision_percent or 0.0
    for scatter in SCATTERS:

        def medians(scatter: float = scatter) -> list[Outcome]:
            ratio = np.exp(rng.uniform(-0.1, 0.1))
            control, frer = 20 * np.exp(rng.normal(0, scatter / 2**0.5, (2, most_medians)))
            frer *= ratio
            for runs in range(MIN_RUNS_TO_STOP, most_medians + 1):
                found = ratio_of_medians(frer[:runs], control[:runs])
                if found.is_precise_to(within):
                    break
            apart = median_difference(frer[:runs], control[:runs], LEVEL_OF_EACH_LOOK, paired=True)
            gap = 20 * (ratio - 1) * np.exp(scatter**2 / 4)
            return [
                ("ratio of medians, stopped", found, ratio),
                ("median difference, stopped", apart, gap),
            ]

        yield f"medians that scatter by {scatter:g}", medians
    parts = [part_of(name) for name in NARROW]
    for part, stalled, shift in product(parts, STALLED, NARROW_SHIFTS):

        def one(
            part: LossPart = part,
            stalled: float = stalled,
            shift: float = shift,
        ) -> list[Outcome]:
            rates = np.array(part.rates_mbps, float)
            least, most = part.repetitions or 0, part.max_repetitions or 0
            truth = np.exp(rng.uniform(*np.log(rates[[0, -1]])))
            ratio = np.exp(rng.uniform(-0.005, 0.005))
            control, frer = (
                sweeps(rng, rates, middle * shifts(rng, shift, most), stalled, NARROW_WIDTH)
                for middle in (truth, truth * ratio)
            )
            for runs in range(least, most + 1):
                found = compare_thresholds(frer[:runs], control[:runs])
                if found.ratio.is_precise_to(part.ratio_precision_percent or 0.0):
                    break
            return [
                ("threshold, stopped", threshold(control[:runs]), truth),
                ("ratio, stopped when known", found.ratio, ratio),
                ("difference, stopped", found.difference, truth * (ratio - 1)),
            ]

        yield f"{part.objective}, {100 * stalled:g} % stalled, shift {shift:g}", one


def shifts(rng: Generator, deviation: float, runs: int) -> np.ndarray:
    """Return the factors by which repetitions differ, shape (runs,)."""
    return np.exp(rng.normal(0, deviation, runs))


def sweeps(
    rng: Generator,
    rates: np.ndarray,
    truths: np.ndarray,
    stalled: float,
    width: float = WIDTH,
    *,
    most: float = 1.0,
) -> list[Sweep]:
    """Return a sweep a repetition, half of whose trials lose at its truth; stalls at any load.

    Where at most a share below one half lose, the truth is the middle of the rise.
    """
    half = special.logit((0.5 - stalled) / (most - stalled)) if most > 0.5 else 0.0
    rise = special.expit(np.log(rates / truths[:, None]) / width + half)
    lossy = rng.random(rise.shape) < stalled + (most - stalled) * rise
    return [Sweep(rates, outcome) for outcome in lossy]


def means(rng: Generator) -> Iterator[tuple[str, Callable[[], list[Outcome]]]]:
    """Latencies and rates whose runs scatter by factors, alone and as ratios."""
    for skew, runs in product(SKEWS, REPETITIONS_OF_PAIRS):
        gap = float(np.median(24 * shifts(rng, skew, 10**6) - 20 * shifts(rng, skew, 10**6)))

        def one(skew: float = skew, runs: int = runs, gap: float = gap) -> list[Outcome]:
            control = 20 * shifts(rng, skew, runs)
            apart = 24 * shifts(rng, skew, runs)
            # The same hour for both, and a tenth of their own.
            alike = control * 1.2 * shifts(rng, skew / 10, runs)
            together = relative_difference(alike, control, paired=True).estimate
            return [
                ("median over runs", median_over_runs(control), 20.0),
                ("ratio, in pairs", relative_difference(apart, control, paired=True).estimate, 20),
                ("ratio, in pairs that shift alike", together, 20.0),
                ("ratio, Welch", relative_difference(apart, control).estimate, 20.0),
                ("median difference", median_difference(apart, control, paired=True), gap),
            ]

        yield f"log-sd {skew:g}, {runs} runs", one


def regimes(rng: Generator, upper: float, size: int, stay: float = 0.0) -> np.ndarray:
    """Return runs in one of two regimes, the upper in 42 %, that stay in it so often."""
    at, fresh = rng.random(size) < 0.42, rng.random(size) >= stay
    fresh[0] = True
    at = at[np.maximum.accumulate(np.where(fresh, np.arange(size), 0))]
    return np.where(at, upper, 9.0) * shifts(rng, 0.02, size)


def autoregressive(rng: Generator, size: int, correlation: float = 0.7) -> np.ndarray:
    """Return standard normal numbers of which neighbours correlate, shape (size,)."""
    noise = rng.normal(size=size)
    noise[1:] *= np.sqrt(1 - correlation**2)
    return lfilter([1], [1, -correlation], noise)


def runs_that_occur(rng: Generator) -> dict[str, Callable[[int], np.ndarray]]:
    """Return generators of latencies, rates and losses as they occur, of none of a book's laws.

    Two regimes of medians, a near and a far one; one run in ten that takes ten times as long;
    stalls with a heavy tail; a tail that one stall holds in 15 % of runs; goodput below a limit;
    readings of a timer in steps; losses with a floor, of which one in ten is large.
    """
    return {
        "regimes 9, 11": lambda size: regimes(rng, 11.3, size),
        "regimes 9, 30": lambda size: regimes(rng, 30.0, size),
        "one in ten": lambda size: shifts(rng, 0.1, size) * np.where(rng.random(size) < 0.1, 10, 1),
        "heavy tail": lambda size: 10 + rng.pareto(1.1, size),
        "held by a stall": lambda size: np.where(
            rng.random(size) < 0.15, rng.uniform(2000, 12_000, size), 150 * shifts(rng, 0.1, size)
        ),
        "below a limit": lambda size: 957.1 - rng.exponential(3, size),
        "steps of 1 us": lambda size: np.floor(9.4 * shifts(rng, 0.15, size)),
        "loss with a floor": lambda size: (
            0.01 * shifts(rng, 0.3, size)
            + np.where(rng.random(size) < 0.1, rng.exponential(3, size), 0.0)
        ),
    }


def hours(rng: Generator) -> dict[str, Callable[[int], np.ndarray]]:
    """Return factors of the repetitions, in their order, that are no independent draws."""
    return {
        "drift of 30 %": lambda size: np.linspace(0.85, 1.15, size),
        "sawtooth of 30 %": lambda size: 0.85 + 0.1 * (np.arange(size) % 4),
        "AR(1) 0.7": lambda size: np.exp(0.1 * autoregressive(rng, size)),
        "sticky neighbours": lambda size: regimes(rng, 11.3, size, stay=0.8) / 9,
    }


def pairs(first: np.ndarray, second: np.ndarray) -> list[Outcome]:
    """Return what pages print of two modes of the same law, of which one has a fifth more."""
    found = [
        ("median difference", median_difference(first, second, paired=True), 0.0),
        ("ratio, in pairs", relative_difference(1.2 * first, second, paired=True).estimate, 20.0),
    ]
    if first.size >= RANKED_FROM:
        logs = signed_rank(np.log(1.2 * first), np.log(second)).estimate
        found += [
            ("signed ranks", signed_rank(first, second).estimate, 0.0),
            ("signed ranks of logarithms", logs, float(np.log(1.2))),
        ]
    return found


def occurring(rng: Generator) -> Iterator[tuple[str, Callable[[], list[Outcome]]]]:
    """Runs as they occur, alone, in pairs, and against half as many repetitions."""
    for (name, draw), runs in product(runs_that_occur(rng).items(), REPETITIONS_OF_PAIRS):
        middle = float(np.median(draw(10**6)))

        def one(
            draw: Callable[[int], np.ndarray] = draw, runs: int = runs, middle: float = middle
        ) -> list[Outcome]:
            first, second = draw(runs), draw(runs)
            unequal = relative_difference(1.2 * first, second[: runs // 2]).estimate
            apart = relative_difference(1.2 * first, second).estimate
            return [
                ("median over runs", median_over_runs(first), middle),
                ("ratio, Welch", apart, 20.0),
                ("ratio, Welch, unequal repetitions", unequal, 20.0),
                *pairs(first, second),
            ]

        yield f"{name}, {runs} runs", one
    for (name, draw), runs in product(hours(rng).items(), REPETITIONS_OF_PAIRS):

        def shared(draw: Callable[[int], np.ndarray] = draw, runs: int = runs) -> list[Outcome]:
            hour = draw(runs)
            return pairs(hour * shifts(rng, 0.03, runs), hour * shifts(rng, 0.03, runs))

        yield f"{name} that both share, {runs} runs", shared
    for level, scatter, runs in product((9.4, 90.0), (0.002, 0.02), (MIN_RUNS_TO_STOP, 16)):

        def in_steps(
            level: float = level, scatter: float = scatter, runs: int = runs
        ) -> list[Outcome]:
            # A timer of 1 us reads what it has reached.
            first, second = (
                np.floor(middle * shifts(rng, scatter, runs)) for middle in (1.03 * level, level)
            )
            found = relative_difference(first, second, paired=True).estimate
            return [("ratio of readings in steps", found, 3.0)]

        yield f"{level:g} us, log-sd {scatter:g}, {runs} runs", in_steps


def dependent(rng: Generator) -> Iterator[tuple[str, Callable[[], list[Outcome]]]]:
    """Repetitions that are not independent, alone and as two modes of which each has its own."""
    for (name, draw), runs in product(hours(rng).items(), REPETITIONS_OF_PAIRS):
        every = [draw(runs) * shifts(rng, 0.03, runs) for _ in range(20_000)]
        middle = float(np.median(np.concatenate(every)))

        def one(
            draw: Callable[[int], np.ndarray] = draw, runs: int = runs, middle: float = middle
        ) -> list[Outcome]:
            first, second = (draw(runs) * shifts(rng, 0.03, runs) for _ in range(2))
            alone = median_over_runs(first)
            return [("median over runs", alone, middle), *pairs(first, second)]

        yield f"{name}, {runs} runs", one


def tails(rng: Generator) -> Iterator[tuple[str, Callable[[], list[Outcome]]]]:
    """Tails of two modes, 200 us apart, of which a stall holds some for milliseconds."""
    for stalled, runs in product((0.05, 0.15, 0.3), (10, 12)):

        def one(stalled: float = stalled, runs: int = runs) -> list[Outcome]:
            held = rng.uniform(2000, 12000, (2, runs)) * (rng.random((2, runs)) < stalled)
            first, second = held + 500 * np.exp(rng.normal(0, 0.3, (2, runs)))
            return [("signed ranks", signed_rank(first + 200, second).estimate, 200.0)]

        yield f"{100 * stalled:g} % stalled, {runs} runs", one


def quantiles(rng: Generator) -> Iterator[tuple[str, Callable[[], list[Outcome]]]]:
    """Quantiles of one run's samples, lognormal and autoregressive."""
    for correlation, n in product(CORRELATIONS, SAMPLES):

        def one(correlation: float = correlation, n: int = n) -> list[Outcome]:
            noise = rng.normal(size=n + 1)
            noise[0] /= np.sqrt(1 - correlation**2)
            gain = np.sqrt(1 - correlation**2)
            samples = np.exp(lfilter([gain], [1, -correlation], noise)[1:])
            return [
                (f"quantile {q:g}", correlated_quantile(samples, q), np.exp(stats.norm.ppf(q)))
                for q in QUANTILES
            ]

        yield f"AR(1) {correlation:g}, {n} samples", one


FAMILIES = {
    f.__name__: f
    for f in (
        losses,
        shares,
        thresholds,
        means,
        occurring,
        quantiles,
        trends,
        stopped,
        tails,
        dependent,
    )
}
UNJUDGED = {"dependent"}


def run(names: list[str], sets: int, seed: int = 1) -> list[Cell]:
    """Return every method in every cell of some families, each over ``sets`` data sets."""
    found: dict[tuple[str, str], Cell] = {}
    for name in names:
        rng = np.random.default_rng([seed, list(FAMILIES).index(name)])
        for cell, one in FAMILIES[name](rng):
            for _ in range(sets):
                for method, estimate, truth in one():
                    place = found.setdefault(
                        (method, cell), Cell(method, cell, judged=name not in UNJUDGED)
                    )
                    place.add(estimate, truth)
    return list(found.values())


def report(cells: list[Cell], *, every: bool) -> None:
    """Print the lowest and the highest coverage of each method, and what is out of limits."""
    print(f"{'method':34} {'cells':>5} {'limits given, hold %':>28} {'intervals, hold %':>28}")
    for method in dict.fromkeys(cell.method for cell in cells):
        own = [cell for cell in cells if cell.method == method]
        ends = (_ends([getattr(cell, kind) for cell in own]) for kind in ("limits", "intervals"))
        print(f"{method:34} {len(own):5}", *(f"{text:>28}" for text in ends))
    for cell in cells:
        if every or not cell.inside:
            mark = "" if cell.inside else "  outside, within chance"
            mark = mark if cell.acceptable() else "  OUT OF LIMITS"
            limits, intervals = (
                f"{tally.percent:.1f} % of {tally.given}" for tally in (cell.limits, cell.intervals)
            )
            print(f"  {cell.method}: {cell.cell}: {limits} limits, {intervals} intervals{mark}")


def _ends(tallies: list[Tally]) -> str:
    """Return over cells which share of the data sets gets limits, and which of these hold."""
    given = [100 * tally.given / tally.sets for tally in tallies]
    holds = [tally.percent for tally in tallies if not tally.rare]
    return f"{min(given):.0f} to {max(given):.0f} %, " + (
        f"{min(holds):.1f} to {max(holds):.1f}" if holds else "-"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], help="default: all")
    parser.add_argument("--sets", type=int, default=SETS, help="data sets a cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", action="store_true", help="print every cell")
    options = parser.parse_args()
    start = time.perf_counter()
    cells = run(options.families or list(FAMILIES), options.sets, options.seed)
    report(cells, every=options.every)
    print(f"{options.sets} data sets a cell, {time.perf_counter() - start:.0f} s")
    return 0 if all(cell.acceptable() for cell in cells) else 1


if __name__ == "__main__":
    sys.exit(main())
