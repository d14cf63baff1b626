"""Screening of files for content that is not a measurement, and for marks of generated data."""

import re
from typing import Any

from tsnrepro.common.errors import TsnreproError


class NoMeasurementError(TsnreproError):
    """A file is not a measurement; ``what`` is the reason."""


# Only the beginning of a file is searched, which shows what it is; logs may have gigabytes.
HEAD_BYTES = 65536
_SHOWN = 160

ISOCHRON_SUMMARY = re.compile(
    r"^(?:Summary:$|Packets not (?:completely TX timestamped|received): \d"
    r"|Could not calculate statistics, no packets were received|HW TX deadline misses: \d"
    r"|.* takes on average -?[\d.naif]+% of the cycle time|[\w .]+: min -?\d+ max -?\d+ mean )",
    re.MULTILINE,
)
"""A line of the summary that ``isochron report --summary`` prints."""
# Its name is followed by a NUL byte, or by what is left without these.
_ISOCHRON_LOG = re.compile(rb"ISOCHRON(?![ -~])")
_PRINT_PACKETS = (
    "isochron report --printf-format '%u,%d,%d\\n' --printf-args qTR prints its packets' times"
)

_USAGE = re.compile(r"^[ \t]*usage:?[ \t]+\S", re.IGNORECASE | re.MULTILINE)
# What programs that measure networks print. Only where the expected one's output is not found.
_PROGRAMS = {
    "iperf 2": r"^Client connecting to |^Server listening on (?:TCP|UDP) port|\bconnected with\b",
    "iperf3": r"^.{0,80}\[ *(?:\d+|SUM)\] +\d+\.\d\d- *\d+\.\d\d +sec ",
    "sockperf": r"^.{0,80}sockperf: ",
    "ping": r"^PING \S+|^--- .+ ping statistics ---|^Ping\w* .{1,99}\b32 [Bb]ytes\b"
    r"|[Bb]ytes=\d{1,9} .{1,30}\bTTL=",
    "fping": r"^\S+ +: \[\d+\], \d+ bytes, ",
    "hping3": r"^HPING \S+",
    "arping": r"^ARPING \S+",
    "mausezahn": r"^Mausezahn will send ",
    "netperf": r"^(?:MIGRATED )?(?:TCP|UDP|SCTP|OMNI)\b.* TEST from |^THROUGHPUT=",
    "flent": r"^Summary of \S+ test run ",
    "MoonGen": r"^\[Device: id=\d+\] [RT]X: ",
    "TRex": r"^-Per port stats table|^ *Total-Tx +:|^Global Statistics$|\btrex-global\b",
    "pktgen": r"^Result: OK: \d+\(c\d+\+d\d+\)",
    "ntttcp": r"^NTTTCP for Linux",
    "uperf": r"^Starting \d+ processes running profile:",
    "tcpdump": r"^(?:[\d-]+ )?[\d:]+\.\d+ (?:IP6?|ARP),? \S+|^tcpdump: |^reading from file ",
    "tshark": r"^ *\d+ +\d+\.\d+ +\S+ +(?:\u2192|->) +\S+ +\S+ +\d+ ",
    "linuxptp": r"\b(?:ptp4l|phc2sys|ts2phc)\[\d+\.\d+\]: ",
    "nuttcp": r"^ *[\d.]+ MB / +[\d.]+ sec = +[\d.]+ Mbps",
    "qperf": r"^(?:tcp|udp|sctp)_(?:lat|bw):",
    "owping": r"^--- owping statistics ",
    "cyclictest": r"^T: *\d+ \( *\d+\) P: *\d+ I:",
}
# What a program's own output has, also where it is broken off.
_OWN = {
    "iperf3": r"\[ *(?:ID|SUM|\d{1,6})\]|Connecting to host |Accepted connection from "
    r"|Server listening on |\biperf3: |^iperf 3\.",
    "sockperf": r"\bsockperf\b",
}
_JSON = re.compile(r"\s*(?:\{|\[\s*(?:\{|$))")
_DECIMAL_COMMA = re.compile(
    r"[-=\s]\d{1,9},\d{1,9} +(?:sec(?:onds)?|ms|usec|[KMGT]?(?:Bytes|bits))\b|=\d+,\d+"
)
# Not of a statistic's name: `std-error=0.042`.
_ERROR = re.compile(
    r"^.*(?:(?<![\w-])error\b(?!\s*=)|command not found|no such (?:file|device)|permission denied"
    r"|operation not permitted|connection (?:refused|timed out|reset)|unable to connect"
    r"|network is unreachable"
    r"|traceback \(most recent call last\)|segmentation fault|no messages were received"
    r"|unrecognized option|invalid option|a password is required).*$",
    re.IGNORECASE | re.MULTILINE,
)
_MARKUP = re.compile(rb"^\s*<(?:!doctype html|html)", re.IGNORECASE)
_COMPRESSED = re.compile(
    rb"(?P<gzip>\x1f\x8b)|(?P<xz>\xfd7zXZ)|(?P<zstd>\x28\xb5\x2f\xfd)|(?P<bzip2>BZh[1-9]1AY&SY)"
    rb"|(?P<zip>PK(?:\x03\x04|\x05\x06))|(?P<lz4>\x04\x22\x4d\x18)|(?P<compress>\x1f\x9d)"
    rb"|(?P<p7zip>7z\xbc\xaf\x27\x1c)|(?P<rar>Rar!\x1a\x07)"
)
_SPREADSHEET = re.compile(
    rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1|PK\x03\x04.{0,60}"
    rb"(?:\[Content_Types\]\.xml|_rels/|docProps/|xl/|mimetypeapplication/vnd\.oasis)",
    re.DOTALL,
)
_ARRAYS = re.compile(
    rb"(?P<Parquet>PAR1)|(?P<NumPy>\x93NUMPY)|(?P<HDF5>\x89HDF\r\n)|(?P<Arrow>ARROW1)"
    rb"|(?P<SQLite>SQLite format 3)|(?P<MATLAB>MATLAB 5)"
)
# The header of tar's first file, also without its NUL bytes.
_ARCHIVE = re.compile(rb"[^\n]{1,300}?[0-7]{6}[\0 ]{1,2}[0-9a-zA-Z][^\n]{0,100}ustar(?:\0?00|  )")
_CAPTURE = re.compile(
    rb"(?P<pcap>\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|M<\xb2\xa1|\xa1\xb2<M)"
    rb"|(?P<pcapng>\n\r\r\n.{0,4}(?:M<\+\x1a|\x1a\+<M))",
    re.DOTALL,
)
# Bytes that no text has; one in twenty is more than a damaged text has.
_CONTROL = bytes({*range(1, 32)} - {*b"\b\t\n\v\f\r\x1b"} | {127})
_MOST_CONTROL = 0.05
_MARK_OF_UTF_8 = b"\xef\xbb\xbf"
_POINTER = b"version https://git-lfs.github.com/spec/"
_ORIGIN = (
    r"simula(?:tion|tions|ted?|tes|ting|tor|tors)|synthetic(?:ally)?|synthesi[sz]ed|fabricated"
    r"|made-up|ns-?3|omnet(?:\+\+)?|inet framework|monte[ -]carlo"
)
_DATA = r"(?:data(?:set)?|results?|samples?|values?|numbers?)"
_NEGATED = re.compile(
    r'"[\w ]{1,60}"\s*:\s*(?:false|null|0|"(?:no|none|false)")(?![\w.])'
    rf"|\b(?:not|no|non|never|without|nor|neither)[ -](?:an? |any )?(?:{_ORIGIN})\b"
    rf"|\b(?:{_ORIGIN}|generated)\s*[:=]\s*(?:false|no|none|0)\b"
)
_GENERATED = re.compile(
    r'"(?:is_)?(?:generated|mock|fake)"\s*:\s*(?:true|1|"(?:true|yes)")'
    rf"|(?<![a-z])(?:{_ORIGIN}|randomly generated"
    rf"|(?:generated|mock(?:ed)?|fake|dummy|placeholder) {_DATA})(?![a-z])"
)
_STEMS = (
    *("synthe", "simula", "generated", "made-up", "fabricat", "mock", "fake", "dummy", "placeho"),
    *("ns3", "ns-3", "omnet", "inet f", "monte"),
)


def check_has_data(data: bytes, name: str = "") -> None:
    """Check that the beginning of a file is data of some kind.

    Parameters
    ----------
    data
        The beginning.
    name
        The file's name, which shows what a compressed file has.

    Raises
    ------
    NoMeasurementError
        It is empty, consists of NUL bytes or white space, is an HTML page, is compressed, is a
        spreadsheet, an archive, a packet capture, a binary log of isochron or other binary data, or
        is a pointer to a file that was not fetched.
    """
    if _SPREADSHEET.match(data):
        raise NoMeasurementError("it is a spreadsheet", "", "Save it as CSV, with all digits")
    if found := _ARRAYS.match(data):
        raise NoMeasurementError(f"it is a file of {found.lastgroup}", "", "Write it as CSV")
    if found := _COMPRESSED.match(data):
        what = "a data file of flent, compressed" if ".flent" in name else "compressed"
        raise NoMeasurementError(f"it is {what} ({found.lastgroup})", "", "Unpack it")
    if _ARCHIVE.match(data):
        raise NoMeasurementError("it is an archive (tar)", "", "Unpack it")
    if found := _CAPTURE.match(data):
        what = f"it is a packet capture ({found.lastgroup})"
        raise NoMeasurementError(what, "", "Give a file of times: format times in the mapping")
    if not data.removeprefix(_MARK_OF_UTF_8).strip(b"\0 \t\r\n"):
        raise NoMeasurementError("it is empty" if not data else "it holds only NUL and white space")
    if _ISOCHRON_LOG.match(data):
        raise NoMeasurementError("it is a binary log of isochron", "", _PRINT_PACKETS)
    if data.startswith(_POINTER):
        raise NoMeasurementError(
            "it is a Git LFS pointer, not the file", "", "Fetch the file: git lfs pull"
        )
    if _MARKUP.match(data):
        raise NoMeasurementError("it is an HTML page")
    if len(data) - len(data.translate(None, _CONTROL)) > _MOST_CONTROL * len(data):
        raise NoMeasurementError("it is binary data, not text")


def error_in(text: str) -> str | None:
    """Return the reason why a text is not a measurement if it is an error or usage message."""
    head = text[:HEAD_BYTES]
    if ISOCHRON_SUMMARY.search(head):
        return f"it is the summary of isochron alone; {_PRINT_PACKETS}"
    if match := _ERROR.search(head):
        return f"it is an error message: {match.group().strip()[:_SHOWN]}"
    return "it is a usage text" if _USAGE.search(head) else None


def why_not_output_of(program: str, text: str) -> str | None:
    """Return why a text is not the output of a program, if it shows it."""
    head = text[:HEAD_BYTES]
    if reason := error_in(head):
        return reason
    if (name := _program_of(head, but=program)) is not None:
        return f"it is the output of {name}, another program than {program}"
    if _DECIMAL_COMMA.search(head):
        return "its numbers have a decimal comma, which no tool prints with LC_ALL=C"
    if program in _OWN and not re.search(_OWN[program], head, re.MULTILINE):
        return f"it is not an output of {program}"
    return None


def why_not_table(text: str) -> str | None:
    """Return why a text is not a table, if it shows it."""
    head = text[:HEAD_BYTES]
    if (reason := error_in(head)) is not None:
        return reason
    if _JSON.match(head):
        return "it is JSON, not a table"
    name = _program_of(head)
    return None if name is None else f"it is the output of {name}, not a table"


def _program_of(head: str, but: str = "") -> str | None:
    """Return the program that printed a text, if it is a known one."""
    found = (n for n, p in _PROGRAMS.items() if n != but and re.search(p, head, re.MULTILINE))
    return next(found, None)


def check_not_csit(document: Any, experiment: str) -> None:
    """Check that a document is no test of FD.io CSIT, but for latencies of its type ``ndrpdr``.

    A rate of CSIT is that of both directions, found by a search or computed from it. Sources: the
    model of its output files, versions 0.2 to 1, https://github.com/FDio/csit, docs/model/current.

    Raises
    ------
    NoMeasurementError
        It is a test of CSIT that failed, or has nothing that the experiment can hold.
    """
    if not isinstance(document, dict) or not {"version", "tags", "message"} <= document.keys():
        return
    result = document.get("result", document.get("results"))
    if not isinstance(result, dict):
        return
    kind = result.get("type", document.get("test_type")) or "without result"
    what = f"it is a test of CSIT of type {kind}"[:_SHOWN]
    if document.get("passed") is False or document.get("status") == "FAIL":
        raise NoMeasurementError(f"{what} that failed")
    if kind != "ndrpdr" or experiment != "latency":
        raise NoMeasurementError(
            f"{what}, whose rates are those of a search or of both directions",
            "",
            "Supported are the latencies of ndrpdr: format json, experiment latency, "
            "rows result.latency_forward.{load}",
        )


def generated_mark(text: str) -> str | None:
    """Return the part of a text that declares its numbers generated instead of measured."""
    head = text[:HEAD_BYTES].lower()
    # Few files contain any of the stems, and searching for them is faster than the expressions.
    if not any(stem in head for stem in _STEMS):
        return None
    match = _GENERATED.search(_NEGATED.sub("", head))
    return match.group() if match else None
