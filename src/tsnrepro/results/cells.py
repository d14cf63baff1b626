"""Groups of trials by a factor that is a number, and how keys name its values."""

from collections.abc import Iterator

import pandas as pd


def groups(trials: pd.DataFrame, column: str) -> Iterator[tuple[float, pd.DataFrame]]:
    """Yield each value of a column of numbers, in order, with its trials."""
    for value in sorted(trials[column].unique()):
        yield float(value), trials[trials[column] == value]


def word(name: str, number: float) -> str:
    """Return the word of a factor's value in keys: ``word("rate", 0.5)`` is ``rate_0_5``."""
    return f"{name}_{number:g}".replace(".", "_")
