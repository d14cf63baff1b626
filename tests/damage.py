"""Thousands of damaged forms of a sound input, the same ones each time for the same input."""

import json
import random
import resource
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from tsnrepro.common.errors import TsnreproError

NUMBERS = [200, pytest.param(10_000, marks=pytest.mark.long)]
"""How many damaged forms a parser of files reads: some always, ten thousand where asked for."""

# What a reader meets once in a while, and what someone writes who wants to see it fall over.
PIECES = [
    b"", b"0", b"-1", b"1e999", b"NaN", b"-Infinity", b"9" * 30, b"9" * 5000, b"null", b"true",
    b'""', b'"', b"'", b"{}", b"[]", b"{", b"}", b"[" * 40, b"]", b",", b":", b"\n", b"\r\n",
    b"\t", b" ", b"\0", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", "Ω".encode(), "한".encode(),
    b"\x1b[31m", b"%s%n", b"$(id)", b"`id`", b"\\write18{id}", b"<script>", b"../../etc/passwd",
    b"!!python/object/apply:os.system [id]", b"&a [*a]", b"0x", b"1_000", b"1.5.2", b"--", b"12:30",
    b"2026-02-30",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 0.5, -0.0, 2**31, 2**63, 2**64, 10**40, 1e308, float("nan"),
    float("inf"), "", "x", "9" * 400, "\0", "\ud800", "%s", [], [[]], {}, {"": None}, [None] * 3,
]  # fmt: skip
SLOW_SECONDS = 2.0
MEMORY_KIB = 512 << 10
MOST_BYTES = 200_000


def damaged_bytes(sound: bytes, number: int) -> Iterator[bytes]:
    """Yield ``number`` forms of some bytes, each with one to four places changed."""
    rng = random.Random(sound[:200])
    for _ in range(number):
        content = sound
        for _ in range(rng.randint(1, 4)):
            first = rng.randint(0, len(content))
            last = min(len(content), first + rng.choice([0, 1, 2, 4, 12, 200, len(content)]))
            content = content[:first] + _instead(rng, content[first:last]) + content[last:]
        yield content


def _instead(rng: random.Random, piece: bytes) -> bytes:
    """Return what takes a piece's place: something hostile, other bits, itself again, nothing."""
    match rng.randrange(4):
        case 0:
            return rng.choice(PIECES)
        case 1:
            return bytes(byte ^ 1 << rng.randrange(8) for byte in piece)
        case 2:
            return piece * min(rng.choice([2, 2, 3, 50]), 1 + MOST_BYTES // (len(piece) + 1))
        case _:
            return b""


def damaged_json(sound: Any, number: int) -> Iterator[bytes]:
    """Yield ``number`` forms of a document with values, keys or elements changed."""
    rng = random.Random(json.dumps(sound, sort_keys=True)[:200])
    for _ in range(number):
        document = json.loads(json.dumps(sound))
        for _ in range(rng.randint(1, 3)):
            document = _changed(rng, document)
        yield json.dumps(document).encode()


def _changed(rng: random.Random, node: Any) -> Any:
    """Return a node with something changed in it, or another in its place."""
    if node and isinstance(node, dict | list) and rng.random() < 0.9:
        return _changed_keys(rng, node) if isinstance(node, dict) else _changed_rows(rng, node)
    if isinstance(node, int | float) and not isinstance(node, bool) and rng.random() < 0.5:
        return rng.choice([-node, node + 1, node * 1000, node / 3, str(node)])
    return rng.choice(VALUES)


def _changed_keys(rng: random.Random, node: dict[str, Any]) -> dict[str, Any]:
    key, chance = rng.choice(list(node)), rng.random()
    if chance < 0.15:
        return {k: v for k, v in node.items() if k != key}
    if chance < 0.25:
        return node | {rng.choice(["", "x", key.upper(), "__class__"]): node[key]}
    return node | {key: _changed(rng, node[key])}


def _changed_rows(rng: random.Random, node: list[Any]) -> list[Any]:
    place, chance = rng.randrange(len(node)), rng.random()
    if chance < 0.2:
        return node[:place] + node[place + 1 :]
    if chance < 0.3:
        return node + node
    return [*node[:place], _changed(rng, node[place]), *node[place + 1 :]]


def damaged_yaml(sound: bytes, number: int) -> Iterator[bytes]:
    """Yield ``number`` forms of a YAML file: one half with other values, one with other bytes."""
    return _by_halves(yaml.safe_load(sound), sound, number)


def damaged_json_file(sound: bytes, number: int) -> Iterator[bytes]:
    """Yield ``number`` forms of a JSON file: one half with other values, one with other bytes."""
    return _by_halves(json.loads(sound), sound, number)


def _by_halves(values: Any, sound: bytes, number: int) -> Iterator[bytes]:
    return chain(damaged_json(values, number // 2), damaged_bytes(sound, number - number // 2))


def read_each_file(
    inputs: Iterator[bytes], path: Path, read: Callable[[], object], names: str = ""
) -> int:
    """Put each input where a file lies and call what reads it, as :func:`read_each` does.

    Each refusal has to name the file, or what ``names`` says.
    """

    def put_and_read(content: bytes) -> None:
        path.write_bytes(content)
        read()

    return read_each(inputs, put_and_read, names=names or path.name)


def read_each(inputs: Iterator[bytes], read: Callable[[bytes], object], names: str = "") -> int:
    """Read each input and return how many were refused.

    A refusal is one of tsnrepro's own errors, in one clear sentence that holds ``names``. Any
    other error, an answer that takes longer than two seconds, and half a gigabyte of memory are
    failures.
    """
    refused, held = 0, _peak_kib()
    for content in inputs:
        began = time.process_time()
        try:
            read(content)
        except TsnreproError as error:
            refused += 1
            said = str(error)
            assert 0 < len(said) < 2500, said
            assert "Traceback" not in said, said
            assert names in said, said
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} on {content[:3000]!r}") from error
        spent = time.process_time() - began
        assert spent < SLOW_SECONDS, f"{spent:.1f} s on {content[:3000]!r}"
    assert _peak_kib() - held < MEMORY_KIB
    return refused


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
