"""The language of reports and figures: English as it is written, or Korean by ``korean.yaml``."""

import re
import string
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import cast

from markupsafe import Markup, escape

from tsnrepro.config.yaml_files import read_yaml

Translate = Callable[..., str]
"""Returns an English text in the language of a report, with values for its fields."""


@cache
def korean() -> dict[str, str]:
    """Return the Korean of each English text."""
    return cast(dict[str, str], read_yaml(Path(__file__).with_name("korean.yaml")))


def translator(language: str) -> Translate:
    """Return the function that gives a text in a language, ``en`` or ``ko``.

    A text without a translation stays as it is: keys of results, names of factors, and what a
    record says are the same in both.
    """
    known = korean() if language == "ko" else {}

    def translate(text: str, **fields: object) -> str:
        found = known.get(text, text)
        return Markup(escape(found)).format(**fields) if fields else found

    return translate


def in_korean(text: str) -> str:
    """Return a label of a figure in Korean: as a whole, with its numbers, or part by part."""
    known = korean()
    if text in known:
        return known[text]
    for pattern, template in _with_numbers():
        if match := pattern.fullmatch(text):
            return template.format(**match.groupdict())
    for separator in ("\n", ", ", ": ", " / "):
        if separator in text:
            return separator.join(map(in_korean, text.split(separator)))
    return text


@cache
def _with_numbers() -> list[tuple[re.Pattern[str], str]]:
    """Return the texts with fields, as patterns whose fields are numbers, and their Korean."""
    found = []
    for english, text in korean().items():
        parts = [*string.Formatter().parse(english)]
        if any(field for _, field, _, _ in parts):
            pattern = "".join(
                re.escape(literal) + (rf"(?P<{field}>[\d.,]+)" if field else "")
                for literal, field, _, _ in parts
            )
            found.append((re.compile(pattern), text))
    return found
