"""What a manuscript prints: the keys, cells and files that its LaTeX source names.

The commands are those of ``paper/tsnrepro.sty``. Keys are found by reading the source, so they
must stand there in full: a key put together by a macro is an error.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tsnrepro.common.errors import PublishError

MEASURED_COMMANDS = (
    *("val", "unitval", "lo", "hi", "bounds", "interval", "unitinterval", "unitbounds"),
    *("rawval", "rawlo", "rawhi", "ifval", "ifknown", "ifbounded", "caseval"),
    *("wordval", "unitrange", "pvalue"),
)
PUBLISHED_COMMANDS = ("pub", "unitpub", "rawpub", "publink", "wordpub")
_KINDS = {
    **dict.fromkeys(MEASURED_COMMANDS, "measured"),
    **dict.fromkeys(PUBLISHED_COMMANDS, "published"),
    # These take the number of decimals to align at as their first argument.
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
# A table's cells by several keys in one: \cells{a.{b,c}.d} is \val{a.b.d} & \val{a.c.d}.
_CELLS = re.compile(r"\\(?P<published>pub)?cells(?:\[\w*\])?\{([^{}]*)\{([^{}]*)\}([^{}]*)\}")


@dataclass
class Used:
    """Keys and files that a manuscript names, each with the places (``file:line``)."""

    measured: dict[str, list[str]] = field(default_factory=dict)
    published: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)


def scan(manuscript: Path) -> Used:
    """Return what the ``.tex`` files of a manuscript's folder name.

    Raises
    ------
    PublishError
        The folder has no ``.tex`` file, or a key is put together by a macro.

    """
    paths = sorted(Path(manuscript).rglob("*.tex"))
    if not paths:
        raise PublishError("a manuscript without a .tex file", str(manuscript))
    used = Used()
    for path in paths:
        name = path.relative_to(manuscript).as_posix()
        scan_text(path.read_text(encoding="utf-8"), name, used)
    return used


def without_comments(text: str) -> str:
    """Return LaTeX source with its comments blanked, lines kept."""
    return "\n".join(_COMMENT.sub("", line) for line in text.split("\n"))


def scan_text(text: str, name: str, used: Used | None = None) -> Used:
    """Return what one LaTeX text names, beside what is ``used`` already.

    ``name`` is how places call the text.
    """
    text = _RANGE.sub(r"\\pub{\1}\\pub{\2}", without_comments(text))
    used, text = used or Used(), _CELLS.sub(_one_by_one, text)
    for match in _COMMAND.finditer(text):
        kind = _KINDS.get(match["command"])
        if kind is None:
            continue
        place = f"{name}:{text.count(chr(10), 0, match.start()) + 1}"
        key = match["key"].strip()
        if "\\" in key or "#" in key:
            raise PublishError(
                f"the key '{key}' is put together by a macro and cannot be found by reading",
                place,
                "Write the key in full",
            )
        getattr(used, kind).setdefault(key, []).append(place)
    return used


def _one_by_one(cells: re.Match[str]) -> str:
    _, before, words, after = cells.groups()
    command = "pub" if cells["published"] else "val"
    return "".join(f"\\{command}{{{before}{word}{after}}}" for word in words.split(","))


def check_known(named: dict[str, list[str]], known: Iterable[str], what: str) -> None:
    """Raise for the first named key that is not known, with its place and the nearest ones.

    Raises
    ------
    PublishError
        As said.

    """
    from difflib import get_close_matches  # noqa: PLC0415

    names = list(known)
    for key, places in named.items():
        if key not in names:
            near = get_close_matches(key, names, n=3, cutoff=0.6)
            hint = f"near: {', '.join(near)}" if near else f"there are {len(names)} others"
            raise PublishError(f"no {what} '{key}' ({hint})", ", ".join(places))
