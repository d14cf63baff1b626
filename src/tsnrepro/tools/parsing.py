"""Parsing of tools' output: JSON, and numbers that a measurement can have."""

import json
import math
import re
from typing import Annotated, Any

from pydantic import Field

from tsnrepro.common.errors import ToolError

MAX_COUNT = 2**64 - 1
"""The kernel's and the tools' counters have 64 bits."""
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
"""A count, for pydantic."""
_NAN = re.compile(r"(?<=[:\[,\s])(?:-?nan|-NaN)(?=[\s,}\]])")


def readable_json(text: str) -> str:
    """Return JSON whose numbers that are none, as C prints them, are those that Python reads."""
    return _NAN.sub("NaN", text) if "nan" in text or "-NaN" in text else text


def json_object(text: str, tool: str) -> Any:
    """Return the JSON object in a tool's output, which may begin with warnings.

    Raises ToolError if there is none, or it is damaged.
    """
    start = text.find("{")
    if start < 0:
        raise ToolError(f"{tool} printed no JSON: {text.strip()[:300] or 'nothing'}")
    try:
        return json.loads(text[start:])
    except (ValueError, RecursionError) as error:  # also of an integer of thousands of digits
        raise ToolError(f"{tool} printed damaged JSON: {str(error)[:300]}") from error


def json_rows(text: str, tool: str) -> list[dict[str, Any]]:
    """Return the objects of the JSON list that a tool printed.

    Raises ToolError if it is not a list of objects. Known faults of ip(8) and tc(8) are named, with
    the version that prints the device right.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_json(text, tool, error) from error
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ToolError(f"{tool} printed no list of objects: {text.strip()[:300]}")
    return found


# What mends the JSON of a kind of device or queueing discipline.
_REMEDIES = {
    "hfsc": "Install iproute2 7.1 on the host, or remove it",
    "taprio": "Install iproute2 6.5 on the host, or wait until its schedule is in force",
}
_DEVICE = re.compile(r'"(?:dev|ifname)":\s*"([^"]+)"|"([^"]+)":\s*\[\{"(?:kind|ifindex)"')
_KIND = re.compile(r'"(?:info_)?kind":\s*"([^"]+)"')


def _no_json(text: str, tool: str, error: Exception) -> ToolError:
    before = text[: error.pos] if isinstance(error, json.JSONDecodeError) else ""
    kinds = _KIND.findall(before)
    if not kinds:
        return ToolError(f"{tool} printed no JSON: {text.strip()[:300] or 'nothing'}")
    devices = ["".join(found) for found in _DEVICE.findall(before)]
    of = f" of {devices[-1]}" if devices else ""
    remedy = _REMEDIES.get(kinds[-1], "Install a later iproute2 on the host, or remove it")
    return ToolError(f"{tool} printed invalid JSON{of} at {kinds[-1]}", "", remedy)


def count(value: Any, name: str) -> int:
    """Return a count: a non-negative integer of at most 64 bits.

    Raises ToolError if the value is not one.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_COUNT:
        raise ToolError(f"{name} is {_quoted(value)}, which is not a count")
    return value


def amount(value: Any, name: str, *, positive: bool = False) -> float:
    """Return a rate or a time: a finite number, non-negative or ``positive``.

    Raises ToolError if the value is not one.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and _finite(value) and (value > 0 if positive else value >= 0)):
        raise ToolError(f"{name} is {_quoted(value)}, which cannot be measured")
    return float(value)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the largest float
        return False


def _quoted(value: Any) -> str:
    return repr(value)[:100]
