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


@cache
def korean_methods() -> dict[str, str]:
    """Return the Korean of each English method, both with fields."""
    return cast(dict[str, str], read_yaml(Path(__file__).with_name("korean-methods.yaml")))


def translator(language: str, *, composed: bool = False) -> Translate:
    """Return the function that gives a text in a language, ``en`` or ``ko``.

    A text without a translation stays as it is: keys of results, names of factors, and what a
    record says are the same in both. With ``composed`` a text may be put together of others, as
    methods and places are.
    """
    known = korean() if language == "ko" else {}

    def translate(text: str, **fields: object) -> str:
        found = known.get(text, text)
        if composed and language == "ko" and text not in known:
            method = method_in(language, text)
            found = method if method != text else in_korean(text)
        return Markup(escape(found)).format(**fields) if fields else found

    return translate


def in_korean(text: str) -> str:
    """Return a label of a figure in Korean: as a whole, with its numbers, or part by part."""
    known = korean()
    if text in known:
        return known[text]
    for pattern, template in _labels():
        if match := pattern.fullmatch(text):
            return template.format(**match.groupdict())
    for separator in ("\n", "; ", ", ", ": ", " / "):
        if separator in text:
            return separator.join(map(in_korean, text.split(separator)))
    return text


def method_in(language: str, method: str) -> str:
    """Return the method of a value in a language; without a translation it stays as it is."""
    if language == "ko":
        for pattern, text in _methods():
            if found := pattern.fullmatch(method):
                fields = {
                    name: method_in(language, part) for name, part in found.groupdict().items()
                }
                return text.format(**fields)
    return method


@cache
def _labels() -> list[tuple[re.Pattern[str], str]]:
    return _with_fields(korean(), r"[\d.,]+")


@cache
def _methods() -> list[tuple[re.Pattern[str], str]]:
    return _with_fields(korean_methods(), ".+")


def _with_fields(texts: dict[str, str], value: str) -> list[tuple[re.Pattern[str], str]]:
    """Return the English texts as patterns whose fields match ``value``, and their Korean."""
    found = []
    for english, text in texts.items():
        pattern = "".join(
            re.escape(literal) + (f"(?P<{field}>{value})" if field else "")
            for literal, field, _, _ in string.Formatter().parse(english)
        )
        found.append((re.compile(pattern), text))
    return found
