"""Stopping rule of ``latency``: repetitions end once the ratio of medians is precise enough."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.experiments.latency.settings import LatencySettings
from tsnrepro.records.tables import table_of_records
from tsnrepro.stats.comparisons import relative_difference
from tsnrepro.stats.estimate import LEVEL_OF_EACH_LOOK, Estimate


def is_precise(settings: LatencySettings, _: str, documents: list[dict[str, Any]]) -> bool:
    """Return whether trials determine FRER's median over control's as closely as required.

    ``settings``: the experiment's; ``documents``: records of its trials, of other payloads too.
    """
    trials = table_of_records("latency", documents)
    main = trials[trials["payload_bytes"] == settings.main_payload_bytes]
    table = main.pivot_table(index="repetition", columns="configuration", values="p50_us")
    medians = table.reindex(columns=[*CONFIGURATIONS]).dropna()
    if settings.ratio_precision_percent is None or medians.empty:
        return False
    ratio = ratio_of_medians(medians["frer"], medians["control"])
    return ratio.is_precise_to(settings.ratio_precision_percent)


def ratio_of_medians(frer: ArrayLike, control: ArrayLike) -> Estimate:
    """Return the ratio of two configurations' medians, each of shape (repetitions,)."""
    percent = relative_difference(frer, control, LEVEL_OF_EACH_LOOK, paired=True).estimate
    ratios = {name: 1 + getattr(percent, name) / 100 for name in ("value", "low", "high")}
    return replace(percent, **ratios, n=np.size(frer), unit="")
