"""The page of a trial: what was asked, what was counted, and what the tools printed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tsnrepro.common.counts import plural
from tsnrepro.records.store import SUMS, read_trial
from tsnrepro.report.trials import relative

_TEXTS = (".json", ".txt", ".log", ".csv")
_MOST_CHARACTERS = 6000
_HEADS = ("started", "status", "seconds", "attempt", "testbed", "campaign", "environment")
_ACCOUNTING = "accounting"
# What becomes of the datagrams, in the order of their way: what is there, and where it ends.
_MADE = {"sent": "sent by the talker", "copies": "copies made by FRER"}
_ENDED = {
    "eliminated": "duplicates eliminated",
    "received": "received by the program",
    "unaccounted": "unaccounted for",
}


def trial_page(folder: Path, page: Path) -> dict[str, Any]:
    """Return the contents of the page of a trial.

    Parameters
    ----------
    folder
        The trial's in the raw store.
    page
        Folder of the page, to which links are relative.

    Raises
    ------
    RecordError
        The trial's document is missing or not a JSON object.
    """
    document = read_trial(folder)
    values = document.get("values", {})
    counted = values.get(_ACCOUNTING) if isinstance(values, dict) else None
    others = {name: part for name, part in values.items() if name != _ACCOUNTING}
    return {
        "label": document.get("label", folder.name),
        "heads": {name: document[name] for name in _HEADS if document.get(name) is not None},
        "factors": dict(
            _leaves({"repetition": document.get("repetition"), **document.get("factors", {})})
        ),
        "way": list(_way(counted)) if isinstance(counted, dict) else [],
        "values": {
            name: dict(_leaves(part if isinstance(part, dict) else {name: part}))
            for name, part in others.items()
        },
        "commands": [
            {"host": command.get("host", ""), "text": " ".join(map(str, command.get("argv", ())))}
            for command in document.get("commands", ())
        ],
        "outputs": list(_outputs(folder, page)),
    }


def _leaves(part: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the known numbers and words in nested mappings, with their names in a line."""
    for name, item in part.items():
        label = f"{prefix}{name}".replace("_", " ")
        if isinstance(item, Mapping):
            yield from _leaves(item, f"{label}, ")
        elif isinstance(item, list) and len(item) > 8:
            yield label, plural(len(item), "entry", "entries")
        elif item is not None:
            yield label, f"{item:.7g}" if isinstance(item, float) else str(item)


def _way(counted: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what became of the datagrams: a name, a count, and its share of all in per cent.

    Of the places that can drop, those that did are named one by one.
    """
    made, ended = (
        {label: counted[name] for name, label in names.items() if counted.get(name) is not None}
        for names in (_MADE, _ENDED)
    )
    drops = {f"dropped: {name}": count for name, count in counted.get("drops", {}).items() if count}
    whole = sum(made.values()) or 1
    for name, count in (made | (drops or {"dropped": 0}) | ended).items():
        yield {"name": name, "count": count, "share": round(100 * min(1, count / whole), 2)}


def _outputs(folder: Path, page: Path) -> Iterator[dict[str, Any]]:
    """Yield the files of a trial, texts with their beginning."""
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        size, text = path.stat().st_size, ""
        if path.suffix in _TEXTS or path.name == SUMS:
            with path.open(encoding="utf-8", errors="replace") as file:
                text = file.read(_MOST_CHARACTERS)
        yield {
            "name": path.name,
            "address": relative(path, page),
            "size": size,
            "text": text,
            "whole": size <= _MOST_CHARACTERS,
        }
