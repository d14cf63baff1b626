"""YAML as configuration is written in: one document of UTF-8, every key once, nested a little.

PyYAML takes the last of equal keys in silence, lets its own recursion end deeply nested text, and
reads ``1e3`` as text. Here the first two are errors with their line, and the third is a number.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from tsnrepro.common.errors import ConfigurationError

_DEEPEST = 32
"""Levels of nesting; the deepest file of this repository has nine."""

_MOST_BYTES = 1 << 20
_MOST_VALUES = 100_000
"""Of a file with every alias written out; the longest file of this repository has some thousand.

Whoever checks or stores values meets those behind an alias each time it stands there: nine aliases
of nine aliases, nine deep, are a file of a few lines and more values than any memory holds.
"""

# The C parser where PyYAML has it: a mapping file is long enough to notice.
_BASE = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc, valid-type]
    """PyYAML's safe loader, with numbers such as 1e3 and 1e-9 of YAML 1.2."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_yaml(path: Path) -> object:
    """Return what a YAML file holds; an empty one is a mapping without keys.

    Raises ConfigurationError if the file is missing or is not YAML as :func:`parse_yaml` takes it.
    """
    return parse_yaml(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a YAML file, as far as :func:`parse_yaml` needs them.

    Raises ConfigurationError if the file is missing or cannot be read.
    """
    try:
        if not path.is_file():
            others = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
            raise ConfigurationError(f"no such file; there are: {others}", str(path))
        with path.open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"it cannot be read: {error.strerror}", str(path)) from error


def parse_yaml(content: bytes, where: str) -> object:
    """Return what a file's bytes hold; nothing at all is a mapping without keys.

    Raises ConfigurationError if the bytes are not UTF-8 or not YAML, a key stands twice in a
    mapping, a value has a tag such as ``!!binary``, the nesting is deeper than 32 levels, a number
    has more digits than Python reads, or it is larger than any configuration.
    """
    values = parse_value(content, where)
    return {} if values is None else values


def parse_value(content: bytes, where: str) -> object:
    """Return what some bytes hold as :func:`parse_yaml` does; nothing at all is None.

    Raises ConfigurationError as :func:`parse_yaml`.
    """
    if len(content) > _MOST_BYTES:
        raise ConfigurationError(f"larger than {_MOST_BYTES >> 20} MiB", where)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"not UTF-8: {error.reason} in line {line}", where, "Save the file as UTF-8"
        ) from error
    try:
        _check_structure(yaml.parse(text, Loader=_Loader), where)
        return yaml.load(text, Loader=_Loader)
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


class _Sizes:
    """How many values a file has with every alias written out."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._open: list[tuple[str | None, int]] = []
        self._behind: dict[str, int] = {}
        self._count = 0

    def add(self, event: yaml.Event) -> None:
        """Count a node; refuse an alias of what it stands in, and too many values."""
        line = event.start_mark.line + 1
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor is not None:
                self._behind[anchor] = self._count - before
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in self._open):
                raise ConfigurationError(f"an alias of itself in line {line}", self._where)
            self._count += self._behind.get(event.anchor, 1)
        elif isinstance(event, yaml.NodeEvent):
            if isinstance(event, yaml.CollectionStartEvent):
                self._open.append((event.anchor, self._count))
            elif event.anchor is not None:
                self._behind[event.anchor] = 1
            self._count += 1
        if self._count > _MOST_VALUES:
            what = f"more than {_MOST_VALUES} values, with aliases written out, in line {line}"
            raise ConfigurationError(what, self._where)


def _check_structure(events: Iterator[yaml.Event], where: str) -> None:
    """Refuse a key that stands twice in a mapping, a tag, and nesting deeper than is read."""
    # For each level that is open: the keys of a mapping and whether the next node is a key.
    keys: list[set[str] | None] = []
    key_next: list[bool] = []
    named: dict[str, str] = {}  # scalars by their anchors: an alias may be a key too
    sizes = _Sizes(where)
    for event in events:
        sizes.add(event)
        line = event.start_mark.line + 1
        if isinstance(event, yaml.CollectionEndEvent):
            keys.pop()
            key_next.pop()
        if not isinstance(event, yaml.NodeEvent):
            continue
        tag = getattr(event, "tag", None)
        if tag not in (None, "!", "tag:yaml.org,2002:str"):
            # Sets, bytes and dates are no configuration, and PyYAML fails at damaged ones.
            tag = tag.replace("tag:yaml.org,2002:", "!!")[:80]
            raise ConfigurationError(f"tag '{tag}' in line {line}", where, "Remove the tag")
        if keys and (known := keys[-1]) is not None:
            value = _scalar(event, named)
            if key_next[-1] and value is not None:
                if value in known:
                    raise ConfigurationError(f"key '{value[:80]}' twice, in line {line}", where)
                known.add(value)
            key_next[-1] = not key_next[-1]
        if isinstance(event, yaml.ScalarEvent) and event.anchor is not None:
            named[event.anchor] = event.value
        if isinstance(event, yaml.CollectionStartEvent):
            if len(keys) == _DEEPEST:
                line = event.start_mark.line + 1
                raise ConfigurationError(
                    f"nested deeper than {_DEEPEST} levels in line {line}", where
                )
            keys.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
            key_next.append(True)


def _scalar(event: yaml.NodeEvent, named: dict[str, str]) -> str | None:
    if isinstance(event, yaml.ScalarEvent):
        return event.value
    return named.get(event.anchor) if isinstance(event, yaml.AliasEvent) else None
