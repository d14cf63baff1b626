"""Text as LaTeX source."""

import re

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "^": r"\textasciicircum{}",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "%": r"\%",
}
_JOINTS = re.compile(r"([./+-]|\\_)(?=\S)")


def escape(text: str) -> str:
    """Return plain text as LaTeX source that prints it."""
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def breakable(name: str) -> str:
    """Return a key, path or folder name that may break behind its joints, without hyphens."""
    return _JOINTS.sub(r"\1\\allowbreak{}", escape(name))
