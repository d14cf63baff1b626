"""A campaign in miniature: every part, mode, method and scenario once, each as short as can be.

Made from the campaign's own file by the names and types of its settings, so a new part is in it
without being told. It shows that everything runs; nothing can be concluded from its numbers.
"""

from typing import Any

from tsnrepro.config import parse
from tsnrepro.config.campaigns import Campaign

_SECONDS = 1
_PACKETS = 100
STUDY = "threshold-coarse"
# What is done several times is done once.
_ONCE = ("repetitions", "last_repetitions", "searches", "attempts", "iterations")
# Searches end after so many steps, or once they know the value within so many per cent.
_STEPS = {"steps": 3, "loads": 3, "max_refinements": 1, "max_repetitions": 2}
_COARSE = {"relative_width_percent": 10, "resolution_percent": 10}
# Nine seconds around each load trial.
_WITHOUT = ("rfc2544_waits",)


def miniature(campaign: Campaign) -> Campaign:
    """Return the campaign in miniature.

    Raises
    ------
    ConfigurationError
        The result is not a valid campaign: some setting cannot be as small as its name suggests.
    """
    small = _shrink(campaign.model_dump(mode="json", exclude_none=True))
    small |= {"study": STUDY, "warm_up": False, "attempts": 2}
    small["description"] = f"In miniature: {campaign.description}"
    return parse(Campaign, small, "miniature of a campaign")


def _shrink(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        # What maps names to seconds has a name of seconds itself.
        return {k: _shrink(v, name if name.endswith("_s") else k) for k, v in value.items()}
    if isinstance(value, list):
        return _shrink_list(value, name)
    if name in _WITHOUT:
        return False
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if name in _COARSE:
        return max(value, _COARSE[name])
    return 1 if name in _ONCE else min(value, _largest(name, value))


def _shrink_list(items: list[Any], name: str) -> list[Any]:
    ends = _ends(items)
    if name.endswith("_s"):
        # Several durations stay several.
        return [min(item, _SECONDS * nth) for nth, item in enumerate(ends, start=1)]
    return [_shrink(item) for item in ends]


def _largest(name: str, value: float) -> float:
    """Return the largest number that a setting of this name may be."""
    if name == "packets":
        return _PACKETS
    # Not deadlines: a trial cut short by one fails.
    short = name.endswith("_s") and name != "deadline_s"
    return _SECONDS if short else _STEPS.get(name, value)


def _ends(items: list[Any]) -> list[Any]:
    """Return the first and last of a list of numbers; parts, modes and scenarios all stay.

    None stands for what a number is by default.
    """
    numbers = all(item is None or isinstance(item, int | float) for item in items)
    return [items[0], items[-1]] if numbers and len(items) > 2 else items
