"""Repetitions that are added until the ratio of FRER to control is known well enough."""

from typing import Protocol


class SequentialSettings(Protocol):
    """Settings of how many repetitions there may be, and how well the ratio is to be known."""

    most_repetitions: int | None
    ratio_within_percent: float | None


def check_sequential(settings: SequentialSettings, repetitions: int) -> None:
    """Refuse one of the two without the other, and fewer repetitions than there are in any case.

    Raises
    ------
    ValueError
        It is so.
    """
    most = settings.most_repetitions
    if (most is None) != (settings.ratio_within_percent is None):
        raise ValueError("most_repetitions and ratio_within_percent need each other")
    if most is not None and most < repetitions:
        raise ValueError(f"most_repetitions of {most} are fewer than the {repetitions} repetitions")
