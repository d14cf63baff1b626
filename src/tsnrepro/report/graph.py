"""What was made from what, as a graph in four columns: testbeds, trials, values, papers."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_WIDTH, _NODE_WIDTH, _NODE_HEIGHT, _GAP, _MARGIN = 1040, 212, 44, 14, 6
_COLUMNS = 4


@dataclass
class Node:
    """A thing that was made, where its page is, and what it was made from.

    Attributes
    ----------
    column
        0 for testbeds, 1 for trials, 2 for values, 3 for what is printed.
    """

    column: int
    title: str
    under: str
    address: str
    sources: list["Node"] = field(default_factory=list)


def experiments_of_paper(folder: Path) -> set[str]:
    """Return the experiments whose values a printed paper holds, by its provenance."""
    path = folder / "provenance.json"
    if not path.is_file():
        return set()
    measured = json.loads(path.read_text(encoding="utf-8"))["measured"]
    return {name for item in measured for name in item["run"].split("+") if name}


def graph(nodes: Sequence[Node]) -> dict[str, Any]:
    """Return the places of nodes and edges in a drawing, and the same as a list."""
    places: dict[int, tuple[int, int]] = {}
    step = (_WIDTH - _NODE_WIDTH - 2 * _MARGIN) // (_COLUMNS - 1)
    heights = [0] * _COLUMNS
    for node in nodes:
        places[id(node)] = (_MARGIN + node.column * step, _MARGIN + heights[node.column])
        heights[node.column] += _NODE_HEIGHT + _GAP
    tallest = max(heights)
    # Every column stands in the middle of the tallest.
    for node in nodes:
        x, y = places[id(node)]
        places[id(node)] = (x, y + (tallest - heights[node.column]) // 2)
    return {
        "width": _WIDTH,
        "height": tallest + 2 * _MARGIN,
        "node_width": _NODE_WIDTH,
        "node_height": _NODE_HEIGHT,
        "nodes": [
            {
                "x": places[id(node)][0],
                "y": places[id(node)][1],
                "title": node.title,
                "under": node.under,
                "address": node.address,
            }
            for node in nodes
        ],
        "edges": list(_edges(nodes, places)),
        "list": [
            {
                "title": f"{node.title}: {node.under}",
                "address": node.address,
                "sources": [f"{source.title} ({source.under})" for source in node.sources],
            }
            for node in nodes
            if node.sources
        ],
    }


def _edges(nodes: Iterable[Node], places: dict[int, tuple[int, int]]) -> Iterable[str]:
    """Yield curves from each source's right side to the left side of what was made from it."""
    for node in nodes:
        for source in node.sources:
            (x1, y1), (x2, y2) = places[id(source)], places[id(node)]
            x1, y1, y2 = x1 + _NODE_WIDTH, y1 + _NODE_HEIGHT // 2, y2 + _NODE_HEIGHT // 2
            middle = (x1 + x2) // 2
            yield f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"
