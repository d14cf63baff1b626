"""The keys, cells and files that the LaTeX source of a manuscript names.

The commands are those of ``paper/tsnrepro.sty``. The source is scanned, not executed, so a key that
contains a macro is an error.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from tsnrepro.common.errors import PublishError

MEASURED_COMMANDS = (
    *("val", "unitval", "lo", "hi", "bounds", "interval", "unitinterval", "unitbounds"),
    *("rawval", "rawlo", "rawhi", "ifval", "ifknown", "ifbounded", "caseval"),
    *("wordval", "unitrange", "pvalue"),
)
PUBLISHED_COMMANDS = ("pub", "unitpub", "rawpub", "publink", "wordpub")
# What follows the name of a paper in that of its supplement, which is another job over main.tex.
SUPPLEMENT = "-supplement"
_KINDS = {
    **dict.fromkeys(MEASURED_COMMANDS, "measured"),
    **dict.fromkeys(PUBLISHED_COMMANDS, "published"),
    # The first argument is the number of decimals to align at.
    **{"valto": "measured", "pubto": "published"},
    **{"measuredfigure": "files", "tablerows": "tables"},
}

_COMMENT = re.compile(r"(?<!\\)%.*")
_COMMAND = re.compile(
    r"\\(?P<command>[A-Za-z]+)\*?\s*(?:\[[^\]]*\])?\s*(?:\{(?P<decimals>\d+)\}\s*(?=\{))?"
    r"\{(?P<key>[^{}]*)\}"
)
# Two published cells as one range: \pubrange{low}{high}.
_RANGE = re.compile(r"\\pubrange\{([^{}]*)\}\{([^{}]*)\}")
# Several keys in one: \cells{a.{b,c}.d} is \val{a.b.d} & \val{a.c.d}.
_CELLS = re.compile(r"\\(?P<published>pub)?cells(?:\[\w*\])?\{([^{}]*)\{([^{}]*)\}([^{}]*)\}")


# A result in the condition of \asserted.
_CONDITION = re.compile(r'measured\("([^"]+)"\)')


@dataclass
class UsedNames:
    """The keys and files in a manuscript, each with its places (``file:line``)."""

    measured: dict[str, list[str]] = field(default_factory=dict)
    published: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)


def scan(manuscript: Path) -> UsedNames:
    """Return the names in the ``.tex`` files of a manuscript.

    Raises PublishError if the folder has no ``.tex`` file, or a key contains a macro.
    """
    paths = sorted(Path(manuscript).rglob("*.tex"))
    if not paths:
        raise PublishError("the manuscript has no .tex file", str(manuscript))
    used = UsedNames()
    for path in paths:
        name = path.relative_to(manuscript).as_posix()
        scan_text(path.read_text(encoding="utf-8"), name, used)
    return used


def without_comments(text: str) -> str:
    """Return LaTeX source without comments, with the same lines."""
    return "\n".join(_COMMENT.sub("", line) for line in text.split("\n"))


def scan_text(text: str, name: str, used: UsedNames | None = None) -> UsedNames:
    """Add the names in a LaTeX text to ``used`` and return it.

    ``name`` is the file name in places.
    """
    text = _RANGE.sub(r"\\pub{\1}\\pub{\2}", without_comments(text))
    used, text = used or UsedNames(), _CELLS.sub(_expanded_cells, text)
    for match in _CONDITION.finditer(text):
        used.measured.setdefault(match[1], []).append(place_of(match, text, name))
    for match in _COMMAND.finditer(text):
        kind = _KINDS.get(match["command"])
        if kind is None:
            continue
        place = place_of(match, text, name)
        key = match["key"].strip()
        if "\\" in key or "#" in key:
            raise PublishError(
                f"the key '{key}' contains a macro",
                place,
                "Write the key in full",
            )
        getattr(used, kind).setdefault(key, []).append(place)
    return used


def place_of(match: re.Match[str], text: str, name: str) -> str:
    """Return the place of a match in the text of a file: ``name:line``."""
    return f"{name}:{text.count(chr(10), 0, match.start()) + 1}"


def _expanded_cells(cells: re.Match[str]) -> str:
    _, before, words, after = cells.groups()
    command = "pub" if cells["published"] else "val"
    return "".join(f"\\{command}{{{before}{word}{after}}}" for word in words.split(","))


def check_known(named: dict[str, list[str]], known: Iterable[str], what: str) -> None:
    """Check that all names are known.

    Raises PublishError if a name is unknown; the message has its places and similar names.
    """
    names = list(known)
    for key, places in named.items():
        if key not in names:
            near = get_close_matches(key, names, n=3, cutoff=0.6)
            hint = f"near: {', '.join(near)}" if near else f"there are {len(names)} others"
            raise PublishError(f"no {what} '{key}' ({hint})", ", ".join(places))
