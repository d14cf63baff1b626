"""Errors with what was wrong, where, and what to do."""

import re

# Truncate long tokens, which would bury the rest of the sentence.
_LONG_TOKEN = re.compile(r"(\S{100})\S{200,}(\S{60})")


class TsnreproError(Exception):
    """A failure that a user can act on.

    Parameters
    ----------
    what
        What was wrong, as a sentence without a full stop.
    where
        The file, host, trial or key that has the error.
    remedy
        What to do about it.
    """

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__(what, where, remedy)

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        message = f"{self.what}{place}" + (f". {self.remedy}" if self.remedy else "")
        return printable(_LONG_TOKEN.sub(r"\1...\2", message))


def printable(text: str) -> str:
    """Return a text with control characters escaped: it quotes files, and terminals obey them."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable() or character in "\n\t\u00a0":
        return character
    return character.encode("unicode_escape").decode()


class ConfigurationError(TsnreproError):
    """A configuration key or value that is unknown or cannot be used."""


class TestbedError(TsnreproError):
    """A testbed that cannot be brought up, reached or configured."""

    __test__ = False  # pytest collects classes by this name otherwise


class JobDeadlineError(TestbedError):
    """A job that did not end in time and was ended; the testbed can run another one."""


class CommandError(TsnreproError):
    """A command on a host that failed or did not end in time."""


class ToolError(TsnreproError):
    """A tool's output that is not a measurement."""


class RecordError(TsnreproError):
    """A record that is incomplete, altered or not as its schema requires."""


class PublishError(TsnreproError):
    """A value, file or manuscript that cannot be printed."""
