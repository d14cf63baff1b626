"""The table of a study, as input of its analysis."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from tsnrepro.common.errors import RecordError
from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.records.store import sha256_of
from tsnrepro.results.results import Results


def read_table(path: str | Path, columns: Iterable[str]) -> pd.DataFrame:
    """Return the table of a study that compares configurations, after checking its columns.

    Raises
    ------
    RecordError
        There is no such table, it is of another kind of study, or it lacks a configuration.
    """
    source = Path(path)
    if not source.is_file():
        raise RecordError(
            "no such study",
            str(source),
            f"Compute it: snakemake --cores 4 study --config study={source.parent.name}",
        )
    table = pd.read_parquet(source)
    if missing := sorted({*columns} - set(table)):
        raise RecordError(f"not a study of this kind: {', '.join(missing)} is missing", str(source))
    if {*table["configuration"]} != {*CONFIGURATIONS}:
        raise RecordError("a comparison needs the configurations control and frer", str(source))
    return table


def results_of(source: str | Path) -> tuple[Results, list[str]]:
    """Return empty results whose source is a study's table, and the name of that source."""
    path = Path(source)
    record = pd.DataFrame({"trial": [path.name], "sha256": [sha256_of(path)]})
    return Results("", record), [path.name]
