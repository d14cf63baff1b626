"""Text as LaTeX source."""

import re

SPECIAL = {
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
"""What prints each character that is a command."""
_LONG_SUM = re.compile(r"[0-9a-f]{24,}")
_JOINTS = re.compile(r"([./+-]|\\_)(?=\S)")


def escape(text: str) -> str:
    """Return plain text as LaTeX source that prints it."""
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def breakable(name: str) -> str:
    """Return a key, path or checksum that may break behind its joints, without hyphens."""
    jointed = _JOINTS.sub(r"\1\\allowbreak{}", escape(name))
    return _LONG_SUM.sub(lambda match: re.sub("(.{8})", r"\1\\allowbreak{}", match[0]), jointed)
