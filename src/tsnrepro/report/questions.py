"""The questions that experiments answer, each with its answer, numbers and figure.

A question is on the pages where its experiment measured what the answer rests on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tsnrepro.common.errors import PublishError
from tsnrepro.published import documents as published
from tsnrepro.published.tables import Cell
from tsnrepro.records.values import Result
from tsnrepro.report.overview import printed_cell
from tsnrepro.results.language import Translate
from tsnrepro.results.numbers import TEXT_UNITS
from tsnrepro.results.runs import shown
from tsnrepro.results.verdicts import CANNOT_TELL, power_beside


@dataclass(frozen=True)
class Question:
    """A question, and where its answer stands.

    Attributes
    ----------
    text
        The question.
    rests_on
        Key of the verdict, or of the number, that answers it.
    figure
        The figure that shows it, or none.
    measured
        Keys of the numbers beside the answer, by what they are called there.
    answers
        The answer for each verdict; none where the numbers are the answer.
    published
        Cells of the documents' tables, by what they are called.
    """

    text: str
    rests_on: str
    figure: str
    measured: Mapping[str, str]
    answers: Mapping[str, str] = field(default_factory=dict)
    published: Mapping[str, str] = field(default_factory=dict)

    @property
    def experiment(self) -> str:
        """The experiment that answers it."""
        return self.rests_on.partition(".")[0]


_NOT_APART = "The trials do not tell the two apart."
_HIGHER = {
    "frer higher": "Yes, on this testbed: its threshold is higher.",
    "control higher": "No, on this testbed its threshold is lower.",
    "equivalent": "No: the two thresholds are equivalent within the margin.",
    CANNOT_TELL: _NOT_APART,
}
_CHANGED = {
    "equivalent": "No: equivalent within the margin.",
    "different": "Yes, by more than the margin.",
    CANNOT_TELL: "Neither equivalence nor a larger difference is shown.",
}


def _against(first: str, second: str) -> dict[str, str]:
    """Return the answers where the first is compared with the second."""
    return {
        "higher": f"Yes: {first} takes longer than {second}.",
        "lower": f"No: {first} takes less time than {second}.",
        CANNOT_TELL: _NOT_APART,
    }


def _both(key: str) -> dict[str, str]:
    """Return the keys of both configurations; ``{}`` stands for their names."""
    return {"single path": key.format("control"), "FRER": key.format("frer")}


_THRESHOLD = "frer-udp/table-4-2/{}/zero_loss_threshold_mbps"

QUESTIONS = (
    Question(
        "Does FRER raise the UDP load that reaches a program with a large buffer?",
        "loss.limit.end_to_end.verdict",
        "intervention",
        _both("loss.limit.end_to_end.{}.mbps") | {"ratio": "loss.limit.end_to_end.ratio"},
        _HIGHER,
        {
            "single path": _THRESHOLD.format("single-path"),
            "FRER": _THRESHOLD.format("frer-dual-path"),
        },
    ),
    Question(
        "Does FRER raise the load at which the network itself begins to lose?",
        "loss.bottleneck.network.verdict",
        "",
        _both("loss.bottleneck.network.{}.mbps") | {"ratio": "loss.bottleneck.network.ratio"},
        _HIGHER,
    ),
    Question(
        "Does FRER raise the UDP load without loss, measured as the documents did?",
        "loss.threshold.verdict",
        "loss-against-load",
        _both("loss.threshold.{}.mbps") | {"ratio": "loss.threshold.ratio"},
        _HIGHER,
        {
            "single path": _THRESHOLD.format("single-path"),
            "FRER": _THRESHOLD.format("frer-dual-path"),
        },
    ),
    Question(
        "Does FRER change the TCP goodput of links that limit it?",
        "tcp.limit.equivalence.verdict",
        "",
        _both("tcp.limit.goodput.{}.mbps") | {"difference": "tcp.limit.difference.percent"},
        _CHANGED,
    ),
    Question(
        "Does FRER change median latency?",
        "latency.p50.verdict",
        "latency-distribution",
        _both("latency.p50.{}.us") | {"difference": "latency.p50.difference.us"},
        {
            "higher": "Yes: the median is higher with FRER.",
            "lower": "Yes: the median is lower with FRER.",
            CANNOT_TELL: _NOT_APART,
        },
    ),
    Question(
        "What is lost while a path is cut?",
        "failure.failover.frer.lost_while_cut",
        "failover",
        {
            "single path": "failure.failover.control.lost_while_cut",
            "FRER": "failure.failover.frer.lost_while_cut",
            "longest gap, single path": "failure.failover.control.gap.ms",
            "longest gap, FRER": "failure.failover.frer.gap.ms",
        },
    ),
    Question(
        "Does a gate lengthen the tail under load at P95, against strict priority?",
        "shaping.long_cycle.tas_against_prio.loaded.p95.verdict",
        "latency-by-cycle",
        {
            "TAS less strict priority": (
                "shaping.long_cycle.tas_against_prio.loaded.p95.difference.us"
            ),
            "ratio": "shaping.long_cycle.tas_against_prio.loaded.p95.ratio",
        },
        _against("TAS", "strict priority"),
    ),
    Question(
        "And the median, where the talker keeps step with the cycle?",
        "shaping.long_cycle_synchronised.tas_against_prio.loaded.p50.verdict",
        "long-cycle-synchronised-loaded",
        {
            "TAS less strict priority": (
                "shaping.long_cycle_synchronised.tas_against_prio.loaded.p50.difference.us"
            ),
            "ratio": "shaping.long_cycle_synchronised.tas_against_prio.loaded.p50.ratio",
        },
        _against("TAS", "strict priority"),
    ),
    Question(
        "Does CBS have the longer tail in a bridge under load, at P99?",
        "shaping.bridge.cbs_against_tas.loaded.p99.verdict",
        "cbs-against-tas",
        {
            "CBS less TAS": "shaping.bridge.cbs_against_tas.loaded.p99.difference.us",
            "ratio": "shaping.bridge.cbs_against_tas.loaded.p99.ratio",
        },
        _against("CBS", "TAS"),
    ),
)


def answered(
    values: Mapping[str, Result],
    addresses: Mapping[str, str],
    figures: Mapping[str, Mapping[str, str]],
    translate: Translate = str,
) -> Iterator[dict[str, Any]]:
    """Yield each question whose answer was measured, with what stands beside it.

    Parameters
    ----------
    values
        All results by key.
    addresses
        The link to each key in the site.
    figures
        The figures of the runs, as :func:`~tsnrepro.report.figures.figures_of` describes them, by
        experiment and name.
    translate
        Returns a text in the language of the site.

    Raises
    ------
    PublishError
        A verdict has no answer.
    """
    tables = published.catalog()
    for question in QUESTIONS:
        item = values.get(question.rests_on)
        if item is None or item.value is None:
            continue
        measured = {name: values[key] for name, key in question.measured.items() if key in values}
        yield {
            "experiment": question.experiment,
            "text": translate(question.text),
            "answer": _answer(question, item, measured, translate),
            "power": power_beside(item, values),
            "address": addresses[question.rests_on],
            "measured": [
                {"name": translate(name), "text": shown(found), "address": addresses[found.key]}
                for name, found in measured.items()
            ],
            "published": [
                {"name": translate(name), "text": _with_unit(tables.cell(path))}
                for name, path in question.published.items()
            ],
            "figure": figures.get(f"{question.experiment}/{question.figure}"),
        }


def _answer(
    question: Question, item: Result, measured: Mapping[str, Result], translate: Translate
) -> str:
    if not question.answers:
        first = ("single path", "FRER")
        return "; ".join(
            f"{translate(name)}: {shown(measured[name])}" for name in first if name in measured
        )
    word = str(item.value)
    if word not in question.answers:
        raise PublishError(f"no answer for the verdict '{word}'", question.rests_on)
    return translate(question.answers[word])


def _with_unit(cell: Cell) -> str:
    return f"{printed_cell(cell)} {TEXT_UNITS.get(cell.unit, cell.unit)}".strip()
