"""Files that are not measurements: errors, usage texts, pages, and what says it is simulated."""

import re

from tsnrepro.common.errors import TsnreproError


class NoMeasurementError(TsnreproError):
    """A file that holds no measurement; ``what`` says why."""


# Only the beginning says what a file is; a log of a gigabyte is not searched for words.
HEAD_BYTES = 65536
_SHOWN = 160

_USAGE = re.compile(r"^[ \t]*usage:?[ \t]+\S", re.IGNORECASE | re.MULTILINE)
_ERROR = re.compile(
    r"^.*(?:\berror\b|command not found|no such (?:file|device)|permission denied"
    r"|connection (?:refused|timed out|reset)|unable to connect|network is unreachable"
    r"|traceback \(most recent call last\)|segmentation fault|no messages were received"
    r"|unrecognized option|invalid option).*$",
    re.IGNORECASE | re.MULTILINE,
)
_MARKUP = re.compile(rb"^\s*<(?:!doctype html|html)", re.IGNORECASE)
_POINTER = b"version https://git-lfs.github.com/spec/"
_MADE = (
    r"simula(?:tion|tions|ted?|tes|ting|tor|tors)|synthetic(?:ally)?|synthesi[sz]ed|fabricated"
    r"|made-up|ns-?3|omnet(?:\+\+)?|inet framework|monte[ -]carlo"
)
_DATA = r"(?:data(?:set)?|results?|samples?|values?|numbers?)"
_NEGATED = re.compile(
    r'"[\w ]{1,60}"\s*:\s*(?:false|null|0|"(?:no|none|false)")(?![\w.])'
    rf"|\b(?:not|no|non|never|without|nor|neither)[ -](?:an? |any )?(?:{_MADE})\b"
    rf"|\b(?:{_MADE}|generated)\s*[:=]\s*(?:false|no|none|0)\b"
)
_GENERATED = re.compile(
    r'"(?:is_)?(?:generated|mock|fake)"\s*:\s*(?:true|1|"(?:true|yes)")'
    rf"|(?<![a-z])(?:{_MADE}|randomly generated"
    rf"|(?:generated|mock(?:ed)?|fake|dummy|placeholder) {_DATA})(?![a-z])"
)
_STEMS = (
    *("synthe", "simula", "generated", "made-up", "fabricat", "mock", "fake", "dummy", "placeho"),
    *("ns3", "ns-3", "omnet", "inet f", "monte"),
)


def refuse_empty(data: bytes) -> None:
    """Raise for a file whose beginning is not data at all.

    Raises
    ------
    NoMeasurementError
        It is empty, holds only NUL bytes or white space, is a page of a web server, or stands for
        a file that was not fetched.
    """
    if not data.strip(b"\0 \t\r\n"):
        raise NoMeasurementError("it is empty" if not data else "it holds only NUL and white space")
    if data.startswith(_POINTER):
        raise NoMeasurementError(
            "it is a Git LFS pointer, not the file", "", "Fetch the file: git lfs pull"
        )
    if _MARKUP.match(data):
        raise NoMeasurementError("it is an HTML page")


def complaint(text: str) -> str | None:
    """Return what a text says that is an error message or a usage text, else None."""
    head = text[:HEAD_BYTES]
    if match := _ERROR.search(head):
        return f"it is an error message: {match.group().strip()[:_SHOWN]}"
    return "it is a usage text" if _USAGE.search(head) else None


def says_generated(text: str) -> str | None:
    """Return the words by which a text says that its numbers are not measured, else None."""
    head = text[:HEAD_BYTES].lower()
    # Few files have any of these letters, and finding none is quicker than matching words.
    if not any(letters in head for letters in _STEMS):
        return None
    match = _GENERATED.search(_NEGATED.sub("", head))
    return match.group() if match else None
