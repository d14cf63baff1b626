"""Simulate how often papers on equal configurations conclude that they differ, and the power.

Campaigns of shaping, loss, TCP and latency whose arms are equal, with the scatter that a default
campaign on software switches has and a drift of 30 % over the campaign, through the product's own
analyses. In at most 5 % of papers one of the primary comparisons may come out as lower, higher or
different. Then FRER, or TAS, gets the smallest effect that the campaign before says it finds: in at
least 80 % of campaigns the verdict has to be found.

    python benchmarks/papers.py                              1,000 campaigns of each experiment
    python benchmarks/papers.py --campaigns 200 latency tcp  some of them, in short
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import product

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from intervals import loads_of, part_of
from scipy import stats as distributions

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.config.campaigns import Campaign
from tsnrepro.config.files import campaign
from tsnrepro.config.papers import sources_of
from tsnrepro.experiments.latency import analysis as latency_analysis
from tsnrepro.experiments.latency.stopping import ratio_of_medians
from tsnrepro.experiments.loss import analysis as loss_analysis
from tsnrepro.experiments.loss import intervention
from tsnrepro.experiments.shaping import analysis as shaping_analysis
from tsnrepro.experiments.shaping import values as shaping_values
from tsnrepro.experiments.shaping.log import LISTENER_DTYPE
from tsnrepro.experiments.shaping.modes import HELD_AGAINST
from tsnrepro.experiments.shaping.plan import Factors
from tsnrepro.experiments.tcp import analysis as tcp_analysis
from tsnrepro.published.families import judged_together
from tsnrepro.records.values import Result
from tsnrepro.results.results import Results
from tsnrepro.stats.estimate import SIGNIFICANCE
from tsnrepro.stats.proportions import share

Generator = np.random.Generator
# Effects on the second arm by the key of the comparison: factors, of shares of trials rises.
Effects = dict[str, float]
Values = dict[str, Result]
Simulated = Callable[[Generator, Effects], Results]
DRIFT = 0.3
MOST_FALSE, LEAST_FOUND, CHANCE = 0.05, 0.80, 0.01
FALSE = {"lower", "higher", "different", "frer higher", "control higher"}
# One trial has one change: of the intervention only the buffer's effect is tried. All of the sweep
# is lost in the network.
UNTRIED = {"loss.intervention.realtime", "loss.intervention.frer", "loss.threshold.network"}
LOSS_COMPARED = {
    "loss.threshold": "sweep",
    "loss.limit.end_to_end": "limit",
    "loss.bottleneck.network": "bottleneck",
    "loss.intervention.buffer": "intervention",
}
"""Comparisons of loss, and the questions of their trials."""
EXPERIMENTS_OF_FRER = ("loss", "tcp", "latency")

# Standard deviations of the logarithm of one run, of a default campaign on software switches.
LATENCY_SCATTER = {"p50": 0.0074, "mean": 0.0144, "p90": 0.035, "p99": 0.09, "p99_9": 0.15}
TCP_SCATTER, TCP_LIMIT_SCATTER = 0.012, 0.004
SHAPING_SCATTER = {"p50": 0.12, "p90": 0.17, "p95": 0.17, "p99": 0.25, "p99_9": 0.5, "max": 0.5}
# In so many runs a stall holds the tail, for 2 to 12 ms where it is 150 us otherwise.
HELD, HELD_STATISTICS = 0.15, {"p99", "p99_9", "max"}
STALLED, SHIFT, NARROW_SHIFT = 0.05, 0.1, 0.001
LOSSY_SHARE = 0.15


@cache
def default_campaign() -> Campaign:
    return campaign("quick")


def drift(rng: Generator, repetitions: int, arms: int) -> np.ndarray:
    """Return the factors of a drift at the time of each trial, shape (repetitions, arms).

    The order within a repetition is random.
    """
    order = rng.permuted(np.tile(np.arange(arms), (repetitions, 1)), axis=1)
    place = (np.arange(repetitions)[:, None] * arms + order) / (repetitions * arms - 1)
    return 1 + DRIFT * place


def identity(names: list[str], repetitions: list[int], configurations: list[str]) -> pd.DataFrame:
    """Return the columns that name trials."""
    return pd.DataFrame(
        {
            "trial": names,
            "sha256": [f"{number:064x}" for number in range(len(names))],
            "repetition": repetitions,
            "configuration": configurations,
        }
    )


def two_arms(repetitions: int, name: str) -> pd.DataFrame:
    """Return a trial of each configuration a repetition."""
    cells = [(n, c) for n in range(1, repetitions + 1) for c in CONFIGURATIONS]
    names = [f"{name}-{c}-{n}" for n, c in cells]
    return identity(names, [n for n, _ in cells], [c for _, c in cells])


def in_order(values: np.ndarray) -> np.ndarray:
    """Return the values of both arms in the order of :func:`two_arms`, control first."""
    return values.reshape(-1)


def latency(rng: Generator, effects: Effects) -> Results:
    """Return the results of a latency campaign that stops once the ratio is known."""
    settings = default_campaign().latency
    assert settings is not None
    most, within = settings.max_repetitions or 6, settings.ratio_precision_percent or 0.0
    shared = drift(rng, most, 2)
    columns = {}
    for name, scatter in LATENCY_SCATTER.items():
        values = 20 * shared * np.exp(rng.normal(0, scatter, (most, 2)))
        key = "latency.p50.equivalence" if name == "p50" else f"latency.{name}"
        values[:, 1] *= effects.get(key, 1.0)
        columns[f"{name}_us"] = values
    runs = most
    for runs in range(6, most + 1):
        first = columns["p50_us"][:runs]
        if ratio_of_medians(first[:, 1], first[:, 0]).is_precise_to(within):
            break
    table = two_arms(runs, "latency").assign(
        payload_bytes=1472, duration_s=1.0, observations=10_000, sd_us=1.0, min_us=10.0, max_us=50.0
    )
    for q in latency_analysis.QUANTILES:
        table[f"{q}_us"] = 20.0
    for name, values in columns.items():
        table[name] = in_order(values[:runs])
    results = Results("latency", table)
    control, frer = (table[table["configuration"] == c] for c in CONFIGURATIONS)
    latency_analysis.add_comparisons(results, frer, control, table)
    return results


def tcp(rng: Generator, effects: Effects) -> Results:
    """Return the results of a TCP campaign: of three durations, and over links of 200 Mb/s."""
    settings = default_campaign().tcp
    assert settings is not None
    tables = {}
    for key, repetitions, scatter, rate, durations in (
        ("tcp.equivalence", settings.repetitions, TCP_SCATTER, None, (1.0, 2.0, 3.0)),
        ("tcp.limit.equivalence", 6, TCP_LIMIT_SCATTER, 200, (1.0,)),
    ):
        shared = drift(rng, repetitions, 2)
        own = np.exp(rng.normal(0, scatter, (repetitions, 2)))
        for duration in durations:
            values = 600 * shared * own if rate is None else 140 * shared * own
            values[:, 1] *= effects.get(key, 1.0)
            named = two_arms(repetitions, f"tcp-{rate}-{duration:g}")
            tables.setdefault(key, []).append(named.assign(goodput_mbps=in_order(values)))
    whole = {key: pd.concat(own, ignore_index=True) for key, own in tables.items()}
    results = Results("tcp", pd.concat(whole.values()))
    for key, table in whole.items():
        of = {c: table[table["configuration"] == c] for c in CONFIGURATIONS}
        name = key.removesuffix(".equivalence")
        tcp_analysis.add_comparison(results, name, of, table)
    return results


def loss(rng: Generator, effects: Effects) -> Results:
    """Return the results of a loss campaign: a sweep, two questions, and the intervention."""
    # Where there are effects, no other comparison changes what these find.
    simulated = LOSS_COMPARED.keys() & effects.keys() or LOSS_COMPARED.keys()
    tables = []
    for key in sorted(simulated):
        question = LOSS_COMPARED[key]
        if question == "intervention":
            tables.append(_intervention(rng, effects.get(key, 0.0)))
        else:
            tables.append(_of_question(rng, question, effects.get(key, 1.0)))
    table = pd.concat(tables, ignore_index=True)
    table["sha256"] = [f"{number:064x}" for number in range(len(table))]
    types = {"receive_buffer_bytes": "Int64", "realtime_listener": "boolean"}
    results = Results("loss", table)
    for question, trials in table.astype(types).groupby("question"):
        if question == "intervention":
            intervention.add_verdicts(results, trials)
        else:
            loss_analysis.add_thresholds(results, str(question), trials, 1000.0)
    return results


@cache
def repetitions_by_load() -> dict[float, int]:
    """Return the loads of a default campaign's main sweep, and how often each is measured."""
    section = default_campaign().loss
    assert section is not None
    repetitions = {
        rate: part.repetitions or section.repetitions
        for part in section.parts
        if part.objective == "sweep" and part.payload_bytes == 1472 and not part.phase
        for rate in part.rates_mbps
    }
    return {rate: repetitions[rate] for rate in loads_of("quick").tolist()}


def _of_question(rng: Generator, question: str, effect: float) -> pd.DataFrame:
    """Return the trials of the sweep, or of what the path carries to a program that can wait."""
    if question == "sweep":
        by_load = repetitions_by_load()
        return _swept(rng, question, by_load, middle=450.0, shift=SHIFT, effect=effect)
    part = part_of(question)
    by_load = dict.fromkeys(part.rates_mbps, part.max_repetitions or 6)
    middle = {"limit": 480.0, "bottleneck": 192.05}[question]
    found = _swept(rng, question, by_load, middle=middle, shift=NARROW_SHIFT, effect=effect)
    return found.assign(receive_buffer_bytes=8_000_000)


def _swept(
    rng: Generator,
    question: str,
    by_load: dict[float, int],
    *,
    middle: float,
    shift: float,
    effect: float,
) -> pd.DataFrame:
    """Return a sweep of both configurations, whose thresholds shift alike and apart."""
    repetitions, rates = max(by_load.values()), np.array(sorted(by_load), float)
    shared = np.exp(rng.normal(0, shift, repetitions))
    # A third of the sweep's drift is all that a line's limit has.
    drifting = drift(rng, repetitions, 1)[:, 0] / (1 + DRIFT / 2) if question == "sweep" else 1.0
    rows = []
    for configuration, factor in zip(CONFIGURATIONS, (1.0, effect), strict=True):
        own = middle * factor * shared * drifting * np.exp(rng.normal(0, shift / 3, repetitions))
        for number, threshold in enumerate(own, start=1):
            chance = np.where(rates > threshold, 1.0, STALLED if question == "sweep" else 0.01)
            lossy = rng.random(rates.size) < chance
            rows += [
                (configuration, number, rate, int(lost) * 100)
                for rate, lost in zip(rates.tolist(), lossy, strict=True)
                if number <= by_load[rate]
            ]
    return _trials(question, rows)


def _trials(question: str, rows: list[tuple[str, int, float, int]]) -> pd.DataFrame:
    configurations, numbers, rates, lost = (list(column) for column in zip(*rows, strict=True))
    names = [f"{question}-{number}" for number in range(len(rows))]
    of_rate = np.array(rates, float)
    return identity(names, numbers, configurations).assign(
        question=question,
        payload_bytes=1472,
        duration_s=0.5,
        target_mbps=of_rate,
        offered_mbps=of_rate,
        delivered_mbps=of_rate,
        sent=10_000,
        lost=lost,
        received=10_000 - np.array(lost),
        loss_percent=np.array(lost) / 100,
        copies=0,
        eliminated=0,
        unaccounted=0,
        out_of_order=0,
        network_lost=lost,
        host_lost=0,
        drop_sw2_queue_p0=lost,
        receive_buffer_bytes=None,
        realtime_listener=None,
        member_link_rate_mbps=None,
        link_rate_mbps=None,
    )


def _intervention(rng: Generator, rise: float) -> pd.DataFrame:
    """Return trials that lose by stalls of their hour, with larger buffers more by a rise."""
    rows, sizes, priorities = [], [], []
    part = part_of("intervention")
    cells = (part.receive_buffers_bytes, (False, True), CONFIGURATIONS, part.rates_mbps)
    for number in (1, 2, 3):
        # Shared by a repetition: a bad hour loses more.
        chance = LOSSY_SHARE * rng.gamma(4) / 4
        for size, realtime, c, rate in product(*cells):
            lost = rng.random() < chance + (rise if size else 0.0)
            rows.append((c, number, rate, 100 * int(lost)))
            sizes.append(size)
            priorities.append(realtime)
    found = _trials("intervention", rows)
    return found.assign(receive_buffer_bytes=sizes, realtime_listener=priorities)


def shaping_run() -> shaping_analysis.Run:
    """Return a run of a default campaign's parts that compare two modes, and no numbers yet."""
    documents, logs = {}, {}
    section = default_campaign().shaping
    assert section is not None
    for part in (p.on("emulated") for p in section.parts):
        two = next((pair[:2] for pair in HELD_AGAINST if pair[2] == part.kind), ())
        if not {*two} or not {*two} <= {*part.modes}:
            continue
        settings = part.model_copy(update={"modes": [*two]})
        of_parts = (range(1, (part.repetitions or section.repetitions) + 1), two, part.loads_mbps)
        for number, mode, load in product(*of_parts):
            name = f"{part.name}-{mode}-{load:g}-{number}"
            log = np.zeros(2, LISTENER_DTYPE)
            log["received_ns"] = 1000
            rates = {"load_offered_mbps": load, "load_delivered_mbps": load}
            counts = {"sent": 2, "received": 2, "lost": 0, "out_of_order": 0}
            documents[name] = {
                "trial": name,
                "sha256": f"{len(documents):064x}",
                "repetition": number,
                "order": 0,
                "started": "2026-01-01T00:00:00+00:00",
                "factors": Factors.one(settings, mode, load).stored(),
                "values": {"result": counts | rates, "medium": "software", "egress": {}},
            }
            logs[name] = log
    return shaping_analysis.assemble(documents, logs)


def shaping(rng: Generator, effects: Effects, run: shaping_analysis.Run) -> Results:
    """Return the verdicts of TAS against strict priority, and of CBS against TAS, of a campaign."""
    packets = {part.name: part.packets for part in run.parts()}
    sent = run.trials["part"].map(packets)
    table = run.trials.assign(received=sent, sent=sent)
    for part, rows in table.groupby("part"):
        (kind,) = {each.kind for each in run.parts() if each.name == part}
        (one, other, _, statistics) = next(pair for pair in HELD_AGAINST if pair[2] == kind)
        for load, trials in rows.groupby("load"):
            sides = [
                trials[trials["mode"] == mode].sort_values("repetition") for mode in (one, other)
            ]
            shape = (len(sides[0]), 2)
            shared, held = drift(rng, *shape), rng.random(shape) < HELD
            for name in statistics:
                values = 150 * shared * np.exp(rng.normal(0, SHAPING_SCATTER[name], shape))
                if name in HELD_STATISTICS:
                    values = np.where(held, rng.uniform(2000, 12_000, shape), values)
                key = f"shaping.{part.replace('-', '_')}.{one}_against_{other}.{load}.{name}"
                values[:, 0] *= effects.get(key, 1.0)
                for side, column in zip(sides, values.T, strict=True):
                    table.loc[side.index, f"{name}_us"] = column
    results = Results("shaping", table)
    found = shaping_analysis.Run(table, run.logs, run.documents)
    shaping_values.add_modes_against_modes(results, found)
    return results


def values_of(results: Results) -> Values:
    """Return the verdicts, and what stands beside them."""
    ends = (".verdict", ".p", ".detectable.percent")
    return {key: results.of(key) for key in results.keys if key.endswith(ends)}


def differs(values: Values, keys: list[str]) -> bool:
    """Tell whether a verdict says that equal configurations differ."""
    verdicts = (values[f"{key}.verdict"].value for key in keys if f"{key}.verdict" in values)
    return any(verdict in FALSE for verdict in verdicts)


def of_its_table(values: Values, key: str) -> object:
    """Return the verdict of a comparison in the family of its table, which its power is that of."""
    if f"{key}.verdict" in values:
        return values[f"{key}.verdict"].value
    beside = values.get(f"{key}.exploratory.p")
    # An equivalence has no family, and the p value beside it is not that of a difference.
    if beside is None or key.endswith(".equivalence") or beside.value is None:
        return values[f"{key}.unadjusted.verdict"].value
    return values[f"{key}.unadjusted.verdict"].value if beside.value <= SIGNIFICANCE else None


def effects_of(values: Values) -> Effects:
    """Return the smallest effects that a campaign says it finds, as factors."""
    found = {}
    end = ".power.detectable.percent"
    for key, item in values.items():
        if key.endswith(end) and item.value is not None:
            # Of a share a rise in points, of all others a factor.
            rise = item.unit == "percentage points"
            found[key.removesuffix(end)] = item.value / 100 + (0 if rise else 1)
    return found


def acceptable(count: int, of: int, bound: float, *, at_most: bool) -> bool:
    """Tell whether a share may be within its bound, by a binomial test."""
    law = distributions.binom
    chance = law.sf(count - 1, of, bound) if at_most else law.cdf(count, of, bound)
    return chance >= CHANCE


PAPERS = {
    "tas-evaluation": ("shaping",),
    "software-bridge": ("shaping",),
    "frer-udp": EXPERIMENTS_OF_FRER,
    "frer-fail-operational": ("loss", "tcp", "latency"),
    "rfc2544-methodology": ("loss",),
}
"""Papers, and the experiments of their primary comparisons that are simulated."""


@dataclass
class Tally:
    """Of how many papers, or effects, how many were false, or found."""

    of: Counter = field(default_factory=Counter)
    primary: Counter = field(default_factory=Counter)
    anything: Counter = field(default_factory=Counter)
    tried: Counter = field(default_factory=Counter)
    found: Counter = field(default_factory=Counter)

    def count_papers(self, values: dict[str, Values]) -> None:
        """Count what each paper on one campaign says of equal arms."""
        for paper, parts in PAPERS.items():
            if not all(part in values for part in parts):
                continue
            together = {key: item for part in parts for key, item in values[part].items()}
            primary = sources_of(paper).primary
            stems = {
                key.removesuffix(".verdict").removesuffix(".unadjusted")
                for key in together
                if key.endswith(".verdict")
            }
            self.of[paper] += 1
            self.primary[paper] += differs(judged_together(together, [primary]), primary)
            self.anything[paper] += any(of_its_table(together, key) in FALSE for key in stems)

    def count_found(self, effects: Effects, after: Values) -> None:
        """Count which effects a further campaign finds."""
        for key in effects.keys() - UNTRIED:
            self.tried[key] += 1
            self.found[key] += of_its_table(after, key) in FALSE


def simulate(
    experiments: dict[str, Simulated], campaigns: int, seed: int, minutes: float = np.inf
) -> Tally:
    """Return what campaigns with equal arms say, and what those with the smallest effects find."""
    end, tally = time.perf_counter() + 60 * minutes, Tally()
    rngs = {name: np.random.default_rng([seed, *name.encode()]) for name in experiments}
    for number in range(campaigns):
        if time.perf_counter() > end:
            break
        equal = {name: values_of(one(rngs[name], {})) for name, one in experiments.items()}
        tally.count_papers(equal)
        for name, one in experiments.items():
            if effects := effects_of(equal[name]):
                tally.count_found(effects, values_of(one(rngs[name], effects)))
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {campaigns}", end="", file=sys.stderr)
    return tally


def limits(count: int, of: int) -> str:
    """Return a share in percent with its exact limits."""
    found = share(count, of).scaled(100, "%")
    return f"{found.value:5.1f} ({found.low:.1f} to {found.high:.1f}) %"


def print_tally(tally: Tally) -> bool:
    """Print false verdicts of papers and found effects; return whether both keep their bounds."""
    sound = True
    if tally.of:
        print(f"{'paper with equal arms':40} {'papers':>6}  {'false, primary':24} any verdict")
    for paper, of in tally.of.items():
        fits = acceptable(tally.primary[paper], of, MOST_FALSE, at_most=True)
        sound &= fits
        both = [limits(each[paper], of) for each in (tally.primary, tally.anything)]
        print(f"{paper:40} {of:6}  {both[0]:24} {both[1]}{'' if fits else '  TOO OFTEN'}")
    print(f"\n{'smallest effect':64} {'of':>6}  found")
    for key, of in sorted(tally.tried.items()):
        fits = acceptable(tally.found[key], of, LEAST_FOUND, at_most=False)
        sound &= fits
        print(f"{key:64} {of:6}  {limits(tally.found[key], of)}{'' if fits else '  TOO RARELY'}")
    return sound


def simulations() -> dict[str, Simulated]:
    """Return the campaign of each experiment."""
    run = shaping_run()
    return {
        "latency": latency,
        "tcp": tcp,
        "shaping": lambda rng, effects: shaping(rng, effects, run),
        "loss": loss,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = simulations()
    parser.add_argument("experiments", nargs="*", choices=[*every, []], help="default: all")
    parser.add_argument("--campaigns", type=int, default=1000, help="of each experiment")
    parser.add_argument("--minutes", type=float, default=np.inf, help="at most")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chosen = {name: every[name] for name in options.experiments or every}
    tally = simulate(chosen, options.campaigns, options.seed, options.minutes)
    return 0 if print_tally(tally) else 1


if __name__ == "__main__":
    sys.exit(main())
