"""Changes to a campaign while, or after, it is measured: stop, skip, again, more."""

import os
import re
import signal
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tsnrepro.common.counts import plural
from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config import load
from tsnrepro.config.campaigns import Campaign, Selection
from tsnrepro.config.files import campaign as campaign_of
from tsnrepro.config.files import raw_root
from tsnrepro.config.registry import experiment as experiment_of
from tsnrepro.imports.manifest import is_imported
from tsnrepro.records.files import write_atomically
from tsnrepro.records.store import RUN_FILE, WITHDRAWN, RawStore, Trial, is_done
from tsnrepro.runner.control import STOP, WORKFLOW_CONTROL, holder_of, is_named, live_runs, request
from tsnrepro.runner.plan import planned_trials

_EXTRA_BLOCKS = re.compile(r"^extra_blocks:[^\n]*\n?", re.M)


def stop(campaign: str | None = None, testbed: str | None = None) -> list[str]:
    """Ask what is measured now to end after its trial, and return a line for each.

    Raises
    ------
    ConfigurationError
        Nothing of that campaign and testbed is measured.
    RecordError
        It was started by another user.
    """

    def wanted(on: str, under: str) -> bool:
        return testbed in (None, on) and campaign in (None, under)

    workflow = holder_of(root() / WORKFLOW_CONTROL)
    if workflow and any(wanted(*each) for each in workflow["campaigns"]):
        _terminate(workflow["pid"])
        return [
            f"{under} on {on}: ends after the trial that is measured now"
            for on, under in sorted(workflow["campaigns"])
        ]
    runs = [run for run in live_runs(raw_root()) if wanted(run.testbed, run.campaign)]
    for run in runs:
        request(run.control, STOP)
    if not runs:
        raise ConfigurationError(
            "nothing is being measured",
            f"{campaign or 'any campaign'} on {testbed or 'any testbed'}",
        )
    return [
        f"{run.experiment} of {run.campaign} on {run.testbed}: ends after the trial that is "
        "measured now"
        for run in runs
    ]


def _terminate(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError as error:
        raise ConfigurationError(
            "the campaign was started by another user", f"process {pid}", "Run this as that user"
        ) from error
    except ProcessLookupError:
        pass  # it ended meanwhile


def skip(what: str, because: str, names: tuple[str | None, str | None, str | None]) -> str:
    """End the trial or the experiment that is measured now, to be recorded as skipped.

    Parameters
    ----------
    what
        ``trial`` or ``experiment``.
    because
        The reason, for the record.
    names
        Testbed, campaign and experiment, where several are measured.

    Returns
    -------
    str
        What was asked for.

    Raises
    ------
    ConfigurationError
        Nothing of these names is measured, or several experiments are.
    RecordError
        It was started by another user.
    """
    _check_reason(because)
    runs = [run for run in live_runs(raw_root()) if is_named(names, run.names)]
    where = "/".join(name or "*" for name in names)
    if not runs:
        raise ConfigurationError("nothing is being measured", where)
    if len(runs) > 1:
        several = ", ".join(f"{run.experiment} of {run.campaign} on {run.testbed}" for run in runs)
        raise ConfigurationError(
            f"{len(runs)} experiments are being measured", several, "Name one by --experiment"
        )
    (run,) = runs
    run.skip(what, because)
    return f"{run.experiment} of {run.campaign} on {run.testbed}: the {what} is skipped: {because}"


def again(store: RawStore, folder: Path, because: str) -> str:
    """Withdraw what was measured of a trial, so that the next run measures it again.

    The attempts stay in the record; one more says why they no longer count. A trial that was
    skipped is taken up again.

    Parameters
    ----------
    store, folder
        The trial, any attempt of it.
    because
        The reason, for the record.

    Returns
    -------
    str
        What was done.

    Raises
    ------
    ConfigurationError
        The trial is not one that the campaign would measure again.
    RecordError
        Its record cannot be read or written.
    """
    _check_reason(because)
    document = store.read(folder)
    if is_imported(store.root, store.testbed):
        raise ConfigurationError("an imported trial cannot be measured again", str(folder))
    names = ("experiment", "label", "factors", "repetition")
    trial = Trial(*(document[name] for name in names), code=document.get("code", ""))
    planned = planned_trials(store.experiment, store.testbed, store.campaign)
    if trial.digest not in {item.trial.digest for item in planned}:
        raise ConfigurationError(
            "the campaign does not plan this trial", str(folder), "`tsnrepro status` shows its plan"
        )
    statuses = store.attempt_statuses(trial)
    if not is_done(statuses, campaign_of(store.campaign).attempts):
        raise ConfigurationError("the next run measures this trial in any case", str(folder))
    kept = ("code", "order", "environment", "testbed", "campaign")
    withdrawal: dict[str, Any] = {
        **{name: document[name] for name in (*names, *kept) if name in document},
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "status": WITHDRAWN,
        "reason": because,
        "values": {},
        "commands": [],
        "seconds": 0.0,
        "attempt": len(statuses) + 1,
    }
    store.put(trial, len(statuses) + 1, withdrawal, {})
    _outdate(store)
    return (
        f"{folder.name} no longer counts; the next run measures it again: "
        f"snakemake --cores 4 --config campaign={store.campaign} testbed={store.testbed}"
    )


def _outdate(store: RawStore) -> None:
    """Make a run's list of trials older than its campaign, so that Snakemake measures it again."""
    run = root() / "results" / store.testbed / store.campaign / store.experiment / RUN_FILE
    before = (root() / "config" / "campaigns" / f"{store.campaign}.yaml").stat().st_mtime - 1
    with suppress(FileNotFoundError):  # nothing was analysed yet
        os.utime(run, (before, before))


def more(experiment: str, blocks: int, campaign: str | None = None) -> str:
    """Add repetitions of all trials of an experiment to a campaign's file.

    Parameters
    ----------
    experiment
        Its name.
    blocks
        How many.
    campaign
        The campaign; by default that of config/config.yaml.

    Returns
    -------
    str
        What was done.

    Raises
    ------
    ConfigurationError
        The campaign lacks the experiment, or its file has ``extra_blocks`` over several lines.
    """
    experiment_of(experiment)
    name = campaign or load(Selection, root() / "config" / "config.yaml").campaign
    settings = campaign_of(name)
    path = root() / "config" / "campaigns" / f"{name}.yaml"
    if settings.section(experiment) is None:
        has = f"It has: {', '.join(settings.experiments)}"
        raise ConfigurationError(f"the campaign has no experiment '{experiment}'", str(path), has)
    every = settings.extra_blocks | {experiment: settings.extra_blocks.get(experiment, 0) + blocks}
    pairs = ", ".join(f"{each}: {number}" for each, number in every.items())
    before = path.read_text(encoding="utf-8")
    line = f"extra_blocks: {{{pairs}}}\n"
    after, replaced = _EXTRA_BLOCKS.subn(line, before)
    text = after if replaced else f"{before.rstrip()}\n{line}"
    partial = path.with_suffix(".partial.yaml")
    try:
        partial.write_text(text, encoding="utf-8")
        checked = load(Campaign, partial)
    except ConfigurationError as error:
        raise ConfigurationError(
            "its extra_blocks are not in one line", str(path), f"Write there: {line.strip()}"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    write_atomically(path, text.encode())
    extra = plural(checked.extra_blocks[experiment], "extra block")
    return (
        f"{experiment} of {name}: {extra}; the next run "
        f"measures them: snakemake --cores 4 --config campaign={name}"
    )


def _check_reason(because: str) -> None:
    if not because.strip():
        raise ConfigurationError("the reason is empty", "--because", "It is kept in the record")
