"""One trial of the raw store, and its text for a terminal."""

import io
import shlex
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsnrepro.common.errors import RecordError, printable
from tsnrepro.config.files import raw_root
from tsnrepro.records.files import PARTIAL_PREFIX
from tsnrepro.records.store import DOCUMENT, HALF_ROUND_TRIPS, SOCKPERF_LOG, SUMS, RawStore

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = 80
_HEAD_LINES = 8
_MAX_NAMES = 5
# Parts of a record that have another section or are not shown.
_OMITTED = ("accounting", "result", "seed", "runs")
_MAX_ITEMS = 6
_VALUE_COLUMN, _MAX_VALUE_COLUMN = 40, 60


@dataclass(frozen=True)
class RawTrial:
    """One trial of the raw store, with verified checksums.

    Attributes
    ----------
    store
        The store of the trial.
    record
        Its ``trial.json``: factors, values, commands, accounting.
    """

    store: RawStore
    record: dict[str, Any]

    @property
    def folder(self) -> Path:
        """The folder of the trial."""
        return self.store.folder / self.record["trial"]

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs of its tools."""
        return sorted(path.name for path in self.folder.iterdir())

    def output(self, name: str) -> bytes:
        """Return one output, uncompressed where its name ends in ``.gz``.

        Raises
        ------
        RecordError
            The trial has no such output.
        """
        if name not in self.outputs:
            raise RecordError(
                f"no output '{name}'", str(self.folder), f"There are: {', '.join(self.outputs)}"
            )
        return self.store.output_bytes(self.folder.name, name)

    @property
    def tables(self) -> list[str]:
        """The names that :meth:`table` takes."""
        from tsnrepro.experiments.shaping.log import LOG  # noqa: PLC0415 - numpy and Arrow

        logs = [name.removesuffix(".parquet") for name in self.outputs if name.endswith(".parquet")]
        known = {LOG, HALF_ROUND_TRIPS, SOCKPERF_LOG} & {*self.outputs}
        observed = known or self.record.get("source", {}).get("observations")
        return [*logs, "latencies"] if observed else logs

    def table(self, name: str) -> "pd.DataFrame":
        """Return single datagrams of the trial, one per row, in order.

        Parameters
        ----------
        name
            ``arrivals``: the listener's log; or another log of :attr:`tables`. Columns: ``stream``
            (UDP port), ``sequence`` (number of the datagram), and times of TAI in nanoseconds:
            ``sent_ns``, ``received_ns`` by the program, ``stamped_ns`` by kernel or card and
            ``queued_ns`` of the talker's device (0: unknown).
            ``latencies``: its latencies in microseconds, in a column with the name of their
            quantity: ``half_round_trip_us``, ``one_way_us``, or of ``shaping`` ``latency_us``.

        Raises
        ------
        RecordError
            The trial has no such table; the message names those that it has.

        Examples
        --------
        >>> quick = tsnrepro.load("model/quick")
        >>> trial = quick.raw(quick.trials("latency")["trial"].iloc[0])
        >>> trial.tables
        ['latencies']
        >>> bool(trial.table("latencies")["half_round_trip_us"].median() > 0)
        True
        """
        import pandas as pd  # noqa: PLC0415 - the command `show` would wait for it

        if name not in self.tables:
            there = ", ".join(self.tables) or "none"
            raise RecordError(f"no table '{name}'", str(self.folder), f"There are: {there}")
        if name == "latencies":
            return pd.DataFrame(self._latencies())
        return pd.read_parquet(io.BytesIO(self.output(f"{name}.parquet")))

    def _latencies(self) -> dict[str, Any]:
        """Return the column of latencies by its name."""
        import numpy as np  # noqa: PLC0415

        from tsnrepro.experiments.latency import analysis  # noqa: PLC0415
        from tsnrepro.experiments.shaping import log  # noqa: PLC0415
        from tsnrepro.imports.readers import recorded_observations  # noqa: PLC0415

        if log.LOG in self.outputs:
            return {"latency_us": log.latency_us(log.decompress(self.output(log.LOG)))}
        if "source" in self.record:
            described = self.record["factors"] | self.record["values"]["result"]
            folder = self.store.root / self.store.testbed
            column = f"{described['quantity'].replace(' ', '_')}_us"
            return {column: recorded_observations(folder, self.record)}
        pieces = list(analysis.pieces(self.store, self.folder.name))
        return {"half_round_trip_us": np.concatenate(pieces) if pieces else np.empty(0)}


def find_trial(name: str) -> tuple[RawStore, Path]:
    """Return the store and the folder of a trial.

    Parameters
    ----------
    name
        The folder of the trial, its name, a unique part of its name, or the beginning of its path
        ``testbed/campaign/experiment/trial``.

    Raises
    ------
    RecordError
        No trial or several trials match.
    """
    found = _folder(name) or _named(name)
    if not found:
        raise RecordError(
            f"no trial '{name}'", str(raw_root()), "Names are in the column `trial` of a table"
        )
    if len(found) > 1:
        some = ", ".join(str(path.relative_to(raw_root())) for path in found[:_MAX_NAMES])
        more = f" and {len(found) - _MAX_NAMES} more" if len(found) > _MAX_NAMES else ""
        raise RecordError(f"{len(found)} trials match '{name}'", f"{some}{more}", "Name one")
    (trial,) = found
    return RawStore(trial.parents[3], *trial.parts[-4:-1]), trial


def _folder(name: str) -> list[Path]:
    try:
        folder = Path(name).resolve()
        return [folder] if (folder / DOCUMENT).is_file() else []
    except (OSError, ValueError):  # too long for a path, or with a NUL
        return []


def _named(name: str) -> list[Path]:
    folders = [path for path in raw_root().glob("*/*/*/*/") if (path / DOCUMENT).is_file()]
    complete = [path for path in folders if not path.name.startswith(PARTIAL_PREFIX)]
    if "/" in name:
        return sorted(p for p in complete if str(p.relative_to(raw_root())).startswith(name))
    exact = [path for path in complete if path.name == name]
    return exact or sorted(path for path in complete if name in path.name)


def show(name: str) -> str:
    """Return a trial as lines of at most 80 columns, after verifying its checksums.

    Raises
    ------
    RecordError
        There is no such trial, or it was altered.
    """
    store, folder = find_trial(name)
    record = store.read(folder)
    sections = [
        _head(record, folder),
        ("Factors", list(_entries(record.get("factors", {})))),
        ("Results", list(_results(record.get("values", {})))),
        ("Where the datagrams went", list(_accounting(record.get("values", {}).get("accounting")))),
        ("Commands", list(_commands(record.get("commands", [])))),
        ("Raw output", list(_outputs(store, folder))),
    ]
    lines = []
    for title, content in sections:
        if content:
            lines += ["", title, *(_cut(line) for line in content)]
    more = ["", "A complete output:", f"  tsnrepro show {folder.name} --output NAME"]
    return printable("\n".join([*lines, *more]).strip())


def raw_output(name: str, output: str) -> bytes:
    """Return one output of a trial, uncompressed where its name ends in ``.gz``.

    Raises
    ------
    RecordError
        There is no such trial or output, or the trial was altered.
    """
    store, folder = find_trial(name)
    return RawTrial(store, store.read(folder)).output(output)


def _cut(line: str) -> str:
    return line if len(line) <= COLUMNS else line[: COLUMNS - 3] + "..."


def _head(record: dict[str, Any], folder: Path) -> tuple[str, list[str]]:
    testbed, campaign, experiment = folder.parts[-4:-1]
    lines = [f"  experiment {experiment}, campaign {campaign}, testbed {testbed}"]
    ended = f"  {record.get('status', 'imported')}"
    if started := record.get("started"):  # unknown of imports whose mapping gives none
        ended += f", started {started[:19].replace('T', ' ')} UTC"
    if record.get("seconds") is not None:
        ended += f", {_number(record['seconds'])} s"
    lines.append(ended)
    if reason := record.get("reason"):
        lines += textwrap.wrap(reason, COLUMNS - 4, initial_indent="  ", subsequent_indent="    ")
    repetition = record.get("repetition")
    if repetition is not None:
        lines.append(f"  repetition {repetition}, attempt {record.get('attempt', 1)}")
    return folder.name, lines


def _entries(values: dict[str, Any], before: str = "") -> Iterator[str]:
    """Yield a line for each value; a nested value has the path as its name."""
    for name, value in values.items():
        if value is None:
            continue
        if isinstance(value, dict):
            yield from _entries(value, f"{before}{name}.")
        elif isinstance(value, list):
            yield from _listed(f"{before}{name}", value)
        else:
            yield from _entry(before + name, value)


def _listed(name: str, values: list[Any]) -> Iterator[str]:
    for value in values[:_MAX_ITEMS]:
        text = value
        if isinstance(value, dict):
            text = ", ".join(f"{key} {_number(each)}" for key, each in value.items())
        yield from _entry(name, text)
        name = ""
    if len(values) > _MAX_ITEMS:
        yield from _entry("", f"and {len(values) - _MAX_ITEMS} more")


def _entry(name: str, value: Any) -> list[str]:
    """Return the lines of a value after its name, or below a long one."""
    column = max(_VALUE_COLUMN, len(name) + 3)
    if column > _MAX_VALUE_COLUMN:
        return [f"  {name}", *_entry("", value)]
    wrapped = textwrap.wrap(_number(value), COLUMNS - column) or [""]
    lines = [f"  {name}".ljust(column) + wrapped[0]]
    return lines + [" " * column + line for line in wrapped[1:]]


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _results(values: dict[str, Any]) -> Iterator[str]:
    result = values.get("result")
    if isinstance(result, dict):
        yield from _entries(result)
    yield from _entries({name: v for name, v in values.items() if name not in _OMITTED})


def _accounting(accounting: dict[str, Any] | None) -> Iterator[str]:
    """Yield the accounting of datagrams as a column of counts with shares."""
    if not accounting:
        return
    total = accounting["sent"] + accounting["copies"]
    rows = [("sent", accounting["sent"]), ("copies made", accounting["copies"])]
    rows += [("received", accounting["received"]), ("eliminated", accounting["eliminated"])]
    rows += [(place, count) for place, count in accounting["drops"].items() if count]
    if untraced := accounting.get("untraced"):
        rows.append(("of these by counters alone", untraced))
    rows.append(("unaccounted", accounting["unaccounted"]))
    for name, count in rows:
        share = f"{100 * count / total:8.3f} %" if total else ""
        yield f"  {name:52} {count:11} {share}"
    if not any(accounting["drops"].values()):
        yield "  no drops"


def _commands(commands: list[dict[str, Any]]) -> Iterator[str]:
    for command in commands:
        duration = f"{_number(command.get('seconds', 0.0))} s"
        yield f"  on {command.get('host', '?')}: exit {command.get('exit_status')} after {duration}"
        argv = shlex.join(map(str, command.get("argv", [])))
        yield from textwrap.wrap(
            argv,
            COLUMNS - 1,
            initial_indent="    ",
            subsequent_indent="      ",
            break_on_hyphens=False,
        )


def _outputs(store: RawStore, folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if path.name in (DOCUMENT, SUMS):
            continue
        yield f"  {path.name}, {_size(path.stat().st_size)}"
        yield from (
            f"    {line}" for line in _beginning(store.output_bytes(folder.name, path.name))
        )


def _beginning(data: bytes) -> Iterable[str]:
    """Return the first lines of a text, none for anything else."""
    try:
        lines = data.decode().expandtabs().splitlines()
    except UnicodeDecodeError:
        return []
    if any(not line.isprintable() for line in lines[:_HEAD_LINES]):
        return []
    shown = lines[:_HEAD_LINES]
    further = len(lines) - len(shown)
    return [*shown, f"... {further} more lines"] if further > 0 else shown


def _size(count: int) -> str:
    if count < 10_000:
        return f"{count} B"
    return f"{count / 1e3:.0f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"
