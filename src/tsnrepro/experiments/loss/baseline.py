"""Losses through a device beside those of the same ports with a cable between them.

What the cable does not carry, generator or host do not: then the device's own limit is unknown.
"""

import pandas as pd

from tsnrepro.experiments.loss.analysis import by_payload

_CELL = ["payload_bytes", "configuration", "target_mbps"]
_SHOWN = ["trials", "trials_with_loss", "loss_percent"]
DEVICE, BENCH, NOTHING = "device", "bench", "none"


def beside_baseline(device: pd.DataFrame, baseline: pd.DataFrame) -> pd.DataFrame:
    """Return one row a payload, configuration and load of the device's sweep.

    ``device`` and ``baseline``: trials of ``loss`` through the device, and over the cable. Returns
    the trials, those with loss and the mean loss in percent, those of the baseline with the suffix
    ``_baseline``, and ``limited_by``: ``none`` where no trial through the device lost a datagram,
    ``bench`` where a trial over the cable did too, else ``device``. It is missing where the
    baseline has no trial of the cell.
    """
    one, other = (by_payload(trials)[[*_CELL, *_SHOWN]] for trials in (device, baseline))
    table = one.merge(other, on=_CELL, how="left", suffixes=("", "_baseline"))
    lossy, lossy_baseline = table["trials_with_loss"] > 0, table["trials_with_loss_baseline"] > 0
    limited = pd.Series(DEVICE, index=table.index, dtype="string")
    limited = limited.mask(lossy_baseline, BENCH).mask(~lossy, NOTHING)
    table["limited_by"] = limited.where(table["trials_baseline"].notna())
    return table
