"""Results of trials, derived again from the recorded output of tools and our programs."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.tools import iperf3, ping, sockperf
from tsnrepro.tools.parsing import json_object

_RELATIVE_TOLERANCE = 1e-9


def contradicted(folder: Path, document: dict[str, Any]) -> Iterator[str]:
    """Yield the values of a recorded trial that the output of its tool contradicts.

    Trials of other experiments, and imported ones, have none.

    Parameters
    ----------
    folder
        The trial's.
    document
        Its document.
    """
    values = document.get("values")
    result = values.get("result") if isinstance(values, dict) else None
    if not isinstance(result, dict) or "source" in document:
        return
    for name, derive in _DERIVATIONS.get(document["experiment"], {}).items():
        if not (folder / name).is_file():
            continue
        try:
            derived = derive((folder / name).read_text(encoding="utf-8", errors="replace"))
        except ToolError as error:
            yield f"{name} has no result: {error.what}"
            continue
        for key in derived.keys() & result.keys():
            if not _same(result[key], derived[key]):
                yield f"{key} is {result[key]!r:.40} and {derived[key]!r:.40} in {name}"


def _udp(text: str) -> dict[str, Any]:
    found = iperf3.parse_udp(text)
    megabits = 8 * found.payload_bytes / found.send_seconds / 1e6
    # Rates are those of whole datagrams.
    return asdict(found) | {
        "lost": found.lost,
        "offered_mbps": found.sent * megabits,
        "delivered_mbps": found.received * megabits,
    }


def _ping(text: str) -> dict[str, Any]:
    found = ping.parse(text)
    return {"sent": found.sent, "received": found.received} | ping.quantiles_us(found)


def _talker(text: str) -> dict[str, Any]:
    found = json_object(text, "the talker")
    return {key: found.get(key) for key in ("sent", "late", "payload_bytes")}


def _listener(text: str) -> dict[str, Any]:
    match json_object(text, "the listener").get("streams"):
        case [{"unique": unique, "duplicates": duplicates, "out_of_order": out_of_order}]:
            both = {"received": unique, "unique": unique, "duplicated": duplicates}
            return both | {"out_of_order": out_of_order, "reordered": out_of_order}
        case _:  # results of several streams are sums of theirs
            return {}


# By experiment and output; of a trial that has several runs, the result is of all of them.
_OUR_PROGRAMS: dict[str, Callable[[str], dict[str, Any]]] = {
    "run-001-talker.json": _talker,
    "run-001-listener.json": _listener,
}
_DERIVATIONS: dict[str, dict[str, Callable[[str], dict[str, Any]]]] = {
    "loss": {"iperf3.json": _udp, **_OUR_PROGRAMS},
    "tcp": {"iperf3.json": lambda text: asdict(iperf3.parse_tcp(text))},
    "latency": {"sockperf.txt": lambda text: asdict(sockperf.parse(text))},
    "ping": {"ping.txt": _ping},
    "failure": _OUR_PROGRAMS,
    "traffic": _OUR_PROGRAMS,
}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_RELATIVE_TOLERANCE)
    return one == other
