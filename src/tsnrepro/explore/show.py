"""One trial on the terminal: factors, results, where datagrams were lost, commands, raw output."""

import shlex
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import RecordError
from tsnrepro.config.files import raw_root
from tsnrepro.records.store import DOCUMENT, PARTIAL_PREFIX, SUMS, RawStore

COLUMNS = 80
_HEAD_LINES = 8
_NAMES_SHOWN = 5
# Parts of a record that have a section of their own, or say nothing to a reader.
_APART = ("accounting", "result", "seed", "runs")
_LONG = 6
_VALUE_COLUMN = 40


def find_trial(name: str) -> tuple[RawStore, Path]:
    """Return the store and the folder of a trial.

    Parameters
    ----------
    name
        The trial's folder, or its name, or a part of that which no other trial has. Testbed,
        campaign and experiment may stand before it, as in the raw data: then it is a beginning.

    Raises
    ------
    RecordError
        No trial is called so, or several are.
    """
    folder = Path(name).resolve()
    found = [folder] if (folder / DOCUMENT).is_file() else _named(name)
    if not found:
        raise RecordError(
            f"no trial '{name}'", str(raw_root()), "The column `trial` of a table has the names"
        )
    if len(found) > 1:
        some = ", ".join(str(path.relative_to(raw_root())) for path in found[:_NAMES_SHOWN])
        more = f" and {len(found) - _NAMES_SHOWN} more" if len(found) > _NAMES_SHOWN else ""
        raise RecordError(f"{len(found)} trials are called '{name}'", f"{some}{more}", "Say which")
    (trial,) = found
    return RawStore(trial.parents[3], *trial.parts[-4:-1]), trial


def _named(name: str) -> list[Path]:
    folders = [path for path in raw_root().glob("*/*/*/*/") if (path / DOCUMENT).is_file()]
    whole = [path for path in folders if not path.name.startswith(PARTIAL_PREFIX)]
    if "/" in name:
        return sorted(p for p in whole if str(p.relative_to(raw_root())).startswith(name))
    exact = [path for path in whole if path.name == name]
    return exact or sorted(path for path in whole if name in path.name)


def show(name: str) -> str:
    """Return a trial in lines of at most 80 columns, every file checked against its checksum.

    Raises
    ------
    RecordError
        It is not there or was altered.
    """
    store, folder = find_trial(name)
    record = store.read(folder)
    sections = [
        _head(record, folder),
        ("Factors", list(_entries(record.get("factors", {})))),
        ("Results", list(_results(record.get("values", {})))),
        ("Where the datagrams went", list(_where(record.get("values", {}).get("accounting")))),
        ("Commands", list(_commands(record.get("commands", [])))),
        ("Raw output", list(_outputs(store, folder))),
    ]
    lines = []
    for title, content in sections:
        if content:
            lines += ["", title, *(_cut(line) for line in content)]
    more = ["", "The whole of an output:", f"  tsnrepro show {folder.name} --output NAME"]
    return "\n".join([*lines, *more]).strip()


def raw_output(name: str, output: str) -> bytes:
    """Return one output of a trial as it was printed, unpacked where its name ends in ``.gz``.

    Raises
    ------
    RecordError
        There is no such trial or output, or the trial was altered.
    """
    store, folder = find_trial(name)
    store.read(folder)
    there = sorted(path.name for path in folder.iterdir())
    if output not in there:
        raise RecordError(f"no output '{output}'", folder.name, f"There are: {', '.join(there)}")
    return store.output_bytes(folder.name, output)


def _cut(line: str) -> str:
    return line if len(line) <= COLUMNS else line[: COLUMNS - 3] + "..."


def _head(record: dict[str, Any], folder: Path) -> tuple[str, list[str]]:
    testbed, campaign, experiment = folder.parts[-4:-1]
    lines = [f"  experiment {experiment}, campaign {campaign}, testbed {testbed}"]
    ended = f"  {record.get('status', 'imported')}"
    if "started" in record:
        ended += f", started {record['started'][:19].replace('T', ' ')} UTC"
    if "seconds" in record:
        ended += f", {_number(record['seconds'])} s"
    lines.append(ended)
    if reason := record.get("reason"):
        lines += textwrap.wrap(reason, COLUMNS - 4, initial_indent="  ", subsequent_indent="    ")
    repetition = record.get("repetition")
    if repetition is not None:
        lines.append(f"  repetition {repetition}, attempt {record.get('attempt', 1)}")
    return folder.name, lines


def _entries(values: dict[str, Any], before: str = "") -> Iterator[str]:
    """Yield a line for each value; what lies deeper has its way before its name."""
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
    for value in values[:_LONG]:
        said = value
        if isinstance(value, dict):
            said = ", ".join(f"{key} {_number(each)}" for key, each in value.items())
        yield from _entry(name, said)
        name = ""
    if len(values) > _LONG:
        yield from _entry("", f"and {len(values) - _LONG} more")


def _entry(name: str, value: Any) -> list[str]:
    """Return the lines of one value, its name before it."""
    column = max(_VALUE_COLUMN, len(name) + 3)
    wrapped = textwrap.wrap(_number(value), COLUMNS - column) or [""]
    lines = [f"  {name}".ljust(column) + wrapped[0]]
    return lines + [" " * column + line for line in wrapped[1:]]


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _results(values: dict[str, Any]) -> Iterator[str]:
    result = values.get("result")
    if isinstance(result, dict):
        yield from _entries(result)
    yield from _entries({name: v for name, v in values.items() if name not in _APART})


def _where(accounting: dict[str, Any] | None) -> Iterator[str]:
    """Yield sent = received + eliminated + lost by place, as a column of counts."""
    if not accounting:
        return
    there = accounting["sent"] + accounting["copies"]
    rows = [("sent", accounting["sent"]), ("copies made", accounting["copies"])]
    rows += [("received", accounting["received"]), ("eliminated", accounting["eliminated"])]
    rows += [(place, count) for place, count in accounting["drops"].items() if count]
    if untraced := accounting.get("untraced"):
        rows.append(("of these told by counters alone", untraced))
    rows.append(("unaccounted", accounting["unaccounted"]))
    for name, count in rows:
        share = f"{100 * count / there:8.3f} %" if there else ""
        yield f"  {name:52} {count:11} {share}"
    if not any(accounting["drops"].values()):
        yield "  nothing was dropped at any place"


def _commands(commands: list[dict[str, Any]]) -> Iterator[str]:
    for command in commands:
        took = f"{_number(command.get('seconds', 0.0))} s"
        yield f"  on {command.get('host', '?')}: exit {command.get('exit_status')} after {took}"
        argv = shlex.join(map(str, command.get("argv", [])))
        # Long paths stay whole where a line can hold them.
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
    """Return the first lines of a text, nothing of what is none."""
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
        return f"{count} bytes"
    return f"{count / 1e3:.0f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"
