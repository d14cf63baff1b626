"""Reading LaTeX source: comments, arguments, and the macros that a text defines.

Enough for manuscripts, which change no category codes and use no verbatim text.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tsnrepro.common.errors import PublishError

# What TeX skips with a comment: the end of its line, and blanks before the next.
_COMMENT_LINE = re.compile(r"^[ \t]*%.*\n", re.M)
_COMMENT = re.compile(r"(?<!\\)(?P<kept>(?:\\\\)*)%.*(?:\n[ \t]*)?")
_CONTROL_WORD = re.compile(r"\\([A-Za-z@]+)")
# Blanks, with at most one end of a line: an empty line is a paragraph's end.
_BLANKS = re.compile(r"[ \t]*\n?[ \t]*(?!\n)")
_SHOWN = 60
_PARAMETER = re.compile(r"#(\d)")


@dataclass(frozen=True)
class Macro:
    """A macro with mandatory arguments only."""

    arguments: int
    body: str

    def filled(self, arguments: list[str]) -> str:
        """Return the body with the arguments in their places."""
        return _PARAMETER.sub(lambda found: arguments[int(found[1]) - 1], self.body)


def uncommented(text: str) -> str:
    """Return LaTeX source as TeX reads it, without comments."""
    return _COMMENT.sub(r"\g<kept>", _COMMENT_LINE.sub("", text))


def after_blanks(text: str, start: int) -> int:
    """Return the place after the blanks that TeX skips before an argument."""
    found = _BLANKS.match(text, start)
    return found.end() if found else start


def group_end(text: str, start: int, opening: str = "{", closing: str = "}") -> int:
    """Return the place after the group that opens at ``start``.

    Raises
    ------
    PublishError
        It does not end.
    """
    depth, place = 0, start
    while place < len(text):
        if text[place] == "\\":
            place += 2
            continue
        if text[place] == opening:
            depth += 1
        elif text[place] == closing:
            depth -= 1
        elif opening != "{" and text[place] == "{":
            place = group_end(text, place)
            continue
        place += 1
        if depth == 0:
            return place
    raise PublishError("a group does not end", text[start : start + _SHOWN])


def argument(text: str, start: int) -> tuple[str, int]:
    """Return an argument, a group or a single token, and the place after it.

    Raises
    ------
    PublishError
        There is none.
    """
    start = after_blanks(text, start)
    if text[start : start + 1] == "{":
        end = group_end(text, start)
        return text[start + 1 : end - 1], end
    word = _CONTROL_WORD.match(text, start)
    if word:
        return word[0], word.end()
    if start < len(text):
        end = start + (2 if text[start] == "\\" else 1)
        return text[start:end], end
    raise PublishError("an argument is missing", text[-_SHOWN:])


def option(text: str, start: int) -> tuple[str, int]:
    """Return an optional argument, empty where there is none, and the place after it."""
    place = after_blanks(text, start)
    if text[place : place + 1] != "[":
        return "", start
    end = group_end(text, place, "[", "]")
    return text[place + 1 : end - 1], end


def arguments(text: str, start: int, count: int) -> tuple[list[str], int]:
    """Return so many arguments, and the place after them."""
    found = []
    for _ in range(count):
        one, start = argument(text, start)
        found.append(one)
    return found, start


def groups(text: str) -> Iterator[str]:
    """Yield the arguments that a text consists of."""
    place = after_blanks(text, 0)
    while text[place:].strip():
        one, place = argument(text, place)
        yield one


def definitions(text: str) -> tuple[dict[str, Macro], str]:
    r"""Return the macros that a text defines, and the text without these definitions.

    Parameters
    ----------
    text
        Source without comments. Of ``\newcommand`` and ``\NewDocumentCommand`` those are taken
        that have mandatory arguments only; others stay in the text.
    """
    found: dict[str, Macro] = {}
    kept, place = [], 0
    for match in re.finditer(r"\\(?:newcommand|NewDocumentCommand)(?![A-Za-z@])", text):
        if match.start() < place:
            continue
        name, end = argument(text, match.end())
        if match[0] == r"\newcommand":
            said, end = option(text, end)
            default, end = option(text, end)
            count, plain = int(said or 0), not default
        else:
            said, end = argument(text, end)
            letters = said.replace("+", "")
            count, plain = len(letters), set(letters) <= {"m"}
        body, end = argument(text, end)
        if plain:
            found[name.strip().removeprefix("\\")] = Macro(count, body)
            kept.append(text[place : match.start()])
            place = end
    return found, "".join(kept) + text[place:]


def rewritten(text: str, commands: Mapping[str, tuple[int, Callable[..., str]]]) -> str:
    """Return a text with commands written otherwise, in their arguments too.

    Parameters
    ----------
    text
        LaTeX source without comments.
    commands
        By name how many mandatory arguments a command has, and what it is written as, given these.
        Where it has none, the blanks after it go with it. An optional argument before them goes.
    """
    parts, place = [], 0
    for match in _CONTROL_WORD.finditer(text):
        if match.start() < place or match[1] not in commands or escaped(text, match.start()):
            continue
        count, written = commands[match[1]]
        _, end = option(text, match.end()) if count else ("", after_word(text, match.end()))
        given, end = arguments(text, end, count)
        parts += [
            text[place : match.start()],
            written(*(rewritten(one, commands) for one in given)),
        ]
        place = end
    return "".join(parts) + text[place:]


def after_word(text: str, place: int) -> int:
    """Return the place after a command without arguments, with the blanks or braces that end it."""
    place = after_blanks(text, place)
    return group_end(text, place) if text[place : place + 2] == "{}" else place


def escaped(text: str, place: int) -> bool:
    r"""Tell whether the backslash there is the second of ``\\``."""
    before = len(text[:place]) - len(text[:place].rstrip("\\"))
    return before % 2 == 1
