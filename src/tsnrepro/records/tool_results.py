"""Results of trials, derived again from the recorded output of tools and our programs."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import RecordError, ToolError
from tsnrepro.records.files import bounded_bytes
from tsnrepro.tools import iperf3, mausezahn, ping, sockperf
from tsnrepro.tools.parsing import json_object

_RELATIVE_TOLERANCE = 1e-9


def contradicted(folder: Path, document: dict[str, Any]) -> Iterator[str]:
    """Yield the values of a recorded trial that the output of its tool contradicts.

    Trials of other experiments, and imported ones, have none.

    ``folder`` is the trial's.
    """
    values = document.get("values")
    if not isinstance(values, dict) or "source" in document:
        return
    for result, outputs in _results(document["experiment"], values):
        for name, derive in outputs.items():
            if (folder / name).is_file():
                yield from _differences(folder / name, derive, result)


def _results(
    experiment: str, values: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], "_Derivations"]]:
    """Yield each result of a trial, with what derives it from which output."""
    if isinstance(result := values.get("result"), dict):
        yield result, _DERIVATIONS.get(experiment, {})
    if experiment == "rfc2544":
        for number, load_trial in enumerate(values.get("trials") or [], start=1):
            first, later = ("run-001-", "") if number == 1 else (f"run-{number:03d}-",) * 2
            yield (
                load_trial,
                {
                    f"{first}talker.json": _offered,
                    f"{first}listener.json": _received,
                    f"{later}iperf3.json": lambda text: {"offered": iperf3.parse_udp(text).sent},
                },
            )


def _differences(
    output: Path, derive: Callable[[str], dict[str, Any]], result: dict[str, Any]
) -> Iterator[str]:
    try:
        printed = bounded_bytes(output, "not an output of a trial")
        derived = derive(printed.decode("utf-8", "replace"))
    except (ToolError, RecordError) as error:
        yield f"{output.name} has no result: {error.what}"
        return
    for key in derived.keys() & result.keys():
        if not _same(result[key], derived[key]):
            yield f"{key} is {result[key]!r:.40} and {derived[key]!r:.40} in {output.name}"


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


def _offered(text: str) -> dict[str, Any]:
    return {"offered": _talker(text)["sent"]}


def _received(text: str) -> dict[str, Any]:
    found = _listener(text)
    return {"received": found["received"]} if found else {}


def _samples(text: str) -> dict[str, Any]:
    try:
        rate = mausezahn.frames_per_second(json.loads(text))
    except (ValueError, TypeError, LookupError) as error:
        raise ToolError(f"it has no samples of frames over time: {error}") from error
    return {"achieved_pps": rate} if rate else {}


# By experiment and output; of a trial that has several runs, the result is of all of them.
_Derivations = dict[str, Callable[[str], dict[str, Any]]]
_OUR_PROGRAMS: _Derivations = {"run-001-talker.json": _talker, "run-001-listener.json": _listener}
_DERIVATIONS: dict[str, _Derivations] = {
    "loss": {"iperf3.json": _udp, **_OUR_PROGRAMS},
    "tcp": {"iperf3.json": lambda text: asdict(iperf3.parse_tcp(text))},
    "latency": {"sockperf.txt": lambda text: asdict(sockperf.parse(text))},
    "ping": {"ping.txt": _ping},
    "mausezahn": {"samples.json": _samples},
    "failure": _OUR_PROGRAMS,
    "traffic": _OUR_PROGRAMS,
}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_RELATIVE_TOLERANCE)
    return one == other
