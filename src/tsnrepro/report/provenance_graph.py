"""The graph of the provenance, in four columns: testbeds, trials, values, papers."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_WIDTH, _NODE_WIDTH, _NODE_HEIGHT, _GAP, _MARGIN = 1040, 212, 44, 14, 6
_COLUMNS = 4


@dataclass
class Node:
    """A node: its labels, the link to its page, and the nodes that it was made from.

    Attributes
    ----------
    column
        0 for testbeds, 1 for trials, 2 for values, 3 for papers and claims.
    """

    column: int
    title: str
    subtitle: str
    address: str
    sources: list["Node"] = field(default_factory=list)


def experiments_of_paper(folder: Path) -> set[str]:
    """Return the experiments with values in a built paper, by its provenance."""
    path = folder / "provenance.json"
    if not path.is_file():
        return set()
    measured = json.loads(path.read_text(encoding="utf-8"))["measured"]
    return {name for item in measured for name in item["run"].split("+") if name}


def graph(nodes: Sequence[Node]) -> dict[str, Any]:
    """Return the layout of nodes and edges, and the same as a list."""
    positions: dict[int, tuple[int, int]] = {}
    step = (_WIDTH - _NODE_WIDTH - 2 * _MARGIN) // (_COLUMNS - 1)
    heights = [0] * _COLUMNS
    for node in nodes:
        positions[id(node)] = (_MARGIN + node.column * step, _MARGIN + heights[node.column])
        heights[node.column] += _NODE_HEIGHT + _GAP
    tallest = max(heights)
    # Columns are centred vertically.
    for node in nodes:
        x, y = positions[id(node)]
        positions[id(node)] = (x, y + (tallest - heights[node.column]) // 2)
    return {
        "width": _WIDTH,
        "height": tallest + 2 * _MARGIN,
        "node_width": _NODE_WIDTH,
        "node_height": _NODE_HEIGHT,
        "nodes": [
            {
                "x": positions[id(node)][0],
                "y": positions[id(node)][1],
                "title": node.title,
                "subtitle": node.subtitle,
                "address": node.address,
            }
            for node in nodes
        ],
        "edges": list(_edges(nodes, positions)),
        "list": [
            {
                "title": f"{node.title}: {node.subtitle}",
                "address": node.address,
                "sources": [f"{source.title} ({source.subtitle})" for source in node.sources],
            }
            for node in nodes
            if node.sources
        ],
    }


def _edges(nodes: Iterable[Node], positions: dict[int, tuple[int, int]]) -> Iterable[str]:
    """Yield the curve from the right side of each source to the left side of its node."""
    for node in nodes:
        for source in node.sources:
            (x1, y1), (x2, y2) = positions[id(source)], positions[id(node)]
            x1, y1, y2 = x1 + _NODE_WIDTH, y1 + _NODE_HEIGHT // 2, y2 + _NODE_HEIGHT // 2
            middle = (x1 + x2) // 2
            yield f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"
