"""JSON: rows are the records at a path of keys."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tsnrepro.common.errors import RecordError
from tsnrepro.imports.files import SourceFile, printable
from tsnrepro.imports.mapping import MappedTable
from tsnrepro.imports.readers.row import DataRow, FileRows, names_available
from tsnrepro.imports.screening import NoMeasurementError, check_not_csit, error_in
from tsnrepro.tools.parsing import readable_json

_RANGE = re.compile(r"(\d{0,9}):(\d{0,9})")
_KEY = re.compile(r"\{(\w+)\}")
_MAX_SHOWN = 160


def read(file: SourceFile, table: MappedTable) -> FileRows:
    """Return the records at the path of a table, with the scalars of the records above them.

    The path's keys are separated by dots; ``*`` is every item of a list or every record of an
    object, ``2:5`` a range of a list's items, ``{size}`` every item, with its key or index as the
    column ``size``; an optional key ends with ``?``; an empty path is the document, or its items if
    it is a list.

    Raises
    ------
    NoMeasurementError
        The file is not JSON, an error or usage message, a tool's report of an error, or a test of
        CSIT that the experiment cannot hold.
    RecordError
        There is nothing at the path, or no record.
    """
    encoding = table.csv.encoding
    if encoding not in file.parsed:
        file.parsed[encoding] = _load(file.text(encoding))
    document = file.parsed[encoding]
    if isinstance(document, dict) and isinstance(document.get("error"), str):
        raise NoMeasurementError(f"it reports an error: {document['error'][:_MAX_SHOWN]}")
    check_not_csit(document, table.experiment)
    parts = table.rows.split(".") if table.rows else []
    if isinstance(document, list) and not parts:
        parts = ["*"]
    rows = list(_walk(document, parts, {}, ""))
    first, last = table.row_range or (1, len(rows))
    return FileRows(rows[first - 1 : last])


def _load(text: str) -> Any:
    try:
        return json.loads(readable_json(text))
    except (ValueError, RecursionError) as error:
        reason = error_in(text) if not text.lstrip().startswith(("{", "[")) else None
        raise NoMeasurementError(reason or f"it is not JSON: {error}"[:_MAX_SHOWN]) from error


def _walk(node: Any, parts: list[str], above: dict[str, Any], where: str) -> Iterator[DataRow]:
    if not parts:
        if not isinstance(node, dict):
            raise RecordError(f"a {_kind(node)} instead of a record", where)
        yield DataRow(where, {**above, **node})
        return
    part, *rest = parts
    named = _KEY.fullmatch(part)
    if part.endswith("?") and isinstance(node, dict):
        part = part[:-1]
        if part not in node:
            return
    scalars: dict[str, Any] = {}
    if isinstance(node, dict):
        scalars = {key: value for key, value in node.items() if not isinstance(value, dict | list)}
    for key, item in _items(node, part, where):
        below = f"{where}[{key}]" if isinstance(node, list) else _joined(where, key)
        column = {named[1]: key} if named else {}
        yield from _walk(item, rest, {**above, **scalars, **column}, below)


def _items(node: Any, part: str, where: str) -> list[tuple[Any, Any]]:
    """Return the items that a part of a path selects, with their keys or indices."""
    every = part == "*" or _KEY.fullmatch(part) is not None
    if isinstance(node, list):
        if every:
            return list(enumerate(node))
        if limits := _RANGE.fullmatch(part):
            first, last = int(limits[1] or 0), int(limits[2] or len(node))
            return list(enumerate(node))[first:last]
    if isinstance(node, dict):
        if every:
            return [(key, item) for key, item in node.items() if isinstance(item, dict | list)]
        if part in node:
            return [(part, node[part])]
    raise RecordError(f"there is no '{part}'", where or "the document", _available(node))


def _joined(where: str, key: str) -> str:
    shown = printable(key.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"))
    return f"{where}.{shown}"[:200] if where else shown[:200]


def _kind(node: Any) -> str:
    kinds = {list: "list", str: "text", bool: "boolean", type(None): "null", dict: "record"}
    return kinds.get(type(node), "number")


def _available(node: Any) -> str:
    if isinstance(node, dict):
        return names_available(printable(key) for key in node)
    return f"It is a {_kind(node)}" + ("; write * for its items" if isinstance(node, list) else "")
