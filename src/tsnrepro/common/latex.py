"""Escaping of text for LaTeX."""

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
"""Source of each special character."""
_LONG_CHECKSUM = re.compile(r"[0-9a-f]{24,}")
_SEPARATORS = re.compile(r"([./+-]|\\_)(?=\S)")


def escape(text: str) -> str:
    """Return the LaTeX source of plain text."""
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def breakable(name: str) -> str:
    """Return the source of a key, path or checksum that may break after separators."""
    source = _SEPARATORS.sub(r"\1\\allowbreak{}", escape(name))
    return _LONG_CHECKSUM.sub(lambda match: re.sub("(.{8})", r"\1\\allowbreak{}", match[0]), source)
