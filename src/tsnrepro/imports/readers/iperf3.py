"""iperf3's output, text or JSON, client's or server's: one test per file, or its intervals."""

import re

from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import INTERVALS, MappedTable
from tsnrepro.imports.readers import iperf3_json, iperf3_text
from tsnrepro.imports.readers.iperf3_totals import NOTE, RECEIVE_SECONDS
from tsnrepro.imports.readers.row import DataRow, FileRows, Known
from tsnrepro.imports.screening import NoMeasurementError

# The last interval of a test may be shorter than the others.
_MIN_INTERVAL = 0.5
_PREFIXED_OPENING = re.compile(r"^([^\n{}\"]{1,200})\{[ \t\r]*$", re.MULTILINE)
# What client and server agree on, which --debug prints.
_EXCHANGED = re.compile(
    r"^(?:send|get)_(?:parameters|results):?\n\{\n(?:[ \t].*\n)*\}\n", re.MULTILINE
)
_NUMBERS = re.compile("[ 0-9]+")


def read(file: SourceFile, table: MappedTable) -> FileRows:
    """Return the file's one test as a row, or each interval that it reports.

    Versions 3.0 to 3.19 are known, by their sources (https://github.com/esnet/iperf).

    Raises
    ------
    NoMeasurementError
        It is an error or usage message, or another program's output; it was interrupted, has
        several tests, a test in both directions or of another protocol; its totals are the sender's
        alone, a counter overflowed, or more datagrams arrived than were sent; or its intervals are
        those of a TCP sender, which do not show what arrived.
    """
    text, wants_udp = _EXCHANGED.sub("", file.tool_output()), table.experiment == "loss"
    start = iperf3_json.begins(text)
    if start is None:
        bare = _without_prefixes(text)
        start = iperf3_json.begins(bare)
        text = text if start is None else bare
    if start is not None and table.rows != INTERVALS:
        # A client's text may have its server's JSON behind it.
        client = iperf3_text.before_server_output(text[:start])
        start = start if client == text[:start] else None
    form = iperf3_text if start is None else iperf3_json
    try:
        if table.rows == INTERVALS:
            return _of_intervals(form.intervals(text[start or 0 :], wants_udp), wants_udp)
        known = form.totals(text[start or 0 :], wants_udp)
    except KeyError as error:
        raise NoMeasurementError(f"iperf3's output lacks {error}"[:200]) from error
    except (TypeError, AttributeError, ValueError, ArithmeticError) as error:
        what = f"iperf3's output has a value that cannot be one: {error}"
        raise NoMeasurementError(what[:200]) from error
    checks = {name: known.pop(name) for name in (RECEIVE_SECONDS,) if name in known}
    notes = [str(known.pop(name)) for name in (NOTE,) if name in known]
    _check_numbers(known)
    return FileRows([DataRow("", dict(known), known, checks)], notes=notes)


def _check_numbers(known: Known) -> None:
    for name, value in known.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            what = f"iperf3's output has a value that cannot be one: {name} is {value!r}"
            raise NoMeasurementError(what[:200])


def _without_prefixes(text: str) -> str:
    """Return JSON without what is before each of its lines, such as a time, a number or a host."""
    opening = _PREFIXED_OPENING.search(text)
    if opening is None:
        return text
    # From line to line only numbers differ.
    parts = map(re.escape, _NUMBERS.split(opening[1]))
    return re.sub(f"^{r'[ 0-9]*'.join(parts)}", "", text[opening.start() :], flags=re.MULTILINE)


def _of_intervals(intervals: list[Known], wants_udp: bool) -> FileRows:
    if not intervals:
        raise NoMeasurementError("iperf3 reported no intervals")
    if not wants_udp and "goodput_mbps" not in intervals[0]:
        raise NoMeasurementError(
            "its intervals are the sender's and do not show what arrived",
            "",
            "Use the server's output, or the client's with --get-server-output",
        )
    for known in intervals:
        _check_numbers(known)
    found = FileRows([])
    usual = max(float(known["duration_s"]) for known in intervals)
    for number, known in enumerate(intervals, start=1):
        location, reason = f"interval {number}", None
        if float(known["duration_s"]) < _MIN_INTERVAL * usual:
            reason = "it is shorter than half of the others"
        elif float(known.get("loss_percent", 0)) < 0:
            reason = "datagrams of the interval before it, or duplicates, arrived in it"
        if reason:
            found.skipped.append((location, reason))
            found.skipped_rows += 1
        else:
            found.rows.append(DataRow(location, dict(known), known))
    return found
