"""A parser of LaTeX source: comments, arguments and macro definitions.

It does not support verbatim text or changed category codes, which manuscripts do not use.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tsnrepro.common.errors import PublishError

# TeX skips the end of a comment's line, and blanks at the start of the next.
_COMMENT_LINE = re.compile(r"^[ \t]*%.*\n", re.M)
_COMMENT = re.compile(r"(?<!\\)(?P<kept>(?:\\\\)*)%.*(?:\n[ \t]*)?")
_CONTROL_WORD = re.compile(r"\\([A-Za-z@]+)")
# Blanks with at most one newline: an empty line ends a paragraph.
_BLANKS = re.compile(r"[ \t]*\n?[ \t]*(?!\n)")
_EXCERPT = 60
_PARAMETER = re.compile(r"#(\d)")


@dataclass(frozen=True)
class Macro:
    """A macro with mandatory arguments only."""

    arguments: int
    body: str

    def filled(self, arguments: list[str]) -> str:
        """Return the body with the arguments inserted."""
        return _PARAMETER.sub(lambda found: arguments[int(found[1]) - 1], self.body)


def uncommented(text: str) -> str:
    """Return LaTeX source without comments, as TeX reads it."""
    return _COMMENT.sub(r"\g<kept>", _COMMENT_LINE.sub("", text))


def after_blanks(text: str, start: int) -> int:
    """Return the position after the blanks that TeX skips before an argument."""
    found = _BLANKS.match(text, start)
    return found.end() if found else start


def group_end(text: str, start: int, opening: str = "{", closing: str = "}") -> int:
    """Return the position after the group that opens at ``start``.

    Raises PublishError if the group does not end.
    """
    depth, position = 0, start
    while position < len(text):
        if text[position] == "\\":
            position += 2
            continue
        if text[position] == opening:
            depth += 1
        elif text[position] == closing:
            depth -= 1
        elif opening != "{" and text[position] == "{":
            position = group_end(text, position)
            continue
        position += 1
        if depth == 0:
            return position
    raise PublishError("a group does not end", text[start : start + _EXCERPT])


def argument(text: str, start: int) -> tuple[str, int]:
    """Return an argument, which is a group or a token, and the position after it.

    Raises PublishError if there is no argument.
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
    raise PublishError("an argument is missing", text[-_EXCERPT:])


def option(text: str, start: int) -> tuple[str, int]:
    """Return an optional argument, empty where there is none, and the position after it."""
    position = after_blanks(text, start)
    if text[position : position + 1] != "[":
        return "", start
    end = group_end(text, position, "[", "]")
    return text[position + 1 : end - 1], end


def arguments(text: str, start: int, count: int) -> tuple[list[str], int]:
    """Return ``count`` arguments, and the position after them."""
    found = []
    for _ in range(count):
        one, start = argument(text, start)
        found.append(one)
    return found, start


def groups(text: str) -> Iterator[str]:
    """Yield the arguments of a text that consists of arguments."""
    position = after_blanks(text, 0)
    while text[position:].strip():
        one, position = argument(text, position)
        yield one


def definitions(text: str) -> tuple[dict[str, Macro], str]:
    r"""Return the macros that a text defines, and the text without these definitions.

    Parameters
    ----------
    text
        Source without comments. Definitions by ``\newcommand`` and ``\NewDocumentCommand`` with
        optional arguments are kept in the text.
    """
    found: dict[str, Macro] = {}
    kept, position = [], 0
    for match in re.finditer(r"\\(?:newcommand|NewDocumentCommand)(?![A-Za-z@])", text):
        if match.start() < position:
            continue
        name, end = argument(text, match.end())
        if match[0] == r"\newcommand":
            number, end = option(text, end)
            default, end = option(text, end)
            count, mandatory = int(number or 0), not default
        else:
            letters, end = argument(text, end)
            letters = letters.replace("+", "")
            count, mandatory = len(letters), set(letters) <= {"m"}
        body, end = argument(text, end)
        if mandatory:
            found[name.strip().removeprefix("\\")] = Macro(count, body)
            kept.append(text[position : match.start()])
            position = end
    return found, "".join(kept) + text[position:]


def substitute(text: str, commands: Mapping[str, tuple[int, Callable[..., str]]]) -> str:
    """Return a text with commands replaced, in the arguments of commands too.

    ``text``: LaTeX source without comments. ``commands``: the number of mandatory arguments of each
    command, and the function of these that returns its replacement. Optional arguments, and blanks
    after a command without arguments, are dropped.
    """
    parts, position = [], 0
    for match in _CONTROL_WORD.finditer(text):
        if match.start() < position or match[1] not in commands or escaped(text, match.start()):
            continue
        count, replacement = commands[match[1]]
        _, end = option(text, match.end()) if count else ("", after_word(text, match.end()))
        given, end = arguments(text, end, count)
        parts += [
            text[position : match.start()],
            replacement(*(substitute(one, commands) for one in given)),
        ]
        position = end
    return "".join(parts) + text[position:]


def after_word(text: str, start: int) -> int:
    """Return the position after the blanks or braces that end a command without arguments."""
    position = after_blanks(text, start)
    return group_end(text, position) if text[position : position + 2] == "{}" else position


def escaped(text: str, position: int) -> bool:
    r"""Return whether the backslash at a position is the second of ``\\``."""
    before = text[:position]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1
