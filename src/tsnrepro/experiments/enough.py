"""When an experiment needs no further repetitions: a function for each that stops early, named so.

Each takes the experiment's settings, what its further trials are measured for (``until`` of the
plan) and the records there are, and tells whether that is known as well as the campaign asks for.

They rest on statistics, but no trial depends on them: measuring loads this module by name, so that
an edit of statistics is no reason to measure or to simulate again (see ``tsnrepro.dependencies``).
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tsnrepro.experiments.path_thresholds import (
    ceilings,
    frer_against_control,
    line_limits,
    of_the_path,
    sweeps,
)
from tsnrepro.records.columns import CONFIGURATIONS
from tsnrepro.records.tables import trials_of_records
from tsnrepro.settings.latency import LatencySettings
from tsnrepro.settings.loss import LossSettings
from tsnrepro.stats.comparisons import relative_difference
from tsnrepro.stats.estimate import Estimate


def loss(settings: LossSettings, question: str, documents: list[dict[str, Any]]) -> bool:
    """Tell whether trials tell the ratio of thresholds as well as their part asks for.

    Parameters
    ----------
    settings
        With the parts of the question.
    question
        ``limit`` or ``bottleneck``.
    documents
        Records of trials, of other questions too.
    """
    part = next(part for part in settings.parts if part.question == question)
    path = of_the_path(
        trials_of_records("loss", [d for d in documents if d["factors"]["question"] == question])
    )
    # A queue takes in more than a narrow link carries, see the analysis.
    rate = part.link_rate_mbps if question == "limit" else None
    highest = ceilings(line_limits(part.payload_bytes, rate))
    compared = frer_against_control(sweeps(path, path["loss_percent"] > 0), highest)
    if compared is None or part.ratio_within_percent is None:
        return False
    return compared.ratio.is_known_within(part.ratio_within_percent)


def latency(settings: LatencySettings, _: str, documents: list[dict[str, Any]]) -> bool:
    """Tell whether trials tell the ratio of FRER's median to control's as well as is asked for.

    Parameters
    ----------
    settings
        The experiment's.
    documents
        Records of its trials, of other payloads too.
    """
    trials = trials_of_records("latency", documents)
    main = trials[trials["payload_bytes"] == settings.main_payload_bytes]
    table = main.pivot_table(index="repetition", columns="configuration", values="p50_us")
    medians = table.reindex(columns=[*CONFIGURATIONS]).dropna()
    if settings.ratio_within_percent is None or medians.empty:
        return False
    ratio = ratio_of_medians(medians["frer"], medians["control"])
    return ratio.is_known_within(settings.ratio_within_percent)


def ratio_of_medians(frer: ArrayLike, control: ArrayLike) -> Estimate:
    """Return the ratio of two configurations' medians, each of shape (repetitions,)."""
    percent = relative_difference(frer, control, paired=True).estimate
    ratios = {name: 1 + getattr(percent, name) / 100 for name in ("value", "low", "high")}
    return replace(percent, **ratios, n=np.size(frer), unit="")
