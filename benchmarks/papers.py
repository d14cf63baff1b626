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
from itertools import product

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from intervals import loads_of, narrow_part
from scipy import stats as distributions

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.config.files import campaign
from tsnrepro.config.papers import sources_of
from tsnrepro.experiments.latency import analysis as latency_analysis
from tsnrepro.experiments.latency.stopping import ratio_of_medians
from tsnrepro.experiments.loss import analysis as loss_analysis
from tsnrepro.experiments.shaping import analysis as shaping_analysis
from tsnrepro.experiments.shaping import values as shaping_values
from tsnrepro.experiments.shaping.log import LISTENER_DTYPE
from tsnrepro.experiments.shaping.plan import Factors
from tsnrepro.experiments.tcp import analysis as tcp_analysis
from tsnrepro.published.families import judged_together
from tsnrepro.records.values import Result
from tsnrepro.results.results import Results

Generator = np.random.Generator
# Effects on the second arm, as factors by the key of the comparison.
Effects = dict[str, float]
DRIFT = 0.3
MOST_FALSE, LEAST_FOUND, CHANCE = 0.05, 0.80, 0.01
FALSE = {"lower", "higher", "different", "frer higher", "control higher"}
# One trial has one change: of the intervention only the buffer's effect is tried.
UNTRIED = {"loss.intervention.realtime", "loss.intervention.frer"}
EXPERIMENTS_OF_FRER = ("loss", "tcp", "latency")

# Standard deviations of the logarithm of one run, of a default campaign on software switches.
LATENCY_SCATTER = {"p50": 0.0074, "mean": 0.0144, "p90": 0.035, "p99": 0.09, "p99_9": 0.15}
TCP_SCATTER, TCP_LIMIT_SCATTER = 0.012, 0.004
SHAPING_SCATTER = {"p50": 0.12, "p95": 0.17, "p99": 0.25, "max": 0.5}
# In so many runs a stall holds the tail, for 2 to 12 ms where it is 150 us otherwise.
HELD = 0.15
STALLED, SHIFT, NARROW_SHIFT = 0.05, 0.1, 0.001
LOSSY_SHARE = 0.15
BUFFERS = (None, 1_000_000, 4_000_000, 8_000_000, 16_000_000)
TRIED = (300.0, 600.0, 900.0)
REPETITIONS_OF_PART = {"long-cycle": 12, "long-cycle-synchronised": 12, "short-cycle": 3}


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
    settings = campaign("quick").latency
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
    return latency_analysis.analyse(table, {trial: np.empty(0) for trial in table["trial"]})


def tcp(rng: Generator, effects: Effects) -> Results:
    """Return the results of a TCP campaign: of three durations, and over links of 200 Mb/s."""
    settings = campaign("quick").tcp
    assert settings is not None
    tables = []
    for key, repetitions, scatter, rate, durations in (
        ("tcp.equivalence", settings.repetitions, TCP_SCATTER, None, (1.0, 2.0, 3.0)),
        ("tcp.limit.equivalence", 6, TCP_LIMIT_SCATTER, 200, (1.0,)),
    ):
        shared = drift(rng, repetitions, 2)
        own = np.exp(rng.normal(0, scatter, (repetitions, 2)))
        for duration in durations:
            values = 600 * shared * own if rate is None else 140 * shared * own
            values[:, 1] *= effects.get(key, 1.0)
            tables.append(
                two_arms(repetitions, f"tcp-{rate}-{duration:g}").assign(
                    duration_s=duration,
                    link_rate_mbps=rate,
                    goodput_mbps=in_order(values),
                    retransmits=0,
                )
            )
    table = pd.concat(tables, ignore_index=True)
    table["sha256"] = [f"{number:064x}" for number in range(len(table))]
    table["link_rate_mbps"] = table["link_rate_mbps"].astype("Int64")
    return tcp_analysis.analyse(table, 1000.0)


def loss(rng: Generator, effects: Effects) -> Results:
    """Return the results of a loss campaign: a sweep, two questions, and the intervention."""
    effect = effects.get("loss.threshold", 1.0)
    how = {"middle": 450.0, "shift": SHIFT, "effect": effect}
    tables = [_swept(rng, "sweep", loads_of("quick"), 3, **how)]
    for objective, middle in (("limit", 480.0), ("bottleneck", 192.05)):
        part = narrow_part(objective)
        rates, runs = np.array(part.rates_mbps, float), part.max_repetitions or 6
        scope = {"limit": "end_to_end", "bottleneck": "network"}[objective]
        effect = effects.get(f"loss.{objective}.{scope}", 1.0)
        how = {"middle": middle, "shift": NARROW_SHIFT, "effect": effect}
        swept = _swept(rng, objective, rates, runs, **how)
        tables.append(swept.assign(receive_buffer_bytes=8_000_000))
    tables.append(_intervention(rng, effects.get("loss.intervention.buffer", 1.0)))
    table = pd.concat(tables, ignore_index=True)
    table["sha256"] = [f"{number:064x}" for number in range(len(table))]
    table["receive_buffer_bytes"] = table["receive_buffer_bytes"].astype("Int64")
    table["realtime_listener"] = table["realtime_listener"].astype("boolean")
    return loss_analysis.analyse(table, 1000.0)


def _swept(
    rng: Generator,
    question: str,
    rates: np.ndarray,
    repetitions: int,
    *,
    middle: float,
    shift: float,
    effect: float,
) -> pd.DataFrame:
    """Return a sweep of both configurations, whose thresholds shift alike and apart."""
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
                for rate, lost in zip(rates, lossy, strict=True)
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


def _intervention(rng: Generator, effect: float) -> pd.DataFrame:
    """Return trials that lose by stalls of their hour, with larger buffers times an effect."""
    rows, sizes, priorities = [], [], []
    for number in (1, 2, 3):
        # Shared by a repetition: a bad hour loses more.
        share = LOSSY_SHARE * rng.gamma(4) / 4
        for size, realtime, c, rate in product(BUFFERS, (False, True), CONFIGURATIONS, TRIED):
            lost = rng.random() < share * (effect if size else 1.0)
            rows.append((c, number, rate, 100 * int(lost)))
            sizes.append(size)
            priorities.append(realtime)
    found = _trials("intervention", rows)
    return found.assign(receive_buffer_bytes=sizes, realtime_listener=priorities)


def shaping_run() -> shaping_analysis.Run:
    """Return a run of modes with the repetitions of a default campaign, and no numbers yet."""
    documents, logs = {}, {}
    section = campaign("quick").shaping
    assert section is not None
    for part in (p.on("emulated") for p in section.parts if p.name in REPETITIONS_OF_PART):
        # Under one load each, as the keys of a default campaign have it.
        loads = sorted({0.0, max(part.loads_mbps)})
        settings = part.model_copy(update={"modes": ["tas", "prio"], "loads_mbps": loads})
        for number in range(1, REPETITIONS_OF_PART[part.name] + 1):
            for mode in ("tas", "prio"):
                for load in loads:
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
    """Return the verdicts of TAS against strict priority of a campaign."""
    table = run.trials.assign(received=30_000, sent=30_000)
    for part, rows in table.groupby("part"):
        for load, trials in rows.groupby("load"):
            cell = trials.sort_values(["repetition", "mode"], ascending=[True, False])
            repetitions = len(cell) // 2
            shared = drift(rng, repetitions, 2)
            held = rng.random((repetitions, 2)) < HELD
            for name, scatter in SHAPING_SCATTER.items():
                values = 150 * shared * np.exp(rng.normal(0, scatter, (repetitions, 2)))
                if name in ("p99", "max"):
                    values = np.where(held, rng.uniform(2000, 12_000, values.shape), values)
                key = f"shaping.{str(part).replace('-', '_')}.tas_against_prio.{load}.{name}"
                # The mode that sorts last comes first.
                values[:, 0] *= effects.get(key, 1.0)
                table.loc[cell.index, f"{name}_us"] = values.reshape(-1)
    results = Results("shaping", table)
    found = shaping_analysis.Run(table, run.logs, run.documents)
    shaping_values.add_modes_against_modes(results, found)
    return results


def values_of(results: Results) -> dict[str, Result]:
    return {key: results.of(key) for key in results.keys}


def differs(values: dict[str, Result], keys: list[str]) -> bool:
    """Tell whether a verdict says that equal configurations differ."""
    verdicts = (values[f"{key}.verdict"].value for key in keys if f"{key}.verdict" in values)
    return any(verdict in FALSE for verdict in verdicts)


def effects_of(values: dict[str, Result]) -> Effects:
    """Return the smallest effects that a campaign says it finds, as factors."""
    found = {}
    end = ".power.detectable.percent"
    for key, item in values.items():
        if key.endswith(end) and item.value is not None:
            points = item.unit == "percentage points"
            found[key.removesuffix(end)] = (
                max(0.0, 1 - item.value / (100 * LOSSY_SHARE)) if points else 1 + item.value / 100
            )
    return found


def acceptable(count: int, of: int, bound: float, *, at_most: bool) -> bool:
    """Tell whether a share may be within its bound, by a binomial test."""
    law = distributions.binom
    chance = law.sf(count - 1, of, bound) if at_most else law.cdf(count, of, bound)
    return chance >= CHANCE


def simulate(
    simulated: Callable[[Generator, Effects], Results],
    campaigns: int,
    seed: list[int],
    minutes: float,
) -> tuple[list[dict[str, Result]], Counter, Counter]:
    """Return the values of campaigns with equal arms, and how often effects were tried, found."""
    rng, end = np.random.default_rng(seed), time.perf_counter() + 60 * minutes
    equal, tried, found = [], Counter(), Counter()
    for _ in range(campaigns):
        if time.perf_counter() > end:
            break
        equal.append(values_of(simulated(rng, {})))
        effects = effects_of(equal[-1])
        after = values_of(simulated(rng, effects))
        for key in effects.keys() - UNTRIED:
            tried[key] += 1
            found[key] += after[f"{key}.verdict"].value in FALSE
    return equal, tried, found


def print_papers(equal: dict[str, list[dict[str, Result]]]) -> bool:
    """Print in which share of papers equal arms come out as different."""
    sound = True
    papers = {
        "tas-evaluation": ("shaping",),
        "frer-udp": EXPERIMENTS_OF_FRER,
        "frer-fail-operational": ("loss", "tcp"),
        "rfc2544-methodology": ("loss",),
    }
    print(f"{'paper with equal arms':32} {'papers':>7} {'false, primary':>15} {'any verdict':>12}")
    for paper, parts in papers.items():
        if not all(part in equal for part in parts):
            continue
        primary, wrong, anything = sources_of(paper).primary, 0, 0
        together = list(zip(*(equal[part] for part in parts), strict=False))
        for campaigns in together:
            values = {key: item for one in campaigns for key, item in one.items()}
            wrong += differs(judged_together(values, [primary]), primary)
            stems = [k.removesuffix(".verdict") for k in values if k.endswith(".verdict")]
            anything += differs(values, [k for k in stems if not k.endswith(".unadjusted")])
        fits = acceptable(wrong, len(together), MOST_FALSE, at_most=True)
        sound &= fits
        share, whole = 100 * wrong / len(together), 100 * anything / len(together)
        mark = "" if fits else "  TOO OFTEN"
        print(f"{paper:32} {len(together):7} {share:13.1f} % {whole:10.1f} %{mark}")
    return sound


def print_power(tried: Counter, found: Counter) -> bool:
    """Print how often the smallest effect was found, by comparison."""
    sound = True
    print(f"\n{'smallest effect':62} {'campaigns':>9} {'found':>8}")
    for key, of in sorted(tried.items()):
        fits = acceptable(found[key], of, LEAST_FOUND, at_most=False)
        sound &= fits
        mark = "" if fits else "  TOO RARELY"
        print(f"{key:62} {of:9} {100 * found[key] / of:6.1f} %{mark}")
    return sound


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    run = shaping_run()
    simulated: dict[str, Callable[[Generator, Effects], Results]] = {
        "latency": latency,
        "tcp": tcp,
        "shaping": lambda rng, effects: shaping(rng, effects, run),
        "loss": loss,
    }
    parser.add_argument("experiments", nargs="*", choices=[*simulated, []], help="default: all")
    parser.add_argument("--campaigns", type=int, default=1000, help="of each experiment")
    parser.add_argument("--minutes", type=float, default=np.inf, help="of each, at most")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    equal, tried, found = {}, Counter(), Counter()
    for number, (name, one) in enumerate(simulated.items()):
        if options.experiments and name not in options.experiments:
            continue
        start = time.perf_counter()
        seed = [options.seed, number]
        equal[name], of, hits = simulate(one, options.campaigns, seed, options.minutes)
        tried += of
        found += hits
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    sound = print_papers(equal)
    return 0 if print_power(tried, found) & sound else 1


if __name__ == "__main__":
    sys.exit(main())
