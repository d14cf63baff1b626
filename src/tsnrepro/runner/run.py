"""A run: the trials of one experiment, measured in order and resumed where they were left."""

import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import (
    CommandError,
    JobDeadlineError,
    RecordError,
    TestbedError,
    ToolError,
)
from tsnrepro.records.store import RawStore, Trial, accepted_attempt, canonical, is_done
from tsnrepro.runner.anonymizer import Anonymizer
from tsnrepro.runner.garbage import collect_garbage, freeze_gc
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.plan import Planned, StallLimits
from tsnrepro.runner.progress import Progress
from tsnrepro.runner.stall_monitor import stalls_metered
from tsnrepro.testbeds.protocol import SharedTestbed, Testbed


class StalledError(ToolError):
    """A trial was measured while its machine stood still for longer, or more often, than allowed.

    ``times_limit`` is how many times the limit that was.
    """

    def __init__(self, what: str, where: str, times_limit: float) -> None:
        super().__init__(what, where)
        self.times_limit = times_limit


# Fills the measurement as it goes, so that a failure keeps what was printed before it.
Measure = Callable[[Testbed, Trial, Measurement], None]
# Whether the records of some trials tell enough of what others are measured until.
StoppingRule = Callable[[str, list[dict[str, Any]]], bool]


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
    is_known: StoppingRule | None = None,
) -> dict[str, Any]:
    """Measure what the store does not hold yet and return the run's manifest.

    Trials that are measured ``until`` something is known come last, a repetition at a time, as long
    as ``is_known`` says that it is not. The same records always lead to the same trials.

    The testbed is brought up only when a trial is missing, and again for trials that need other
    settings of it, which ``open_testbed`` takes by name. A trial that fails is recorded with
    its reason and tried again, ``attempts`` times in all; so is one during which a machine stalled
    for longer than ``max_stall_ms``, or more often than the trial allows, whatever came out. Where
    all attempts are of that kind the steadiest counts. A run that is started again tries as often
    again what failed: its cause may be mended. With ``warm_up`` the shortest trial that the first
    testbed misses is measured once before any counts, since caches, neighbours and processors are
    cold then; this is recorded too, as a trial that no manifest lists.

    Raises
    ------
    RecordError
        A trial failed in all attempts of this run; everything else has been measured and recorded.
    """
    recorder = _Recorder(store, attempts, max_stall_ms)
    with _Opened(store, open_testbed) as testbeds:
        measure_missing = partial(_measure_missing, recorder, testbeds, measure)
        taken = [item for item in planned if not item.stopping_rule]
        measure_missing(taken, warm_up=warm_up)
        further = [item for item in planned if item.stopping_rule]
        documents: list[dict[str, Any]] = []
        wanted = taken
        for repetition, items in groupby(further, key=lambda item: item.trial.repetition):
            found = (_of_record(store, item.trial)[0] for item in wanted)
            documents += [document for document in found if document is not None]
            wanted = _still_wanted(documents, list(items), is_known)
            if wanted:
                names = ", ".join(sorted({item.stopping_rule for item in wanted}))
                print(f"{store.experiment}: not yet known: {names}; repetition {repetition}")
                measure_missing(wanted, warm_up=False)
                taken = [*taken, *wanted]
    return manifest(store, taken)


class _Opened:
    """The testbed that is up, until one of other settings is asked for or the block ends.

    ``environment`` is the digest of what is recorded of it.
    """

    environment: str

    def __init__(self, store: RawStore, open_testbed: Callable[..., Testbed]) -> None:
        self._store, self._open, self._stack = store, open_testbed, ExitStack()
        self._overrides: dict[str, Any] | None = None

    def __enter__(self) -> "_Opened":
        return self

    def __exit__(self, *exception: Any) -> bool | None:
        return self._stack.__exit__(*exception)

    def get(self, overrides: dict[str, Any]) -> Testbed:
        """Return the testbed with some settings in place of its file's."""
        if self._overrides != overrides:
            self._stack.close()
            self._testbed = self._stack.enter_context(self._open(**overrides))
            self.environment = self._store.put_environment(self._testbed.describe())
            self._overrides = overrides
        return self._testbed


def _measure_missing(
    recorder: "_Recorder",
    testbeds: _Opened,
    measure: Measure,
    planned: list[Planned],
    *,
    warm_up: bool,
) -> None:
    store = recorder.store
    missing = [item for item in planned if recorder.open_attempts(item.trial)]
    print(f"{store.experiment}: {len(planned)} trials, {len(planned) - len(missing)} recorded")
    progress = recorder.progress
    position = progress.further([item.nominal_s for item in missing])
    for overrides, group in _by_testbed(missing):
        testbed = testbeds.get(overrides)
        recorder.environment = testbeds.environment
        recorder.measure = partial(_metered, measure, testbed)
        concealed = testbed.concealed if isinstance(testbed, SharedTestbed) else None
        recorder.conceal = None if concealed is None else Anonymizer(concealed)
        if warm_up:
            recorder.warm_up(min(group, key=lambda item: item.nominal_s))
            warm_up = False
        tell = partial(_told, recorder)
        _each(testbed.max_parallel, tell, list(enumerate(group, start=position)))
        while again := recorder.put_off():
            _each(testbed.max_parallel, tell, again)
        position += len(group)


def _still_wanted(
    documents: list[dict[str, Any]], further: list[Planned], is_known: StoppingRule | None
) -> list[Planned]:
    """Return the trials of a further repetition whose purpose the records so far do not serve."""
    if is_known is None:
        return further
    known = {name for name in {item.stopping_rule for item in further} if is_known(name, documents)}
    return [item for item in further if item.stopping_rule not in known]


def _of_record(store: RawStore, trial: Trial) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Return the attempt at a trial that counts, None where none does, and all attempts."""
    documents = [store.read(folder) for folder in store.attempts(trial)]
    return accepted_attempt(documents), documents


def _told(recorder: "_Recorder", numbered: tuple[int, Planned]) -> None:
    """Record a trial and say so."""
    position, item = numbered
    recorder.progress.begin(position, item.trial.label)
    if recorder.record(item):
        recorder.progress.end(position)
    else:
        recorder.unsteady.append(numbered)
    collect_garbage()


def _each(
    max_parallel: int, act: Callable[[tuple[int, Planned]], None], items: list[tuple[int, Planned]]
) -> None:
    """Act on each in its order, on some at a time; after the first error no further one begins.

    Those that start from what others found wait for all before them. What runs beside the one that
    failed ends with its testbed.
    """
    if max_parallel == 1:
        for item in items:
            act(item)
        return
    for _, alike in groupby(items, key=lambda numbered: numbered[1].from_earlier):
        _at_once(max_parallel, act, list(alike))


def _at_once(
    max_parallel: int, act: Callable[[tuple[int, Planned]], None], items: list[tuple[int, Planned]]
) -> None:
    pool = ThreadPoolExecutor(max_parallel)
    try:
        for ended in as_completed([pool.submit(act, item) for item in items]):
            ended.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _metered(measure: Measure, testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure a trial beside stall meters: a column of every trial is how steady its hosts were."""
    with stalls_metered(testbed, measured):
        measure(testbed, trial, measured)


def _by_testbed(missing: list[Planned]) -> Iterator[tuple[dict[str, Any], list[Planned]]]:
    """Yield the trials in their order, in groups that one testbed serves."""
    for _, group in groupby(missing, key=lambda item: canonical(item.testbed)):
        items = list(group)
        yield items[0].testbed, items


@dataclass
class _Recorder:
    """Records attempts at trials, measured on a testbed of which ``environment`` is the digest."""

    store: RawStore
    attempts: int
    max_stall_ms: float | None
    measure: Callable[[Trial, Measurement], None] = field(init=False)
    environment: str = field(init=False)
    conceal: Anonymizer | None = field(init=False, default=None)
    progress: Progress = field(init=False)
    unsteady: list[tuple[int, Planned]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.progress = Progress(self.store.experiment)

    def warm_up(self, shortest: Planned) -> None:
        """Measure a trial before it counts; repetition 0 keeps it apart from those that do."""
        trial = replace(shortest.trial, label=f"warm-up-{shortest.trial.label}", repetition=0)
        print(f"{self.store.experiment}: warming up")
        self._attempt(trial, len(self.store.attempts(trial)) + 1, 0, self.measure)

    def record(self, item: Planned) -> bool:
        """Record attempts at a trial until one succeeds or none is left; return whether so it is.

        Stalls that are too many for one trial of several come in bursts of half a minute, which
        attempts in a row do not outlast: such a trial is put off.
        """
        steady = partial(self._steady, item.stall_limits)
        for attempt in self.open_attempts(item.trial):
            ended = self._attempt(item.trial, attempt, item.order, steady)
            if ended == "measured":
                return True
            if ended == "unsteady" and item.stall_limits != StallLimits():
                return not self.open_attempts(item.trial)
        return True

    def put_off(self) -> list[tuple[int, Planned]]:
        """Return the trials that were put off since the last call, each with its position."""
        unsteady, self.unsteady = self.unsteady, []
        return unsteady

    def open_attempts(self, trial: Trial) -> range:
        """Return the numbers of the attempts that this run may make: none after a success."""
        ended = [str(self.store.read(made)["status"]) for made in self.store.attempts(trial)]
        if is_done(ended, self.attempts):
            return range(0)
        left = self.attempts - len(ended) if "unsteady" in ended else self.attempts
        return range(len(ended) + 1, len(ended) + left + 1)

    def _steady(self, asked: StallLimits, trial: Trial, measured: Measurement) -> None:
        """Measure a trial, and refuse it if a machine stalled for too long or too often."""
        max_ms = self.max_stall_ms if asked.max_stall_ms is None else asked.max_stall_ms
        self.measure(trial, measured)
        refused = [
            StalledError(what, name, times_limit)
            for name, found in measured.values.get("stalls", {}).items()
            for what, times_limit in _beyond(found, max_ms, asked.max_stalled_percent)
        ]
        if refused:
            raise max(refused, key=lambda error: error.times_limit)

    def _attempt(
        self,
        trial: Trial,
        attempt: int,
        order: int,
        measure: Callable[[Trial, Measurement], None],
    ) -> str:
        """Record one attempt at a trial and return how it ended.

        Raises
        ------
        TestbedError
            The testbed failed; what had been measured until then is recorded as a failed attempt.
        """
        store = self.store
        measured = Measurement(
            earlier=lambda: (d for d in store.documents() if d.get("code", "") == trial.code)
        )
        document, lost = _try(trial, measured, measure)
        document |= {
            "order": order,
            "environment": self.environment,
            "attempt": attempt,
            "testbed": store.testbed,
            "campaign": store.campaign,
        }
        outputs = measured.outputs
        if self.conceal:
            document, outputs = self.conceal(document), self.conceal(outputs)
        store.put(trial, attempt, document, outputs)
        if lost is not None:
            raise lost
        return str(document["status"])


def _beyond(
    found: dict[str, Any], max_stall_ms: float | None, max_percent: float | None
) -> Iterator[tuple[str, float]]:
    """Yield how a machine stalled beyond a limit, and how many times the limit that is."""
    longest, percent = found["longest_ms"], 100 * found["stalled_share"]
    if max_stall_ms is not None and longest > max_stall_ms:
        yield (
            f"the machine stalled for {longest:.1f} ms, more than max_stall_ms of {max_stall_ms:g}",
            longest / max_stall_ms,
        )
    if max_percent is not None and percent > max_percent:
        yield (
            f"the machine stalled for over {found['threshold_ms']:g} ms at {percent:.2f} % of the "
            f"meter's checks, more than max_stalled_percent of {max_percent:g}",
            percent / max_percent,
        )


def _try(
    trial: Trial, measured: Measurement, measure: Callable[[Trial, Measurement], None]
) -> tuple[dict[str, Any], TestbedError | None]:
    """Return what a record says of one attempt, and how the testbed failed, if it did.

    A failure is a record too.

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
    lost = None
    try:
        measure(trial, measured)
        document |= {"status": "measured"}
    except StalledError as error:
        document |= {
            "status": "unsteady",
            "reason": str(error),
            "times_limit": error.times_limit,
        }
    except (CommandError, ToolError, JobDeadlineError) as error:
        document |= _failed(trial, measured, error)
    except TestbedError as error:
        # With the testbed gone no further trial can succeed.
        if measured.empty:
            raise
        lost = error
        document |= _failed(trial, measured, error)
    return document | {
        "values": measured.values,
        "commands": measured.commands,
        "seconds": time.monotonic() - began,
    }, lost


def _failed(trial: Trial, measured: Measurement, error: Exception) -> dict[str, Any]:
    """Say that an attempt failed, and return what its record tells of it."""
    measured.outputs["failure.txt"] = f"{type(error).__name__}: {error}\n"
    print(f"{trial.label}: {error}")
    return {"status": "failed", "reason": str(error)}


def manifest(store: RawStore, planned: list[Planned]) -> dict[str, Any]:
    """Return the list of a run's trials with their checksums.

    Raises
    ------
    RecordError
        A planned trial has no measured attempt.
    """
    trials, failed = [], []
    configured = ""
    for item in planned:
        counted, documents = _of_record(store, item.trial)
        failed += [
            {"trial": d["trial"], "reason": d["reason"]}
            for d in documents
            if d["status"] != "measured" and d is not counted
        ]
        if counted is None:
            reason = documents[-1]["reason"] if documents else "it was never tried"
            raise RecordError(
                f"a trial could not be measured: {reason}",
                f"{store.folder / item.trial.name(max(1, len(documents)))}",
                "Its attempts are recorded; once the cause is mended, run this again to go on",
            )
        trials.append({"trial": counted["trial"], "sha256": counted["sha256"]})
        # What the run says of its testbed is how it was configured, not what single trials changed.
        if not (item.testbed and configured):
            configured = counted["environment"]
    return {
        "testbed": store.testbed,
        "campaign": store.campaign,
        "experiment": store.experiment,
        "folder": str(store.folder),
        "environment": configured,
        "trials": trials,
        "failed_attempts": failed,
    }


def write_manifest(document: dict[str, Any], path: str) -> None:
    """Write a run's manifest as JSON; its store stands there as seen from the manifest's folder.

    So a repository that is moved takes its runs along, and no path of the machine is told.
    """
    from_here = os.path.relpath(Path(document["folder"]).resolve(), Path(path).resolve().parent)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document | {"folder": from_here}, file, indent=1)
