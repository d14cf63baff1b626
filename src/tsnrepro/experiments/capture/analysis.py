"""The wire: what captures at the member ports and at the listener show, over the trials of a run.

Everything is computed again from the captures and counters of the records.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsnrepro.experiments.capture.report import BEYOND_FIRST, ONE_TAG, WireReport
from tsnrepro.experiments.capture.trial_report import recorded_report
from tsnrepro.records.store import open_run, recorded_trials
from tsnrepro.results.estimates import mean_of_all
from tsnrepro.results.results import Results
from tsnrepro.stats.quantiles import replicated_quantile

_DELAYS = {"p1": 0.01, "p50": 0.5, "p99": 0.99}
_SUBJECTS = ("capture", "wire", "counters")


def reports(manifest_path: str | Path) -> Iterator[tuple[dict[str, Any], WireReport]]:
    """Yield each trial's record and its report, computed from the captures; one at a time.

    Raises RecordError if a trial is missing, was altered, or its captures cannot be read.
    """
    store, _ = open_run(manifest_path)
    for document in recorded_trials(manifest_path):
        yield document, recorded_report(store.output_bytes, document)


def trials_of(reported: list[tuple[dict[str, Any], WireReport]]) -> pd.DataFrame:
    """Return one row a trial: its factors, what was captured and what disagrees."""
    return pd.DataFrame([_row(document, report) for document, report in reported])


def _row(document: dict[str, Any], report: WireReport) -> dict[str, Any]:
    factors = document["factors"]
    orders = [path.order for path in report.paths if path.order]
    won = {f"won_{path.port}": path.won for path in report.paths}
    return {
        **{key: document[key] for key in ("trial", "sha256", "repetition")},
        **{key: factors[key] for key in ("configuration", "payload_bytes", "duration_s")},
        "target_mbps": float(factors["rate_mbps"]),
        "captured": sum(p.frames for p in report.paths) + report.listener_stream_frames,
        "stream_frames": report.listener_stream_frames,
        "member_stream_frames": sum(p.stream_frames + p.stream_fragments for p in report.paths),
        "tagged": sum(path.tagged for path in report.paths),
        "missing": sum(order.missing for order in orders),
        "out_of_order": sum(order.out_of_order for order in orders),
        "repeated": sum(order.repeated for order in orders),
        "tagged_stream": sum(f.found for f in report.findings if f.name == ONE_TAG),
        "beyond_first": sum(f.found for f in report.findings if f.name == BEYOND_FIRST),
        "first_number": min((p.first for p in report.paths if p.first is not None), default=None),
        **won,
        "ties": report.ties,
        "single_copies": report.single_copies,
        **{f"delay_{name}_us": value for name, value in report.delay_us.items()},
        **{f"{s}_disagreements": len(report.disagreements(s)) for s in _SUBJECTS},
        "agrees": report.agrees,
    }


def findings(reported: list[tuple[dict[str, Any], WireReport]]) -> pd.DataFrame:
    """Return one row a comparison, for the report and for looking at."""
    return pd.DataFrame(
        [
            {
                "trial": document["trial"],
                "subject": finding.subject,
                "where": finding.where,
                "name": finding.name,
                "expected": str(finding.expected),
                "found": finding.found,
                "agrees": finding.agrees,
                "note": finding.note,
            }
            for document, report in reported
            for finding in report.findings
        ]
    )


def delays(reported: list[tuple[dict[str, Any], WireReport]]) -> dict[str, np.ndarray]:
    """Return, by trial with FRER, how much later each number left on path 1 than on path 0, us."""
    return {
        document["trial"]: report.delay_ns / 1000
        for document, report in reported
        if len(report.delay_ns)
    }


def analyse(trials: pd.DataFrame, path_delays: dict[str, np.ndarray]) -> Results:
    """Return all results of the experiment ``capture``.

    ``trials``: as :func:`trials_of` gives them. ``path_delays``: as :func:`delays` gives them.
    """
    results = Results("capture", trials)
    names = trials["trial"]
    method = "recomputed from the captures"
    for key, column in (
        ("capture.captured.count", "captured"),
        ("capture.tagged.count", "tagged"),
        ("capture.missing.count", "missing"),
        ("capture.out_of_order.count", "out_of_order"),
        ("capture.repeated.count", "repeated"),
        ("capture.ties.count", "ties"),
    ):
        results.value(key, int(trials[column].sum()), names, method=method)
    agreeing = int(trials["agrees"].sum())
    results.value("capture.trials.count", len(trials), names)
    results.value("capture.trials.agreeing.count", agreeing, names, method=method)
    for subject in _SUBJECTS:
        count = int(trials[f"{subject}_disagreements"].sum())
        results.value(f"capture.disagreements.{subject}.count", count, names, method=method)
    _shown(results, trials[trials["configuration"] == "frer"])
    for (payload, rate), group in _loads(trials[trials["configuration"] == "frer"]):
        _path_results(results, f"b{payload}.m{_digits(rate)}", group, path_delays)
    return results


def _shown(results: Results, trials: pd.DataFrame) -> None:
    """Add what the captures show of FRER's steps: counts, and whether they bear each step out.

    Every frame of every trial counts, so a word needs no interval: it is about these trials.
    """
    names, method = trials["trial"], "recomputed from the captures"
    if trials.empty:
        return
    sums = {name: int(trials[column].sum()) for name, column in _COUNTED.items()}
    for name, number in {"trials": len(trials), **sums}.items():
        results.value(f"capture.frer.{name}.count", number, names, method=method)
    first = trials["first_number"]
    for name, number in (("lowest", first.min()), ("highest", first.max())):
        value = None if pd.isna(number) else int(number)
        results.value(f"capture.frer.first_number.{name}", value, names, method=method)
    seen = sums["stream_frames"] > 0
    for name, shown in {
        "tagged": sums["tagged_stream"] == sums["stream_frames"],
        "from_zero": bool((first == 0).all()),
        "ordered": sums["out_of_order"] == 0 and sums["repeated"] == 0,
        "both_paths": sums["single_copies"] == 0,
        "single_delivery": sums["beyond_first"] == 0,
    }.items():
        word = "yes" if seen and shown else "no"
        results.value(f"capture.shown.{name}", word, names, method=method)


# Results of the trials with FRER, and the columns that they sum.
_COUNTED = {
    "stream_frames": "member_stream_frames",
    **{name: name for name in ("tagged_stream", "single_copies", "beyond_first")},
    **{name: name for name in ("out_of_order", "repeated")},
}


def _digits(number: float) -> str:
    """Return a number as it may stand in a key."""
    return f"{number:g}".replace(".", "_")


def _loads(trials: pd.DataFrame) -> Iterator[tuple[tuple[int, float], pd.DataFrame]]:
    for keys, group in trials.groupby(["payload_bytes", "target_mbps"]):
        payload, rate = keys if isinstance(keys, tuple) else (0, 0.0)
        yield (int(payload), float(rate)), group  # pyright: ignore[reportArgumentType]


def _path_results(
    results: Results, load: str, group: pd.DataFrame, path_delays: dict[str, np.ndarray]
) -> None:
    won = group[[column for column in group if str(column).startswith("won_")]]
    decided = won.sum(axis=1) + group["ties"]
    # A trial of which no number was seen on two paths has no shares.
    lacking = decided == 0, "trials had no number on two paths"
    for column in won:
        port = str(column).removeprefix("won_")
        shares = group.assign(share=100 * won[column] / decided.where(decided > 0))
        share = mean_of_all(shares, "share", "%", lacking, 100.0)
        results.estimate(f"capture.won.{port}.{load}.percent", share, 1, group["trial"])
    runs = [path_delays[trial] for trial in group["trial"] if trial in path_delays]
    if not runs:
        return
    for name, q in _DELAYS.items():
        estimate = replicated_quantile(runs, q, unit="us")
        results.estimate(f"capture.path_delay.{name}.{load}.us", estimate, 3, group["trial"])
