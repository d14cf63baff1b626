"""The contents of the overview below the questions: results and places of loss.

Each value is a link to its row on the page of its experiment.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tsnrepro.common.errors import PublishError
from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.experiments.latency.analysis import HALF_RTT, LATENCIES
from tsnrepro.published import documents as published
from tsnrepro.published.tables import Cell
from tsnrepro.records.values import Result
from tsnrepro.results import numbers
from tsnrepro.results.figures import PLACE_LABELS
from tsnrepro.results.language import Translate
from tsnrepro.results.numbers import TEXT, TEXT_UNITS
from tsnrepro.results.runs import bare, shown

_DOCUMENT = "frer-udp"
_FRAMES = (64, 128, 256, 512, 1024, 1518)


@dataclass(frozen=True)
class _Compared:
    """A row of the comparison; ``{}`` in ``measured`` stands for the configuration.

    The published latencies are half round trips, as sockperf prints them.
    """

    label: str
    unit: str
    measured: str
    change: str = ""
    published_control: str = ""
    published_frer: str = ""


_COMPARED = (
    _Compared(
        "UDP load offered without loss, highest",
        "Mb/s",
        "loss.highest_clean.{}.mbps",
        "",
        "table-4-2/single-path/zero_loss_threshold_mbps",
        "table-4-2/frer-dual-path/zero_loss_threshold_mbps",
    ),
    _Compared(
        "UDP load at which half of the trials lose",
        "Mb/s",
        "loss.threshold.{}.mbps",
        "loss.threshold.difference.mbps",
    ),
    *(
        _Compared(
            f"UDP load {words}",
            "Mb/s",
            f"loss.{question}.{scope}.{{}}.mbps",
            f"loss.{question}.{scope}.difference.mbps",
        )
        for question, scope, words in (
            ("paced", "end_to_end", "by our own talker that reaches a large buffer"),
            ("limit", "end_to_end", "that reaches a large buffer over links the hosts can fill"),
            ("limit", "network", "that the network carries over these links"),
            ("bottleneck", "network", "that the network carries over slower member links"),
        )
    ),
    *(
        _Compared(
            f"UDP loss, {frame}-byte frames at their highest load",
            "%",
            f"loss.frame_{frame}.{{}}.percent",
            f"loss.frame_{frame}.difference.percent",
            f"table-4-3/{frame}/single_path_loss_percent",
            f"table-4-3/{frame}/frer_loss_percent",
        )
        for frame in _FRAMES
    ),
    _Compared(
        "TCP goodput",
        "Mb/s",
        "tcp.goodput.{}.mbps",
        "tcp.difference.percent",
        "table-4-1/single-path/throughput_mbps",
        "table-4-1/frer-dual-path/throughput_mbps",
    ),
    *(
        _Compared(
            f"{label} of {{quantity}}",
            "us",
            f"latency.{name}.{{}}.us",
            f"latency.{name}.difference.percent",
            f"table-4-4/{row}/single_path_latency_us" if row else "",
            f"table-4-4/{row}/frer_latency_us" if row else "",
        )
        for label, name, row in (
            ("Mean", "mean", "average"),
            ("Median", "p50", ""),
            ("P99", "p99", "p99"),
            ("P99.9", "p99_9", "p99-9"),
        )
    ),
)


def document_title() -> str:
    """Return the title and date of the document with the published values."""
    document = published.documents()[_DOCUMENT]
    return f"{document.title}, {document.date}"


def printed_cell(found: Cell) -> str:
    """Return a cell of a document's table as its document prints it, without the unit."""
    return numbers.printed(found.printed, found.qualifier, TEXT)


def compared(
    values: Mapping[str, Result], addresses: Mapping[str, str], translate: Translate
) -> Iterator[dict[str, Any]]:
    """Yield the rows of published and measured values.

    Parameters
    ----------
    values
        All results by key.
    addresses
        The link to each key in the site.
    translate
        Returns a text in the language of the site.

    Raises
    ------
    PublishError
        A value has another unit than its row.
    """
    tables = published.catalog()

    def printed(key: str) -> str:
        return printed_cell(tables.cell(f"{_DOCUMENT}/{key}")) if key else ""

    def cell(item: Result, text: str) -> dict[str, str]:
        return {"text": text, "address": addresses[item.key]}

    empty = {"text": "", "address": ""}
    quantity = str(values["latency.quantity"].value) if "latency.quantity" in values else HALF_RTT
    for row in _COMPARED:
        # No published value of another quantity is set beside.
        comparable = quantity == HALF_RTT or "{quantity}" not in row.label
        measured = [values.get(row.measured.format(name)) for name in CONFIGURATIONS]
        if not any(measured):
            continue
        change = values.get(row.change)
        if wrong := [item.key for item in measured if item and item.unit != row.unit]:
            raise PublishError(f"the report expects the unit {row.unit}", ", ".join(wrong))
        control, frer = (cell(item, bare(item)) if item else empty for item in measured)
        yield {
            "label": translate(row.label).format(quantity=translate(LATENCIES[quantity])),
            "unit": TEXT_UNITS.get(row.unit, row.unit),
            "published_control": printed(row.published_control) if comparable else "",
            "published_frer": printed(row.published_frer) if comparable else "",
            "control": control,
            "frer": frer,
            "change": cell(change, shown(change)) if change else empty,
        }


def loss_locations(values: Mapping[str, Result]) -> Iterator[dict[str, str]]:
    """Yield the places where datagrams were lost, with their shares."""
    for name, label in PLACE_LABELS.items():
        keys = [f"loss.share.{name}{part}.percent" for part in ("", ".control", ".frer")]
        if keys[0] in values:
            both, control, frer = (shown(values[key]) if key in values else "" for key in keys)
            yield {"label": label, "both": both, "control": control, "frer": frer}
