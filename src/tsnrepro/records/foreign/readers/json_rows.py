"""JSON: rows are the records that a path of keys leads to."""

import json
from collections.abc import Iterator
from typing import Any

from tsnrepro.errors import RecordError
from tsnrepro.records.foreign.readers.row import Reading, Row
from tsnrepro.records.foreign.refusal import NoMeasurementError, complaint


def load(text: str) -> Any:
    """Return a JSON document.

    Raises
    ------
    NoMeasurementError
        The text is no JSON; an error message or a usage text is named as such.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        reason = complaint(text) if not text.lstrip().startswith(("{", "[")) else None
        raise NoMeasurementError(reason or f"it is not JSON: {error}") from error


def read(document: Any, path: str) -> Reading:
    """Return the records at a path, each with the plain values of the records above it.

    Parameters
    ----------
    document
        What :func:`load` returned.
    path
        Keys separated by dots; ``*`` is every item of a list or every value of an object; a key
        that some records lack ends with ``?``; empty is the document itself, or its items where it
        is a list.

    Raises
    ------
    NoMeasurementError
        The document is a tool's report of an error.
    RecordError
        The path leads to nothing, or to something that is no record.
    """
    if isinstance(document, dict) and isinstance(document.get("error"), str):
        raise NoMeasurementError(f"it reports an error: {document['error'][:160]}")
    parts = path.split(".") if path else []
    if isinstance(document, list) and not parts:
        parts = ["*"]
    return Reading(list(_walk(document, parts, {}, "")))


def _walk(node: Any, parts: list[str], above: dict[str, Any], where: str) -> Iterator[Row]:
    if not parts:
        if not isinstance(node, dict):
            raise RecordError(f"a {_kind(node)} where a record should be", where)
        yield Row(where, {**above, **node})
        return
    part, *rest = parts
    if part.endswith("?") and isinstance(node, dict):
        part = part[:-1]
        if part not in node:
            return
    if part == "*" and isinstance(node, list):
        for index, item in enumerate(node):
            yield from _walk(item, rest, above, f"{where}[{index}]")
    elif isinstance(node, dict) and (part == "*" or part in node):
        plain = {key: value for key, value in node.items() if not isinstance(value, dict | list)}
        for key in node if part == "*" else [part]:
            if part == "*" and not isinstance(node[key], dict | list):
                continue
            below = f"{where}.{key}" if where else key
            yield from _walk(node[key], rest, {**above, **plain}, below)
    else:
        raise RecordError(f"there is no '{part}'", where or "the document", _there(node))


def _kind(node: Any) -> str:
    return {list: "list", str: "text", bool: "yes or no", type(None): "null"}.get(
        type(node), "number"
    )


def _there(node: Any) -> str:
    if isinstance(node, dict):
        return f"There are: {', '.join(node) or 'none'}"
    return f"It is a {_kind(node)}" + ("; write * for its items" if isinstance(node, list) else "")
