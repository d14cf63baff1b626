"""Numbers that a tool reports, refused where no measurement can have given them."""

import math
from typing import Any

from tsnrepro.errors import ToolError


def count(value: Any, name: str) -> int:
    """Return a count: a whole number, not negative.

    Raises
    ------
    ToolError
        It is another value.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ToolError(f"{name} is {value!r}, which is no count")
    return value


def amount(value: Any, name: str, *, positive: bool = False) -> float:
    """Return a rate or a time: a finite number, not negative and, where asked for, not zero.

    Raises
    ------
    ToolError
        It is another value.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and (value > 0 if positive else value >= 0)):
        raise ToolError(f"{name} is {value!r}, which nothing can have been measured to be")
    return float(value)
