"""What a tool reports: JSON found and numbers refused that no measurement can have given."""

import json
import math
from typing import Annotated, Any

from pydantic import Field

from tsnrepro.common.errors import ToolError

MOST = 2**64 - 1
"""Greatest count: the kernel's and the tools' counters have 64 bits."""
Count = Annotated[int, Field(ge=0, le=MOST)]
"""A count in what pydantic reads."""


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
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is no JSON's
        raise ToolError(f"{tool} printed broken JSON: {str(error)[:300]}") from error


def json_rows(text: str, tool: str) -> list[dict[str, Any]]:
    """Return the JSON objects that a tool printed as a list.

    Raises
    ------
    ToolError
        It printed something else.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{tool} printed no JSON: {text.strip()[:300] or 'nothing'}") from error
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ToolError(f"{tool} printed no list of objects but: {text.strip()[:300]}")
    return found


def count(value: Any, name: str) -> int:
    """Return a count: a whole number, not negative, of at most 64 bits.

    Raises
    ------
    ToolError
        It is another value.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise ToolError(f"{name} is {_shown(value)}, which is no count")
    return value


def amount(value: Any, name: str, *, positive: bool = False) -> float:
    """Return a rate or a time: a finite number, not negative and, where asked for, not zero.

    Raises
    ------
    ToolError
        It is another value.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and _finite(value) and (value > 0 if positive else value >= 0)):
        raise ToolError(f"{name} is {_shown(value)}, which nothing can have been measured to be")
    return float(value)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest float
        return False


def _shown(value: Any) -> str:
    return repr(value)[:100]
