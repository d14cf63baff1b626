"""What a tool reports: JSON found and numbers refused that no measurement can have given."""

import json
import math
from typing import Any

from tsnrepro.errors import ToolError


def printed_json(text: str, tool: str) -> Any:
    """Return the JSON that a tool printed; a warning may stand before it.

    Raises
    ------
    ToolError
        There is none, or it is broken.
    """
    start = text.find("{")
    if start < 0:
        raise ToolError(f"{tool} printed no JSON but: {text.strip()[:300] or 'nothing'}")
    try:
        return json.loads(text[start:])
    except json.JSONDecodeError as error:
        raise ToolError(f"{tool} printed broken JSON: {error}") from error


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
