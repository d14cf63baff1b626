"""What a campaign has measured so far, as it is measured: from the records alone.

A trial's value is that of its record; results with their intervals are computed by the analysis.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tsnrepro.common.durations import duration
from tsnrepro.common.errors import ConfigurationError, printable
from tsnrepro.config.files import campaign, raw_root
from tsnrepro.explore.overview import main_result
from tsnrepro.imports.manifest import is_imported
from tsnrepro.records.files import write_atomically
from tsnrepro.records.store import SKIPPED, WITHDRAWN, RawStore, accepted_attempt, is_done
from tsnrepro.records.store import read_trial as _read_trial
from tsnrepro.runner.control import is_named, live_runs
from tsnrepro.runner.plan import planned_trials
from tsnrepro.runner.progress import remaining_s
from tsnrepro.workflow.forecast import spent_s
from tsnrepro.workflow.status import Run, started_runs

_LATEST, _MAX_ODD, _MAX_GROUPS = 8, 8, 12
# A trial is an outlier beyond this modified z-score (Iglewicz and Hoaglin, How to Detect and Handle
# Outliers, 1993), if so many trials are like it.
_MAX_Z, _MIN_ALIKE = 3.5, 5
_MAD_OF_SD = 0.6745
# A generator that offers less than this share of its load limits the trial.
_OFFERED_SHARE = 0.95
_HTML = """\
<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="EVERY">
<meta name="viewport" content="width=device-width"><title>tsnrepro watch</title>
<style>body {{margin: 1em; overflow-x: auto}} {stylesheet}</style>
<body><pre style="font-family: monospace">{code}</pre></body></html>
"""


@dataclass
class Watched:
    """The state of one experiment that is, or was, measured.

    Attributes
    ----------
    testbed, campaign, experiment
        Their names.
    live
        Whether it is measured now.
    done, skipped, left
        Numbers of planned trials: with a result, skipped, and to be measured. Trials under a
        stopping rule count once they were tried.
    left_s
        Estimate of the time that the trials left take, s.
    latest
        Documents of the last attempts, the newest first.
    groups
        By the trials' label: name of the result and its values in the trials that count.
    odd
        Sentences about trials that ask to be looked at.
    """

    testbed: str
    campaign: str
    experiment: str
    live: bool
    done: int = 0
    skipped: int = 0
    left: int = 0
    left_s: float = 0.0
    latest: list[dict[str, Any]] = field(default_factory=list)
    groups: dict[str, tuple[str, list[float]]] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)


def watched_runs(
    testbed: str | None = None, campaign_name: str | None = None, experiment: str | None = None
) -> list[Run]:
    """Return the runs that are measured now, or else the one that was measured last.

    Raises
    ------
    ConfigurationError
        Nothing of these names was measured.
    """
    wanted = (testbed, campaign_name, experiment)
    live = [run.names for run in live_runs(raw_root())]
    if found := [names for names in live if is_named(wanted, names)]:
        return found
    started = [run for run in started_runs() if is_named(wanted, run)]
    folders = {run: raw_root().joinpath(*run) for run in started}
    measured = {run: path.stat().st_mtime for run, path in folders.items() if path.is_dir()}
    if not measured:
        raise ConfigurationError(
            "nothing was measured yet",
            "/".join(name or "*" for name in wanted),
            "Measure in another terminal: snakemake --cores 4",
        )
    return [max(measured, key=lambda run: measured[run])]


def watched(testbed: str, campaign_name: str, experiment: str) -> Watched:
    """Return the state of one experiment; checksums of its records are not verified.

    Raises
    ------
    ConfigurationError
        The campaign has no such experiment on this testbed.
    RecordError
        A record cannot be read.
    """
    run = (testbed, campaign_name, experiment)
    found = Watched(*run, live=run in [each.names for each in live_runs(raw_root())])
    if is_imported(raw_root(), testbed):
        return found
    store = RawStore(raw_root(), *run)
    attempts = campaign(campaign_name).attempts
    ended: list[dict[str, Any]] = []
    counted: list[dict[str, Any]] = []
    pairs, left = [], []
    for item in planned_trials(experiment, testbed, campaign_name):
        documents = [_document(folder) for folder in store.attempts(item.trial)]
        statuses = [str(each["status"]) for each in documents]
        if item.stopping_rule and not statuses:
            continue  # may not be needed
        ended += [each for each in documents if each["status"] != WITHDRAWN]
        if not is_done(statuses, attempts):
            left.append(item.nominal_s)
            continue
        accepted = accepted_attempt(documents)
        if accepted is None:
            found.skipped += 1
            continue
        counted.append(accepted)
        pairs.append((item.nominal_s, sum(float(each.get("seconds", 0)) for each in documents)))
    ended.sort(key=lambda each: str(each["started"]))
    found.done, found.left = len(counted), len(left)
    found.left_s = remaining_s(left, pairs, spent_s(ended))
    found.latest = ended[: -_LATEST - 1 : -1]
    found.groups = _groups(counted)
    found.odd = [*_odd_attempts(ended, counted), *_outliers(counted)]
    return found


@cache
def _document(folder: Path) -> dict[str, Any]:
    # A record never changes.
    return _read_trial(folder) | {"trial": folder.name}


def _groups(counted: list[dict[str, Any]]) -> dict[str, tuple[str, list[float]]]:
    found: dict[str, tuple[str, list[float]]] = {}
    for each in sorted(counted, key=lambda each: str(each["label"])):
        if result := main_result(each):
            name, value = result
            found.setdefault(each["label"], (name, []))[1].append(value)
    return found


def _odd_attempts(ended: list[dict[str, Any]], counted: list[dict[str, Any]]) -> Iterator[str]:
    for each in reversed(ended):
        if each["status"] != "measured":
            yield f"{each['trial']}: {each['status']}: {each.get('reason', '')}"
    for each in counted:
        if unaccounted := sum(map(abs, _numbers(each["values"], "unaccounted"))):
            yield f"{each['trial']}: {unaccounted:g} datagrams are not accounted for"
        if limited := sum(_numbers(each["values"], "generator_limited")):
            yield f"{each['trial']}: the generator limited {limited:g} of its loads"
        asked = each["factors"].get("rate_mbps")
        offered = each["values"].get("result", {}).get("offered_mbps")
        if asked and offered is not None and offered < _OFFERED_SHARE * asked:
            yield f"{each['trial']}: the generator offered {offered:.4g} of {asked:g} Mb/s"


def _numbers(values: Any, name: str) -> Iterator[float]:
    """Yield the numbers, or truth values, of that name at any depth of a record."""
    if isinstance(values, list):
        for each in values:
            yield from _numbers(each, name)
    elif isinstance(values, dict):
        for key, value in values.items():
            if key == name and isinstance(value, int | float):
                yield value
            else:
                yield from _numbers(value, name)


def _outliers(counted: list[dict[str, Any]]) -> Iterator[str]:
    alike: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for each in counted:
        if result := main_result(each):
            alike[f"{each['label']} {result[0]}"].append((each["trial"], result[1]))
    for of, trials in alike.items():
        middle = median(value for _, value in trials)
        deviation = median(abs(value - middle) for _, value in trials)
        if len(trials) < _MIN_ALIKE or not deviation:
            continue
        for trial, value in trials:
            if _MAD_OF_SD * abs(value - middle) / deviation > _MAX_Z:
                name = of.rpartition(" ")[2]
                yield f"{trial}: outlier: {name} {value:.4g}, median of {len(trials)} {middle:.4g}"


# --- as text ------------------------------------------------------------------------------------


def rendered(state: Watched) -> Group:
    """Return the state of an experiment for a terminal or a notebook."""
    total = state.done + state.left
    skipped = f", {state.skipped} skipped" if state.skipped else ""
    left = f"{state.left} left, about {duration(state.left_s)}" if state.left else "none left"
    now = "measuring" if state.live else "not measuring"
    lines = [
        f"{state.experiment} of {state.campaign} on {state.testbed}: {now}",
        f"{state.done} of {total} trials measured{skipped}, {left}",
    ]
    parts: list[Any] = [Text("\n".join(lines), style="bold")]
    if state.latest:
        parts += [_latest_table(state.latest)]
    if state.groups:
        parts += [_groups_table(state.groups)]
    if state.odd:
        parts += [Text(f"odd: {len(state.odd)}", style="bold")]
        parts += [Text(f"  {printable(line)}") for line in state.odd[:_MAX_ODD]]
        if len(state.odd) > _MAX_ODD:
            parts += [Text(f"  and {len(state.odd) - _MAX_ODD} more")]
    return Group(*parts, "")


def _latest_table(latest: list[dict[str, Any]]) -> Table:
    table = Table("started", "trial", "status", "result", "stall", title="last attempts", box=None)
    for each in latest:
        result = main_result(each)
        stalls = list(_numbers(each["values"].get("stalls", {}), "longest_ms"))
        table.add_row(
            datetime.fromisoformat(each["started"]).astimezone().strftime("%H:%M:%S"),
            printable(f"{each['label']} r{each['repetition']}"),
            each["status"],
            f"{result[0]} {result[1]:.4g}" if result and each["status"] != SKIPPED else "",
            f"{max(stalls):.3g} ms" if stalls else "",
        )
    return table


def _groups_table(groups: dict[str, tuple[str, list[float]]]) -> Table:
    more = f", {len(groups) - _MAX_GROUPS} more" if len(groups) > _MAX_GROUPS else ""
    table = Table("trials", "result", "number", "median", "range", title=f"so far{more}", box=None)
    for label, (name, values) in list(groups.items())[:_MAX_GROUPS]:
        span = f"{min(values):.4g} to {max(values):.4g}"
        table.add_row(printable(label), name, str(len(values)), f"{median(values):.4g}", span)
    return table


def watch(
    stream: TextIO,
    names: tuple[str | None, str | None, str | None] = (None, None, None),
    *,
    every_s: float = 2.0,
    page: Path | None = None,
) -> None:
    """Show what is measured until interrupted, or once where the stream is no terminal.

    Parameters
    ----------
    stream
        Where to show it.
    names
        Testbed, campaign and experiment; of those that are None whatever is measured.
    every_s
        Seconds between two looks at the records.
    page
        An HTML file that is written again with each look, and that a browser reloads as often; it
        goes on being written where the stream is no terminal.

    Raises
    ------
    ConfigurationError
        Nothing of these names was measured.
    """
    console = Console(file=stream)
    if not console.is_terminal and page is None:
        console.print(now(*names))
        return
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while True:
            found = now(*names)
            if console.is_terminal:
                live.update(found, refresh=True)
            if page is not None:
                write_page(found, page, every_s)
            time.sleep(every_s)


def now(
    testbed: str | None = None, campaign_name: str | None = None, experiment: str | None = None
) -> Group:
    """Return what :func:`watch` shows, once."""
    return Group(
        *(rendered(watched(*run)) for run in watched_runs(testbed, campaign_name, experiment))
    )


def write_page(found: Group, path: Path, every_s: float) -> None:
    """Write what :func:`watch` shows as a page that a browser reloads."""
    recorded = Console(file=StringIO(), record=True, width=110)
    recorded.print(found)
    page = recorded.export_html(code_format=_HTML.replace("EVERY", f"{every_s:g}"))
    write_atomically(path, page.encode())
