"""Run an experiment: measure its trials in order, resume where a run ended, list what counts."""

import gc
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from tsnrepro.common.counts import plural
from tsnrepro.common.errors import (
    CommandError,
    JobDeadlineError,
    RecordError,
    TestbedError,
    ToolError,
    TsnreproError,
)
from tsnrepro.config.files import campaign, raw_root, testbed_settings
from tsnrepro.config.registry import LOCAL_KINDS, RACK
from tsnrepro.config.registry import experiment as experiment_of
from tsnrepro.imports.manifest import imported_manifest, is_imported
from tsnrepro.records.files import canonical_json
from tsnrepro.records.store import (
    SKIPPED,
    WITHDRAWN,
    RawStore,
    Trial,
    accepted_attempt,
    is_done,
    standing,
)
from tsnrepro.runner.anonymizer import Anonymizer, without_folders
from tsnrepro.runner.control import RunControl, SkippedError, StoppedError
from tsnrepro.runner.design import Planned, StallLimits, part_of
from tsnrepro.runner.measurement import Measurement, stalls_metered
from tsnrepro.runner.plan import planned_and_left_out
from tsnrepro.runner.progress import Progress
from tsnrepro.runner.testbed import open_for
from tsnrepro.testbeds.protocol import SharedTestbed, Testbed

_EXPERIMENTS = Path(__file__).parents[1] / "experiments"
# Collections that take longer find long-lived objects of libraries, not garbage.
_LONG_SECONDS = 0.01


class StalledError(ToolError):
    """A machine stalled for longer, or more often, than a trial allows.

    ``times_limit`` is by what factor it exceeded the limit.
    """

    def __init__(self, what: str, where: str, times_limit: float) -> None:
        super().__init__(what, where)
        self.times_limit = times_limit


class AllSkippedError(RecordError):
    """All trials of a run were skipped."""


class MeasureError(TsnreproError):
    """An error in the code that measures a trial: it ends the run, and the trial has no record."""


# Fills the measurement as it goes, so that a failure keeps what preceded it.
Measure = Callable[[Testbed, Trial, Measurement], None]
# Whether the records of trials are precise enough for the rule of that name.
StoppingRule = Callable[[str, list[dict[str, Any]]], bool]
# A trial to measure, with its position in the progress.
_Numbered = tuple[int, Planned]


def run_experiment(
    experiment: str, testbed_name: str, campaign_name: str, manifest: str = ""
) -> dict[str, Any]:
    """Measure the missing trials of an experiment, and return the run's manifest.

    ``manifest`` is the file that it is written to; empty writes none. On an imported testbed there
    is nothing to measure: the manifest lists what was imported.

    Raises
    ------
    ConfigurationError
        The experiment is unknown or not part of the campaign.
    TsnreproError
        The testbed or a trial failed; what was measured before is recorded.
    """
    declared = experiment_of(experiment)
    if is_imported(raw_root(), testbed_name):
        listed = imported_manifest(raw_root(), testbed_name, experiment, campaign_name)
    else:
        listed = _measure_experiment(declared.name, testbed_name, campaign_name)
    if manifest:
        write_manifest(listed, manifest)
    return listed


def run_part(
    experiment: str, testbed_name: str, campaign_name: str, number: int, count: int
) -> None:
    """Measure the missing trials of one of ``count`` parts of a grid, counted from 0.

    The parts of a grid on the model may be measured at the same time, in any order and on any
    machine that shares the raw store. :func:`run_experiment` then finds all of them recorded.

    Raises
    ------
    TsnreproError
        As :func:`run_experiment`.
    """
    with suppress(AllSkippedError):  # those of other parts may count
        _measure_experiment(
            experiment, testbed_name, campaign_name, lambda all_: part_of(all_, number, count)
        )


def _measure_experiment(
    experiment: str,
    testbed_name: str,
    campaign_name: str,
    choose: Callable[[list[Planned]], list[Planned]] = list,
) -> dict[str, Any]:
    planned, others = planned_and_left_out(experiment, testbed_name, campaign_name)
    planned = choose(planned)
    for reason, labels in others.items():
        print(f"{experiment}: left out {', '.join(labels)}: {reason}")
    settings = campaign(campaign_name)
    purpose = f"campaign {campaign_name}, experiment {experiment}"
    # The model has no caches to warm, and each job of a guest boots a machine.
    kind = testbed_settings(testbed_name).kind
    return run_trials(
        RawStore(raw_root(), testbed_name, campaign_name, experiment),
        planned,
        settings.attempts,
        partial(open_for, experiment, testbed_name, settings, purpose),
        import_module(f"tsnrepro.experiments.{experiment}.measure").measure,
        warm_up=settings.warm_up and kind in (*LOCAL_KINDS, RACK),
        max_stall_ms=settings.max_stall_ms,
        is_precise=_stopping_rule(experiment, settings.section(experiment)),
    )


def _stopping_rule(experiment: str, section: Any) -> StoppingRule | None:
    """Return an experiment's stopping rule under its settings, None where it has none."""
    # By name: rules rest on statistics, and an edit of those is no reason to repeat trials.
    name = f"tsnrepro.experiments.{experiment}.stopping"
    if find_spec(name) is None:
        return None
    return partial(import_module(name).is_precise, section)


# --- trials in order --------------------------------------------------------------------------


@contextmanager
def freeze_gc() -> Iterator[None]:
    """Exclude all objects that exist before the block from garbage collection.

    Every indented JSON text leaves closures that refer to each other, and those that outlive two
    young collections wait for a full one. CPython defers that until a quarter as many objects as
    are long-lived have been added (``gc.get_threshold``): with this package's libraries loaded
    that is tens of thousands, megabytes and hours of trials, and then it takes a tenth of a second
    of whatever is being measured. With older objects frozen (``gc.freeze``),
    :func:`collect_garbage` takes a millisecond.

    Only one thread may be in such a block at a time: the end of one ends all.
    """
    gc.collect(1)  # young garbage is not to be frozen
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()


def collect_garbage() -> None:
    """Free the garbage made since the block of :func:`freeze_gc` began.

    Objects that take long to look through are no garbage but what the first trials loaded, a
    library or a compiler: they are frozen too, or every trial would look at them again.
    """
    # Processor time: a busy machine that made it wait has nothing to do with the number of objects.
    began = time.thread_time()
    gc.collect()
    if time.thread_time() - began > _LONG_SECONDS:
        gc.freeze()


@freeze_gc()
def run_trials(
    store: RawStore,
    planned: list[Planned],
    attempts: int,
    open_testbed: Callable[..., Testbed],
    measure: Measure,
    *,
    warm_up: bool = False,
    max_stall_ms: float | None = None,
    is_precise: StoppingRule | None = None,
) -> dict[str, Any]:
    """Measure the trials that the store lacks and return the run's manifest.

    Trials under a stopping rule come last, a repetition at a time, until ``is_precise`` is true for
    the rule. The same records always lead to the same trials.

    The testbed is brought up only when a trial is missing, and again for trials that need other
    settings of it, which ``open_testbed`` takes by name. A trial that fails is recorded with its
    reason and repeated, up to ``attempts`` times; so is one during which a machine stalled for
    longer than ``max_stall_ms``, or more often than the trial allows, whatever the outcome. Where
    all attempts stalled, the one that exceeded its limit least counts. A run that is started again
    makes as many attempts again at what failed: the cause may have been removed. With ``warm_up``
    the shortest trial that the first testbed lacks is measured once before any counts, since
    caches, neighbours and processors are cold then; it is recorded as a trial that no manifest
    lists.

    Raises
    ------
    RecordError
        A trial failed in all attempts of this run; everything else has been measured and recorded.
    StoppedError
        The run was asked to stop; the trial that was measured then is recorded.
    """
    recorder = _Recorder(store, attempts, max_stall_ms)
    with (
        closing(recorder.progress),
        recorder.control.reachable(),
        _OpenTestbed(store, open_testbed) as testbeds,
    ):
        measure_missing = partial(_measure_missing, recorder, testbeds, measure)
        taken = [item for item in planned if not item.stopping_rule]
        measure_missing(taken, warm_up=warm_up)
        further = [item for item in planned if item.stopping_rule]
        documents: list[dict[str, Any]] = []
        latest = taken
        for repetition, items in groupby(further, key=lambda item: item.trial.repetition):
            accepted = (_accepted(store, item.trial)[0] for item in latest)
            documents += [document for document in accepted if document is not None]
            latest = _imprecise(documents, list(items), is_precise)
            if latest:
                rules = ", ".join(sorted({item.stopping_rule for item in latest}))
                print(f"{store.experiment}: not yet precise: {rules}; repetition {repetition}")
                measure_missing(latest, warm_up=False)
                taken = [*taken, *latest]
    return manifest(store, taken)


class _OpenTestbed:
    """The testbed that is up, until one of other settings is needed or the block ends.

    ``environment`` is the digest of its recorded description.
    """

    environment: str

    def __init__(self, store: RawStore, open_testbed: Callable[..., Testbed]) -> None:
        self._store, self._open, self._stack = store, open_testbed, ExitStack()
        self._overrides: dict[str, Any] | None = None

    def __enter__(self) -> "_OpenTestbed":
        return self

    def __exit__(self, *exception: Any) -> bool | None:
        return self._stack.__exit__(*exception)

    def get(self, overrides: dict[str, Any]) -> Testbed:
        """Return the testbed with some settings in place of its file's."""
        if self._overrides != overrides:
            self._stack.close()
            self._testbed = self._stack.enter_context(self._open(**overrides))
            self.environment = self._store.put_environment(
                without_folders(self._testbed.describe())
            )
            self._overrides = overrides
        return self._testbed


def _measure_missing(
    recorder: "_Recorder",
    testbeds: _OpenTestbed,
    measure: Measure,
    planned: list[Planned],
    *,
    warm_up: bool,
) -> None:
    store = recorder.store
    missing = [item for item in planned if recorder.open_attempts(item.trial)]
    trials = plural(len(planned), "trial")
    print(f"{store.experiment}: {trials}, {len(planned) - len(missing)} recorded")
    position = recorder.progress.further([item.nominal_s for item in missing])
    for overrides, group in _by_testbed(missing):
        testbed = testbeds.get(overrides)
        recorder.environment = testbeds.environment
        recorder.measure = partial(_measure_metered, measure, testbed)
        concealed = testbed.concealed if isinstance(testbed, SharedTestbed) else None
        recorder.anonymize = None if concealed is None else Anonymizer(concealed)
        if warm_up:
            recorder.warm_up(min(group, key=lambda item: item.nominal_s))
            warm_up = False
        record = partial(_record_one, recorder)
        _in_order(testbed.max_parallel, record, list(enumerate(group, start=position)))
        while deferred := recorder.take_deferred():
            _in_order(testbed.max_parallel, record, deferred)
        position += len(group)
    if withdrawn := [item for item in planned if recorder.is_withdrawn(item.trial)]:
        # While the others were measured.
        _measure_missing(recorder, testbeds, measure, withdrawn, warm_up=False)


def _imprecise(
    documents: list[dict[str, Any]], further: list[Planned], is_precise: StoppingRule | None
) -> list[Planned]:
    """Return the trials of a further repetition whose rule the records do not satisfy yet."""
    if is_precise is None:
        return further
    rules = {item.stopping_rule for item in further}
    satisfied = {rule for rule in rules if is_precise(rule, documents)}
    return [item for item in further if item.stopping_rule not in satisfied]


def _accepted(store: RawStore, trial: Trial) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Return the attempt at a trial that counts, None where none does, and all attempts."""
    documents = [store.read(folder) for folder in store.attempts(trial)]
    return accepted_attempt(documents), documents


def _record_one(recorder: "_Recorder", numbered: _Numbered) -> None:
    """Record a trial and show the progress."""
    position, item = numbered
    recorder.progress.begin(position, item.trial.label)
    if recorder.record(item):
        recorder.progress.end(position)
    else:
        recorder.deferred.append(numbered)
    collect_garbage()


def _in_order(max_parallel: int, act: Callable[[_Numbered], None], items: list[_Numbered]) -> None:
    """Act on each in its order, on some in parallel; after the first error no further one begins.

    Those that start from earlier results wait for all before them. What runs beside the one that
    failed ends with its testbed.
    """
    if max_parallel == 1:
        for item in items:
            act(item)
        return
    for _, alike in groupby(items, key=lambda numbered: numbered[1].from_earlier):
        _in_parallel(max_parallel, act, list(alike))


def _in_parallel(
    max_parallel: int, act: Callable[[_Numbered], None], items: list[_Numbered]
) -> None:
    pool = ThreadPoolExecutor(max_parallel)
    try:
        for ended in as_completed([pool.submit(act, item) for item in items]):
            ended.result()
    except StoppedError:
        pool.shutdown(wait=True, cancel_futures=True)  # what is being measured is recorded
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _measure_metered(
    measure: Measure, testbed: Testbed, trial: Trial, measured: Measurement
) -> None:
    """Measure a trial beside stall meters: every record says how its machines stalled.

    Raises
    ------
    MeasureError
        The experiment's code failed; the message has its file and line.
    """
    with stalls_metered(testbed, measured):
        try:
            measure(testbed, trial, measured)
        except TsnreproError:
            raise
        except Exception as error:
            raise MeasureError(
                f"trial {trial.label}: {type(error).__name__}: {error}",
                _line_of(error),
                "Fix that line and run this again; trials that are recorded are kept",
            ) from error


def _line_of(error: Exception) -> str:
    """Return the innermost line of an experiment that an error came through, or else of any."""
    lines = traceback.extract_tb(error.__traceback__)
    own = [line for line in lines if line.filename.startswith(f"{_EXPERIMENTS}{os.sep}")]
    line = (own or lines)[-1]
    return f"{line.filename}, line {line.lineno}, in {line.name}"


def _by_testbed(missing: list[Planned]) -> Iterator[tuple[dict[str, Any], list[Planned]]]:
    """Yield the trials in their order, in groups that one testbed serves."""
    for _, group in groupby(missing, key=lambda item: canonical_json(item.testbed)):
        items = list(group)
        yield items[0].testbed, items


# --- attempts ---------------------------------------------------------------------------------


@dataclass
class _Recorder:
    """Records attempts at trials, measured on a testbed of which ``environment`` is the digest."""

    store: RawStore
    attempts: int
    max_stall_ms: float | None
    measure: Callable[[Trial, Measurement], None] = field(init=False)
    environment: str = field(init=False)
    anonymize: Anonymizer | None = field(init=False, default=None)
    progress: Progress = field(init=False)
    control: RunControl = field(init=False)
    deferred: list[_Numbered] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.progress = Progress(self.store.experiment, testbed=self.store.testbed)
        self.control = RunControl(self.store.folder)

    def warm_up(self, shortest: Planned) -> None:
        """Measure a trial that does not count; its record has repetition 0."""
        trial = replace(shortest.trial, label=f"warm-up-{shortest.trial.label}", repetition=0)
        print(f"{self.store.experiment}: warming up")
        self._attempt(trial, len(self.store.attempts(trial)) + 1, 0, self.measure)

    def record(self, item: Planned) -> bool:
        """Record attempts at a trial until one succeeds or none is left; return whether it is done.

        Stalls beyond a trial's own limits come in bursts of half a minute, which attempts in a row
        do not outlast: such a trial is deferred.
        """
        steady = partial(self._measure_steady, item.stall_limits)
        for attempt in self.open_attempts(item.trial):
            self.control.check()
            status = self._attempt(item.trial, attempt, item.order, steady)
            if status in ("measured", SKIPPED):
                return True
            if status == "unsteady" and item.stall_limits != StallLimits():
                return not self.open_attempts(item.trial)
        return True

    def take_deferred(self) -> list[_Numbered]:
        """Return the trials that were deferred since the last call, each with its position."""
        deferred, self.deferred = self.deferred, []
        return deferred

    def open_attempts(self, trial: Trial) -> range:
        """Return the numbers of the attempts that this run may make: none after a success."""
        ended = [str(self.store.read(made)["status"]) for made in self.store.attempts(trial)]
        if is_done(ended, self.attempts):
            return range(0)
        counting = standing(ended, str)
        left = self.attempts - len(counting) if "unsteady" in counting else self.attempts
        return range(len(ended) + 1, len(ended) + left + 1)

    def is_withdrawn(self, trial: Trial) -> bool:
        """Tell whether what was measured of a trial no longer counts."""
        return self.store.attempt_statuses(trial)[-1:] == [WITHDRAWN]

    def _measure_steady(self, limits: StallLimits, trial: Trial, measured: Measurement) -> None:
        """Measure a trial, and reject it if a machine stalled for too long or too often."""
        max_ms = self.max_stall_ms if limits.max_stall_ms is None else limits.max_stall_ms
        self.measure(trial, measured)
        errors = [
            StalledError(what, name, times_limit)
            for name, stalls in measured.values.get("stalls", {}).items()
            for what, times_limit in _exceeded(stalls, max_ms, limits.max_stalled_percent)
        ]
        if errors:
            raise max(errors, key=lambda error: error.times_limit)

    def _attempt(
        self,
        trial: Trial,
        attempt: int,
        order: int,
        measure: Callable[[Trial, Measurement], None],
    ) -> str:
        """Record one attempt at a trial and return its status.

        Raises
        ------
        TestbedError
            The testbed failed; what had been measured until then is recorded as a failed attempt.
        """
        store = self.store
        measured = Measurement(
            earlier=lambda: (d for d in store.documents() if d.get("code", "") == trial.code)
        )
        document, testbed_error = _try(trial, measured, self.control.skippable()(measure))
        document |= {
            "order": order,
            "environment": self.environment,
            "attempt": attempt,
            "testbed": store.testbed,
            "campaign": store.campaign,
        }
        document, outputs = without_folders(document), without_folders(measured.outputs)
        if self.anonymize:
            document, outputs = self.anonymize(document), self.anonymize(outputs)
        store.put(trial, attempt, document, outputs)
        if testbed_error is not None:
            raise testbed_error
        return str(document["status"])


def _exceeded(
    stalls: dict[str, Any], max_stall_ms: float | None, max_percent: float | None
) -> Iterator[tuple[str, float]]:
    """Yield each limit that a machine's stalls exceed, as a sentence, and by what factor."""
    longest, percent = stalls["longest_ms"], 100 * stalls["stalled_share"]
    if max_stall_ms is not None and longest > max_stall_ms:
        yield (
            f"the machine stalled for {longest:.1f} ms, more than max_stall_ms of {max_stall_ms:g}",
            longest / max_stall_ms,
        )
    if max_percent is not None and percent > max_percent:
        yield (
            f"the machine stalled for over {stalls['threshold_ms']:g} ms at {percent:.2f} % of the "
            f"meter's checks, more than max_stalled_percent of {max_percent:g}",
            percent / max_percent,
        )


def _try(
    trial: Trial, measured: Measurement, measure: Callable[[Trial, Measurement], None]
) -> tuple[dict[str, Any], TestbedError | None]:
    """Return the document of one attempt, and the error of the testbed, if it failed.

    A failure is recorded too.

    Raises
    ------
    TestbedError
        The testbed failed before anything was measured.
    """
    document: dict[str, Any] = {
        "experiment": trial.experiment,
        "label": trial.label,
        "factors": trial.factors,
        "repetition": trial.repetition,
        **({"code": trial.code} if trial.code else {}),
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    began = time.monotonic()
    testbed_error = None
    try:
        measure(trial, measured)
        document |= {"status": "measured"}
    except SkippedError as error:
        document |= {"status": SKIPPED, "reason": error.what}
    except StalledError as error:
        document |= {
            "status": "unsteady",
            "reason": str(error),
            "times_limit": error.times_limit,
        }
    except (CommandError, ToolError, JobDeadlineError) as error:
        document |= _failed(trial, measured, error)
    except TestbedError as error:
        # Without the testbed no further trial can succeed.
        if measured.empty:
            raise
        testbed_error = error
        document |= _failed(trial, measured, error)
    return document | {
        "values": measured.values,
        "commands": measured.commands,
        "seconds": time.monotonic() - began,
    }, testbed_error


def _failed(trial: Trial, measured: Measurement, error: Exception) -> dict[str, Any]:
    """Print that an attempt failed, and return its status and reason."""
    measured.outputs["failure.txt"] = f"{type(error).__name__}: {error}\n"
    print(f"{trial.label}: {error}")
    return {"status": "failed", "reason": str(error)}


# --- the run's manifest -----------------------------------------------------------------------


def manifest(store: RawStore, planned: list[Planned]) -> dict[str, Any]:
    """Return the list of a run's trials with their checksums.

    Raises
    ------
    RecordError
        A planned trial has no measured attempt and was not skipped, or all were skipped.
    """
    trials, failed = [], []
    configured = ""
    for item in planned:
        accepted, documents = _accepted(store, item.trial)
        failed += [
            {"trial": d["trial"], "reason": d["reason"]}
            for d in documents
            if "reason" in d and d is not accepted
        ]
        failed += _withdrawn(documents)
        if accepted is None and documents and documents[-1]["status"] == SKIPPED:
            continue
        if accepted is None:
            reason = documents[-1]["reason"] if documents else "it was never tried"
            raise RecordError(
                f"a trial could not be measured: {reason}",
                f"{store.folder / item.trial.name(max(1, len(documents)))}",
                "Its attempts are recorded; after removing the cause, run this again to go on",
            )
        trials.append({"trial": accepted["trial"], "sha256": accepted["sha256"]})
        # The run's environment is the testbed as configured, without changes of single trials.
        if not (item.testbed and configured):
            configured = accepted["environment"]
    if planned and not trials:
        raise AllSkippedError(
            "all trials were skipped",
            str(store.folder),
            "Take one up again with `tsnrepro again`, or leave the experiment out of the campaign",
        )
    return {
        "testbed": store.testbed,
        "campaign": store.campaign,
        "experiment": store.experiment,
        "folder": str(store.folder),
        "environment": configured,
        "trials": trials,
        "failed_attempts": failed,
    }


def _withdrawn(documents: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the measured attempts that no longer count, with the reason."""
    found: list[dict[str, str]] = []
    for number, document in enumerate(documents):
        if document["status"] == WITHDRAWN:
            measured = [d["trial"] for d in documents[:number] if d["status"] == "measured"]
            known = {each["trial"] for each in found}
            reason = document["reason"]
            found += [{"trial": name, "reason": reason} for name in measured if name not in known]
    return found


def write_manifest(document: dict[str, Any], path: str) -> None:
    """Write a run's manifest as JSON, with the store's path relative to the manifest's folder.

    A repository that is moved takes its runs along, and the file names no path of the machine.
    """
    relative = os.path.relpath(Path(document["folder"]).resolve(), Path(path).resolve().parent)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document | {"folder": relative}, file, indent=1)
