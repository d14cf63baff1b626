"""Results of trials, derived again from the recorded output of iperf3, sockperf and ping."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.tools import iperf3, ping, sockperf

_RELATIVE_TOLERANCE = 1e-9


def contradicted(folder: Path, document: dict[str, Any]) -> Iterator[str]:
    """Yield the values of a recorded trial that the output of its tool contradicts.

    Trials of other programs, and imported ones, have none.

    Parameters
    ----------
    folder
        The trial's.
    document
        Its document.
    """
    values = document.get("values")
    result = values.get("result") if isinstance(values, dict) else None
    derivation = _DERIVATIONS.get(document["experiment"])
    if derivation is None or not isinstance(result, dict) or "source" in document:
        return
    name, derive = derivation
    if not (folder / name).is_file():
        return
    try:
        derived = derive((folder / name).read_text(encoding="utf-8", errors="replace"))
    except ToolError as error:
        yield f"{name} has no result: {error.what}"
        return
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


_DERIVATIONS: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "loss": ("iperf3.json", _udp),
    "tcp": ("iperf3.json", lambda text: asdict(iperf3.parse_tcp(text))),
    "latency": ("sockperf.txt", lambda text: asdict(sockperf.parse(text))),
    "ping": ("ping.txt", _ping),
}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_RELATIVE_TOLERANCE)
    return one == other
