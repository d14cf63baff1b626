"""How long a campaign will take and how much disk it needs, from what this machine recorded."""

import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from tsnrepro.common.counts import plural
from tsnrepro.common.durations import duration
from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config import load
from tsnrepro.config.campaigns import Selection
from tsnrepro.config.files import campaign, raw_root
from tsnrepro.config.registry import MODEL
from tsnrepro.imports.manifest import is_imported
from tsnrepro.records.files import canonical_json
from tsnrepro.records.store import (
    DOCUMENT,
    SKIPPED,
    WITHDRAWN,
    RawStore,
    is_done,
    read_trial,
    standing,
)
from tsnrepro.runner.design import Planned
from tsnrepro.runner.plan import planned_trials
from tsnrepro.workflow.selection import SelectedRun, plan

# Weight of the nominal times against the recorded ones, s.
_PRIOR_SECONDS = 5.0
# To start a notebook and to bring up the testbed, where none was started here. Those on the model
# start beside each other, and wait for each other's processors.
_RUN_SECONDS, _MODEL_RUN_SECONDS = 5.0, 10.0
# Of that, what passes before the notebook's first time: an interpreter and its imports.
_PROCESS_SECONDS = 2.0
# A longer wait between two trials is a run that was interrupted and gone on with.
_INTERRUPTED_SECONDS = 120.0
# Trials whose size is looked up.
_MAX_SIZED = 100


def times_nominal(testbed: str, experiment: str) -> float:
    """Return by what factor trials of an experiment took longer than planned, in all campaigns.

    Trials are those of the same factors, whatever code measured them. Repeated attempts and the
    waits between trials are included. It is 1 where nothing is recorded.
    """
    took = nominal = _PRIOR_SECONDS
    for folder in raw_root().glob(f"{testbed}/*/{experiment}"):
        try:
            planned = planned_trials(experiment, testbed, folder.parent.name)
        except ConfigurationError:
            continue  # the campaign is gone, or no longer has it
        nominal_s = {canonical_json(item.trial.factors): item.nominal_s for item in planned}
        documents = [
            each
            for path in folder.glob(f"[!.]*/{DOCUMENT}")
            if (each := read_trial(path.parent))["status"] != WITHDRAWN and each["repetition"]
        ]  # repetition 0 warms up
        known = [each for each in documents if canonical_json(each["factors"]) in nominal_s]
        if apart := sum(map(_seconds, documents)):
            took += spent_s(documents) * sum(map(_seconds, known)) / apart
        first = [each for each in known if each["attempt"] == 1]
        nominal += sum(nominal_s[canonical_json(each["factors"])] for each in first)
    return took / nominal


def spent_s(documents: Iterable[dict[str, Any]]) -> float:
    """Return the time in which attempts ended, s, without interruptions between them.

    Where several were measured at a time, that is less than the sum of their seconds.
    """
    spent, until = 0.0, -math.inf
    for each in sorted(documents, key=lambda each: str(each["started"])):
        began = datetime.fromisoformat(each["started"]).timestamp()
        end = began + _seconds(each)
        waited = began - until
        spent += max(0.0, end - until) if waited <= _INTERRUPTED_SECONDS else end - began
        until = max(until, end)
    return spent


def start_s(testbed: str) -> float:
    """Return how long a run takes besides its trials, s: the median of those on this machine."""
    found = [
        besides
        for path in (root() / "results").glob(f"{testbed}/*/*/measure.ipynb")
        if (besides := _besides_trials_s(path)) is not None
    ]
    if found:
        return _PROCESS_SECONDS + median(found)
    return _MODEL_RUN_SECONDS if testbed == MODEL else _RUN_SECONDS


def _besides_trials_s(notebook: Path) -> float | None:
    """Return how long a notebook ran that measured, less its trials; None if it did not end."""
    try:
        ran = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]["papermill"]
        began, ended = (datetime.fromisoformat(ran[key]) for key in ("start_time", "end_time"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    folder = raw_root().joinpath(*notebook.parts[-4:-1])
    documents = [read_trial(path.parent) for path in folder.glob(f"[!.]*/{DOCUMENT}")]
    its_own = [
        each
        for each in documents
        if "started" in each and began <= datetime.fromisoformat(each["started"]) <= ended
    ]
    return max(0.0, (ended - began).total_seconds() - spent_s(its_own))


def expected_s(testbed: str, campaign_name: str, experiment: str, nominal_s: float) -> float:
    """Return how long trials of some nominal seconds should take to measure, s; 0 of none."""
    if not nominal_s:
        return 0.0
    jobs = 1 + (campaign(campaign_name).parts if testbed == MODEL else 0)
    return jobs * start_s(testbed) + nominal_s * times_nominal(testbed, experiment)


def elapsed_s(expected: Mapping[tuple[str, str, str], float], cores: int) -> float:
    """Return in what time a campaign is measured, s.

    Parameters
    ----------
    expected
        Seconds of each run, by testbed, campaign and experiment.
    cores
        Number of processors. Runs on hosts are measured one after the other, with nothing beside
        them; those on the model beside each other, and a grid in parts.
    """
    alone = sum(seconds for run, seconds in expected.items() if run[0] != MODEL)
    beside = {run: seconds for run, seconds in expected.items() if run[0] == MODEL}
    whole = [seconds for run, seconds in beside.items() if not campaign(run[1]).vary]
    return alone + max([sum(beside.values()) / cores, *whole])


def _seconds(document: dict[str, Any]) -> float:
    return float(document.get("seconds", 0))


@dataclass
class TrialCounts:
    """Counts of planned trials.

    Attributes
    ----------
    names
        The folders of their attempts.
    planned
        Number of trials; those under a stopping rule count once they were tried.
    recorded
        Number of these that are recorded.
    skipped
        Number of the recorded that a user skipped.
    failed
        Number of the others whose last attempt failed.
    possible
        Number of further trials that a stopping rule may ask for.
    left_s
        Nominal time of the missing trials, s.
    """

    names: set[str] = field(default_factory=set)
    planned: int = 0
    recorded: int = 0
    skipped: int = 0
    failed: int = 0
    possible: int = 0
    left_s: float = 0.0


def count_trials(planned: Iterable[Planned], store: RawStore, attempts: int) -> TrialCounts:
    """Return the counts of planned trials, each of which is tried so many times at most."""
    counted = TrialCounts()
    for item in planned:
        counted.names |= {folder.name for folder in store.attempts(item.trial)}
        ended = store.attempt_statuses(item.trial)
        if item.stopping_rule and not ended:
            counted.possible += 1
            continue
        counted.planned += 1
        if is_done(ended, attempts):
            counted.recorded += 1
            counted.skipped += ended[-1] == SKIPPED
        else:
            counted.failed += bool(standing(ended, str))
            counted.left_s += item.nominal_s
    return counted


@dataclass(frozen=True)
class Forecast:
    """What is to be measured of an experiment.

    Attributes
    ----------
    testbed, campaign, experiment
        Their names.
    trials, recorded
        Numbers of planned trials, and of these that are recorded.
    possible
        Number of further trials that a stopping rule may ask for.
    left_s
        Estimate of the time to measure the missing ones, s.
    trial_bytes
        Mean size of a recorded trial on this testbed, None where there is none.
    """

    testbed: str
    campaign: str
    experiment: str
    trials: int
    recorded: int
    possible: int
    left_s: float
    trial_bytes: float | None

    @property
    def left_bytes(self) -> float | None:
        """Estimate of what the missing trials take on the disk, bytes."""
        left = self.trials - self.recorded
        return None if self.trial_bytes is None else left * self.trial_bytes


def forecasts(campaign_name: str | None = None, testbed: str | None = None) -> list[Forecast]:
    """Return what ``snakemake`` would measure, by default with config/config.yaml.

    Raises
    ------
    ConfigurationError
        The campaign or the testbed is unknown, or config/config.yaml is invalid.
    """
    chosen = load(Selection, root() / "config" / "config.yaml")
    given = {"campaign": campaign_name, "testbed": testbed}
    chosen = chosen.model_copy(update={n: value for n, value in given.items() if value})
    planned = plan(chosen)
    runs = dict.fromkeys([*planned.runs, *(run for paper in planned.papers for run in paper.runs)])
    return forecasts_of(runs)


def forecasts_of(runs: Iterable[SelectedRun]) -> list[Forecast]:
    """Return what is to be measured of some runs; of those that are imported, nothing is."""
    return [
        _forecast(run.testbed, run.campaign, run.experiment)
        for run in runs
        if not is_imported(raw_root(), run.testbed)
    ]


def _forecast(testbed: str, campaign_name: str, experiment: str) -> Forecast:
    store = RawStore(raw_root(), testbed, campaign_name, experiment)
    planned = planned_trials(experiment, testbed, campaign_name)
    counted = count_trials(planned, store, campaign(campaign_name).attempts)
    sizes = list(islice(_sizes(testbed, experiment), _MAX_SIZED))
    return Forecast(
        testbed,
        campaign_name,
        experiment,
        trials=counted.planned,
        recorded=counted.recorded,
        possible=counted.possible,
        left_s=expected_s(testbed, campaign_name, experiment, counted.left_s),
        trial_bytes=sum(sizes) / len(sizes) if sizes else None,
    )


def _sizes(testbed: str, experiment: str) -> Iterator[int]:
    for folder in raw_root().glob(f"{testbed}/*/{experiment}/*/"):
        yield sum(path.stat().st_blocks * 512 for path in folder.iterdir())


def as_text(found: list[Forecast], cores: int = 1) -> str:
    """Format forecasts as a table with its totals, the time as on so many processors."""
    heads = f"{'trials':>6} {'recorded':>8} {'missing':>7}"
    lines = [f"{'experiment':12} {'testbed':12} {heads}  {'time':10} disk"]
    for each in found:
        missing = each.trials - each.recorded
        more = f"  up to {plural(each.possible, 'more trial')}" if each.possible else ""
        counts = f"{each.trials:6} {each.recorded:8} {missing:7}"
        lines.append(
            f"{each.experiment:12} {each.testbed:12} {counts}  "
            f"{duration(each.left_s):10} {_megabytes(each.left_bytes)}{more}"
        )
    sizes = [each.left_bytes for each in found]
    known = sum(size for size in sizes if size is not None)
    beside = " without those of unknown size" if None in sizes else ""
    expected = {(each.testbed, each.campaign, each.experiment): each.left_s for each in found}
    free = shutil.disk_usage(root()).free
    lines += [
        "",
        f"to measure: {plural(sum(each.trials - each.recorded for each in found), 'trial')}, about "
        f"{duration(elapsed_s(expected, cores))}; analyses and papers take minutes more",
        f"disk: {_megabytes(known)}{beside}, {free / 1e9:.1f} GB are free",
    ]
    return "\n".join(lines)


def _megabytes(size: float | None) -> str:
    return "unknown" if size is None else f"{size / 1e6:.1f} MB"
