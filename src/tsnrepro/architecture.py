"""The picture of the architecture, drawn from what the rooms import of each other.

python -m tsnrepro.architecture docs/architecture.svg
"""

import ast
import sys
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from tsnrepro.repository import root

# From left to right: no room uses one to its right. A test holds it, and that every room is here.
COLUMNS = (
    ("settings",),
    ("dataplane", "bridge", "tools", "model"),
    ("testbed", "streams", "records", "stats"),
    ("captures",),
    ("experiments", "audit"),
    ("analysis",),
    ("studies", "publish"),
)
ABOUT = {
    "settings": "configuration",
    "dataplane": "switches in eBPF",
    "bridge": "switch on DPDK",
    "streams": "talker, listener",
    "tools": "iperf3, sockperf, tc",
    "model": "compiled queues",
    "testbed": "hosts over SSH",
    "records": "raw store",
    "experiments": "plan and measure",
    "captures": "frames on the wire",
    "studies": "parameter grids",
    "stats": "intervals",
    "analysis": "tables, figures",
    "audit": "checks, claims",
    "publish": "papers, report",
}
_LEGEND = "An arrow leads from a room to one that uses it; what follows from others is left out."
_WIDTH, _HEIGHT, _STEP, _ROW = 1.3, 0.5, 1.8, 0.9


@cache
def rooms() -> list[str]:
    """Return the sub-packages of the package, sorted."""
    return sorted(path.parent.name for path in _package().glob("*/__init__.py"))


def _package() -> Path:
    return root() / "src" / "tsnrepro"


@cache
def arrows() -> set[tuple[str, str]]:
    """Return which room's code is used by which other: (used, user)."""
    found = set()
    for room in rooms():
        for path in (_package() / room).rglob("*.py"):
            for used in _imported(path):
                if used != room and used in rooms():
                    found.add((used, room))
    return found


def shown_arrows() -> set[tuple[str, str]]:
    """Return the arrows without those that follow from two or more others."""
    direct = arrows()
    beyond = {room: _reached(room, direct) for room in rooms()}
    return {
        (used, user)
        for used, user in direct
        if not any(
            # What uses each other stays: either would follow from the other.
            user in beyond[between] and between not in beyond[user]
            for other, between in direct
            if other == used != between
        )
    }


def _reached(room: str, direct: set[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    waiting = [room]
    while waiting:
        here = waiting.pop()
        new = {user for used, user in direct if used == here} - found
        found |= new
        waiting += new
    return found


def _imported(path: Path) -> set[str]:
    """Return the rooms that a module imports, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("tsnrepro.")}


def _places() -> dict[str, tuple[float, float]]:
    tallest = max(map(len, COLUMNS))
    return {
        name: (column * _STEP, ((tallest - len(names)) / 2 + row) * _ROW)
        for column, names in enumerate(COLUMNS)
        for row, name in enumerate(names)
    }


def draw() -> Figure:
    """Draw the rooms from left to right, with an arrow from each to its users."""
    places = _places()
    width, height = len(COLUMNS) * _STEP, max(map(len, COLUMNS)) * _ROW
    figure, axes = plt.subplots(figsize=(width * 0.85, height * 1.05))
    plt.close(figure)
    for used, user in sorted(shown_arrows()):
        _arrow(axes, places[used], places[user])
    for room, (x, y) in places.items():
        corner = (x - _WIDTH / 2, y - _HEIGHT / 2)
        look: dict[str, Any] = {
            "boxstyle": "round,pad=0.02",
            "facecolor": "#e8f0f8",
            "edgecolor": "#34607f",
        }
        axes.add_patch(FancyBboxPatch(corner, _WIDTH, _HEIGHT, **look))
        axes.text(x, y - 0.08, room, ha="center", va="center", weight="bold", fontsize=9)
        axes.text(x, y + 0.14, ABOUT[room], ha="center", va="center", fontsize=6, color="0.25")
    axes.set(xlim=(-0.9, width - _STEP + 0.9), ylim=(height - 0.3, -0.6))
    axes.axis("off")
    axes.text(
        -0.8,
        height - 0.4,
        _LEGEND,
        fontsize=7,
    )
    return figure


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    # Rooms of one column use each other: from edge to edge, above each other.
    beside = end[0] > start[0]
    aside = _WIDTH / 2 if beside else 0.0
    up = 0.0 if beside else (_HEIGHT / 2 if end[1] > start[1] else -_HEIGHT / 2)
    bend = 0.0 if end[0] - start[0] <= 1.01 * _STEP else -0.12
    axes.add_patch(
        FancyArrowPatch(
            (start[0] + aside, start[1] + up),
            (end[0] - aside, end[1] - up),
            connectionstyle=f"arc3,rad={bend}",
            arrowstyle="-|>",
            mutation_scale=7,
            shrinkA=2,
            shrinkB=2,
            linewidth=0.6,
            color="0.45",
            zorder=0,
        )
    )


def write(target: Path) -> None:
    """Write the picture as SVG; the same code gives the same bytes."""
    with mpl.rc_context():
        # Whatever was set before in this process, such as by a figure of an analysis.
        mpl.rcdefaults()
        mpl.rcParams["svg.hashsalt"], mpl.rcParams["svg.fonttype"] = "tsnrepro", "none"
        draw().savefig(target, metadata={"Date": None}, bbox_inches="tight")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
