"""Stopping rule of ``loss``: repetitions end once the ratio of thresholds is precise enough."""

from typing import Any

from tsnrepro.experiments.loss.path_thresholds import (
    ceilings,
    frer_against_control,
    line_limits,
    loss_to_socket,
    sweeps,
)
from tsnrepro.experiments.loss.settings import LossSettings
from tsnrepro.records.tables import table_of_records


def is_precise(settings: LossSettings, question: str, documents: list[dict[str, Any]]) -> bool:
    """Return whether trials determine the ratio of thresholds as closely as their part requires.

    ``settings``: with the parts of the question; ``question``: ``limit`` or ``bottleneck``;
    ``documents``: records of trials, of other questions too.
    """
    part = next(part for part in settings.parts if part.objective == question)
    path = loss_to_socket(
        table_of_records("loss", [d for d in documents if d["factors"]["question"] == question])
    )
    # A queue takes in more than a narrow link carries, see the analysis.
    rate = part.link_rate_mbps if question == "limit" else None
    highest = ceilings(line_limits(part.payload_bytes, rate))
    compared = frer_against_control(sweeps(path, path["loss_percent"] > 0), highest)
    if compared is None or part.ratio_precision_percent is None:
        return False
    return compared.ratio.is_precise_to(part.ratio_precision_percent)
