"""The language of a report: English as it is written here, or Korean by ``korean.yaml``."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import cast

from markupsafe import Markup, escape

from tsnrepro.config.yaml_files import read_yaml

Translate = Callable[..., str]
"""Returns an English text in the language of a report, with values for its fields."""
_FIELD = re.compile(r"\{(\w+)\}")


@cache
def korean() -> dict[str, str]:
    """Return the Korean of each English text."""
    return cast(dict[str, str], read_yaml(Path(__file__).with_name("korean.yaml")))


@cache
def korean_methods() -> dict[str, str]:
    """Return the Korean of each English method, both with fields."""
    return cast(dict[str, str], read_yaml(Path(__file__).with_name("korean-methods.yaml")))


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    return [
        (re.compile(_FIELD.sub(r"(?P<\1>.+)", re.sub(r"[^\w\s{}]", r"\\\g<0>", english))), text)
        for english, text in korean_methods().items()
    ]


def method_in(language: str, method: str) -> str:
    """Return the method of a value in a language; without a translation it stays as it is."""
    if language == "ko":
        for pattern, text in _patterns():
            if found := pattern.fullmatch(method):
                fields = {
                    name: method_in(language, part) for name, part in found.groupdict().items()
                }
                return text.format(**fields)
    return method


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
