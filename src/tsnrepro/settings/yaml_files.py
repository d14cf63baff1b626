"""YAML as configuration is written in: one document of UTF-8, every key once, nested a little.

PyYAML takes the last of equal keys in silence, lets its own recursion end deeply nested text, and
reads ``1e3`` as text. Here the first two are errors that say the line, and the third is a number.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from tsnrepro.errors import ConfigurationError

_DEEPEST = 32
"""Levels of nesting; the deepest file of this repository has nine."""

# The C parser where PyYAML has it: a mapping file is long enough to notice.
_BASE = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc, valid-type]
    """PyYAML's safe loader, with numbers such as 1e3 and 1e-9 of YAML 1.2."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_yaml(path: Path) -> object:
    """Return what a YAML file holds; an empty one is a mapping without keys.

    Raises
    ------
    ConfigurationError
        The file is missing or is not YAML as :func:`parse_yaml` takes it.
    """
    if not path.is_file():
        others = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise ConfigurationError(f"no such file; there are: {others}", str(path))
    return parse_yaml(path.read_bytes(), str(path))


def parse_yaml(content: bytes, where: str) -> object:
    """Return what a file's bytes hold; nothing at all is a mapping without keys.

    Raises
    ------
    ConfigurationError
        The bytes are not UTF-8 or not YAML, a key stands twice in a mapping, the nesting is deeper
        than 32 levels, or a number has more digits than Python reads.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"not UTF-8: {error.reason} in line {line}", where, "Save the file as UTF-8"
        ) from error
    try:
        _check_structure(yaml.parse(text, Loader=_Loader), where)
        values = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigurationError(f"not YAML: {error.problem}{place}", where) from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {' '.join(str(error).split())}", where) from error
    except (ValueError, OverflowError, RecursionError) as error:
        # A number of thousands of digits, a date such as 2026-02-30, an alias of itself.
        reason = str(error).split(";")[0].splitlines()[0]
        raise ConfigurationError(f"a value cannot be read: {reason}", where) from error
    return {} if values is None else values


def _check_structure(events: Iterator[yaml.Event], where: str) -> None:
    """Refuse a key that stands twice in a mapping, and nesting deeper than is read."""
    # For each level that is open: the keys of a mapping and whether the next node is a key.
    keys: list[set[str] | None] = []
    key_next: list[bool] = []
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.CollectionEndEvent):
            keys.pop()
            key_next.pop()
        if not isinstance(event, yaml.NodeEvent):
            continue
        if keys and (known := keys[-1]) is not None:
            if key_next[-1] and isinstance(event, yaml.ScalarEvent):
                if event.value in known:
                    raise ConfigurationError(f"key '{event.value}' twice, in line {line}", where)
                known.add(event.value)
            key_next[-1] = not key_next[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            if len(keys) == _DEEPEST:
                line = event.start_mark.line + 1
                raise ConfigurationError(
                    f"nested deeper than {_DEEPEST} levels in line {line}", where
                )
            keys.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
            key_next.append(True)
