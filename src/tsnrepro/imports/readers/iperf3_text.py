"""iperf3's text: lines with the rates of intervals, and with totals at the end."""

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.imports.readers.iperf3_totals import (
    NO_GOODPUT,
    NO_SUM,
    ONLY_SENT,
    UdpTotals,
    are_whole,
    check_protocol,
    check_sum,
)
from tsnrepro.imports.readers.row import Known
from tsnrepro.imports.screening import NoMeasurementError, why_not_output_of
from tsnrepro.imports.units import factor, scaled
from tsnrepro.tools import iperf3

_N = r"\d{1,18}"
_LINE = re.compile(
    r"^\[ *(?P<stream>\d{1,6}|SUM)\] +"
    r"(?P<begin>\d{1,9}\.\d{1,9})- *(?P<end>\d{1,9}\.\d{1,9}) +sec +"
    r"(?P<amount>[\d.]{1,12}) (?P<bytes>\w{0,9}Bytes) +(?P<rate>\d{1,12}(?:\.\d{1,9})?) "
    r"(?P<unit>\w{0,9}(?:bits|Bytes)/sec)(?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_DATAGRAMS = re.compile(
    rf" +(?:[\d.]{{1,20}}|-?nan) ms +(?:(?P<lost>-?{_N})|Unknown)/(?P<total>{_N})(?: \([^)]*\))?"
)
_PACKETS = re.compile(rf" +({_N})\s*$")
_SENT = re.compile(rf"^\[ *(?:\d{{1,6}}|SUM)\] Sent ({_N}) datagrams", re.MULTILINE)
_OUT_OF_ORDER = re.compile(
    rf"^\[ *(?:\d{{1,6}}|SUM)\][^\n]*?\b({_N}) datagrams received out-of-order", re.MULTILINE
)
_TEST = re.compile(rf"protocol: (\w{{1,9}}), ({_N}) streams?, ({_N}) byte blocks")
_DURATION = re.compile(rf"\bomitting {_N} seconds?, ({_N}) second test")
_TARGET = re.compile(rf"Target Bitrate: ({_N})")
# --title and --timestamps begin every line, and a terminal prints ^C into one.
_PREFIX = re.compile(
    r"^[^\n]{1,300}?(?=\[ *(?:\d{1,6}|SUM|ID)\][ \[]|- - -|Connecting to host "
    r"|Accepted connection from |Server listening on |Server (?:JSON )?output:|Test Complete\.)",
    re.MULTILINE,
)
_BEGINNING = re.compile(r"^(?:Connecting to host|Accepted connection from)", re.MULTILINE)
_SERVER_PART = re.compile(r"\n *Server (?:JSON )?output:")
_HEADER = re.compile(r"^\[ *ID\][^\n]*$", re.MULTILINE)
_SUMMARY = re.compile(r"^- - -[ -]*\n(?:[^\[\n]{1,400}\n)?(?=\[ *ID\])", re.MULTILINE)
_ROLE = re.compile(r"\[[TR]X-[CS]\]|^\[ *ID\]\[Role\]", re.MULTILINE)
# An attempt that found no server, or a busy one, has no test.
_FAILURE = re.compile(
    r"\biperf3: (?:error|interrupt) - (?!unable to connect to server|the server is busy)[^\n]*"
    r"|\bthe (?:client|server) has (?:unexpectedly )?(?:terminated|closed)[^\n]*"
)
_UNKNOWN_LOSS = "a client of version 3.13 or later does not know the losses of an older server"
_ENDS = ("sender", "receiver")
_REVERSE = "Reverse mode, remote host "
# The columns of who sends, client or server.
_OF_SENDER = re.compile(r"\bRetr\b|(?<!Lost/)Total Datagrams")
_IDLE = "Server listening on "
_IPERF_2 = re.compile(
    r"^Client connecting to |^\[[^\n]{1,99}?\bconnected with\b|\bServer Report:"
    r"|^Server listening on (?:TCP|UDP) port|^\d{14}(?:\.\d{1,9})?,[\d.:a-f]{2,45},"
    r"|^time,srcaddress,| ms +\d{1,18}/ +\d{1,18} \(| \d{1,12} pps\b"
    # iperf3 prints seconds with two decimals.
    r"|^\[ *(?:\d{1,6}|SUM)\] +\d{1,9}\.(?:\d|\d{4})- *\d{1,9}\.(?:\d|\d{4}) +sec"
    r" +[\d.]{1,12} +\w?Bytes",
    re.MULTILINE,
)
# Printed numbers are rounded, and some are truncated: to their last digit.
_DIGIT = 0.51
# Three digits are printed, but in a unit of --format.
_COARSE = 0.011
# Another unit is a factor of 8 or 1000.
_AGREEMENT = 2


def before_server_output(text: str) -> str:
    """Return a client's text without the server's output behind it."""
    return _SERVER_PART.split(text, maxsplit=1)[0]


def totals(text: str, wants_udp: bool) -> Known:
    """Return the fields that a test's totals determine.

    Raises
    ------
    NoMeasurementError
        As :func:`tsnrepro.imports.readers.iperf3.read`.
    """
    _check_last_line(text)
    text = before_server_output(_plain(text))
    test = _one_test(text)
    sender, receiver = test.of("sender"), test.of("receiver")
    of_both = None if sender or receiver else _sum(test.totals)
    ends = [line for line in (sender, receiver, of_both) if line]
    if not ends:
        reason = why_not_output_of("iperf3", text)
        raise NoMeasurementError(reason or "iperf3 printed no totals: it did not complete")
    has_datagrams = any(_DATAGRAMS.match(line["rest"]) for line in ends)
    check_protocol(_protocol(text, "UDP" if has_datagrams else "TCP"), wants_udp)
    known = _parameters(text)
    if not wants_udp:
        return known | _tcp(sender, receiver)
    if receiver or sender:
        known |= _udp(test, sender, receiver)
    else:
        known |= _udp_of_one_line(test, ends[0], is_client=_SENT.search(text) is not None)
    # Each stream has a line of its own.
    late = sum(int(count) for count in _OUT_OF_ORDER.findall(text))
    if late and (receiver or late != _lost(ends[0])):
        known["out_of_order"] = late
    return known


def _lost(line: re.Match) -> int:
    """Return the datagrams lost, which the first versions print as those out of order."""
    counted = _DATAGRAMS.match(line["rest"])
    return int(counted["lost"] or 0) if counted else 0


def intervals(text: str, wants_udp: bool) -> list[Known]:
    """Return the fields of each interval.

    Raises
    ------
    NoMeasurementError
        As :func:`tsnrepro.imports.readers.iperf3.read`.
    """
    text = _plain(text)
    parameters = _parameters(text)
    client, *server = _SERVER_PART.split(text, maxsplit=1)
    reverse = _REVERSE in client
    printed = server[0] if server and not reverse else client
    test = _one_test(printed)
    header = found[0] if (found := _HEADER.search(printed)) else ""
    is_server = re.search("^ *Accepted connection", printed, re.MULTILINE)
    sends = _OF_SENDER.search(header) if is_server else not reverse
    rows = []
    for line in test.intervals():
        counted, packets = _DATAGRAMS.match(line["rest"]), _PACKETS.match(line["rest"])
        # A sum of TCP streams has a single number, too: those sent again.
        udp = counted or (packets and sends and "Retr" not in header)
        check_protocol(_protocol(text, "UDP" if udp else "TCP"), wants_udp)
        known: Known = {"duration_s": _seconds(line)}
        if counted:
            known["delivered_mbps"] = _rate(line)
            if int(counted["total"]):
                known["loss_percent"] = 100 * int(counted["lost"]) / int(counted["total"])
        elif packets and wants_udp:
            known |= {"offered_mbps": _rate(line), "sent": int(packets[1])}
        else:
            known["sent_mbps" if sends else "goodput_mbps"] = _rate(line)
            known["seconds"] = _seconds(line)
        rows.append(parameters | known)
    return rows


# --- lines ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Test:
    """The lines with rates of one test: of its intervals, and of its totals."""

    parts: list[re.Match]
    totals: list[re.Match]

    def of(self, end: str) -> re.Match | None:
        """Return the total of the ``sender`` or of the ``receiver``."""
        return _sum([line for line in self.totals if _end_of(line) == end])

    def intervals(self) -> list[re.Match]:
        """Return the lines of the intervals over all streams."""
        return _over_all_streams(self.parts)

    def is_of_receiver(self) -> bool:
        """Return whether its intervals show what arrived."""
        return any(_DATAGRAMS.match(line["rest"]) for line in self.parts)

    def counted(self) -> int | None:
        """Return the datagrams of all intervals; None if they are not those of the whole test."""
        lines = _sums_or_single(self.parts)
        parts = [_DATAGRAMS.match(i["rest"]) or _PACKETS.match(i["rest"]) for i in lines]
        times = [(float(line["begin"]), float(line["end"])) for line in lines]
        if not parts or not all(parts) or not are_whole(times, float(self.totals[-1]["end"])):
            return None
        return sum(int(part[part.re.groups]) for part in parts if part)


def _plain(text: str) -> str:
    """Return the text without prefixes, and once where it or each of its lines is there twice."""
    lines = [line.rstrip() for line in _PREFIX.sub("", text).strip().splitlines()]
    lines = lines[::2] if lines[::2] == lines[1::2] else lines
    half = len(lines) // 2
    return "\n".join(lines[:half] if lines[:half] == lines[half:] else lines) + "\n"


def _one_test(text: str) -> _Test:
    """Return the lines of the one test in a text.

    Raises
    ------
    NoMeasurementError
        It is another program's, has several tests or one in both directions, or was interrupted.
    """
    if _IPERF_2.search(text):
        raise NoMeasurementError("it is the output of iperf 2, another program than iperf3")
    if len(_BEGINNING.findall(text)) > 1:
        raise NoMeasurementError(*iperf3.SEVERAL_TESTS)
    if _ROLE.search(text):
        raise NoMeasurementError(iperf3.BOTH_DIRECTIONS)
    _check_not_wrapped(text.splitlines())
    lines = list(_LINE.finditer(text))
    if lines:
        _check_complete(text, lines[-1].end())
    start, named = _start_of_totals(text, lines), any(map(_end_of, lines))
    return _Test(
        [line for line in lines if line.start() < start and _is_interval(line)],
        [line for line in lines if line.start() >= start and (_end_of(line) or not named)],
    )


def _check_not_wrapped(lines: list[str]) -> None:
    """Raise if who reports a total is, or ends, on the next line."""
    for line, behind in pairwise(lines):
        if behind and behind[0] != "[" and (line + behind).endswith(_ENDS):
            what = "its lines are wrapped: who reports a total is on the next line"
            raise NoMeasurementError(what, "", "Write the output to a file (--logfile)")


def _check_complete(text: str, end: int) -> None:
    """Raise if a test, whose lines with rates end somewhere, was interrupted or failed."""
    idle = _IDLE in text[end:]
    for failure in _FAILURE.finditer(text):
        # A server is stopped by an interrupt when its test is over.
        if not (idle and "the server has terminated" in failure[0]):
            raise NoMeasurementError(iperf3.reported(failure[0].removeprefix("iperf3: ")))


def _check_last_line(text: str) -> None:
    """Raise if the last line, which has no end, may lack the end of a count or the total's name."""
    last = text[text.rfind("\n") + 1 :].rstrip()
    if _LINE.search(last) and not last.endswith(_ENDS):
        raise NoMeasurementError("its last line is broken off")


def _start_of_totals(text: str, lines: list[re.Match]) -> int:
    """Return where the totals begin.

    Before version 3.3 those of a UDP test do not state whose they are, and only a header is before
    them.
    """
    if named := [line.start() for line in lines if _end_of(line)]:
        return named[0]
    headers = [found.end() for found in _SUMMARY.finditer(text)]
    if not headers and _SENT.search(text):
        headers = [found.end() for found in _HEADER.finditer(text)]
    return headers[-1] if headers else len(text)


def _is_interval(line: re.Match) -> bool:
    return "(omitted)" not in line["rest"] and _seconds(line) > 0


def _over_all_streams(lines: list[re.Match]) -> list[re.Match]:
    """Return the lines that are sums of several streams, or those of a single one."""
    found = _sums_or_single(lines)
    if lines and not found:
        raise NoMeasurementError(NO_SUM)
    return found


def _sums_or_single(lines: list[re.Match]) -> list[re.Match]:
    """Return the same lines; none if there are several streams without a sum."""
    streams = {line["stream"] for line in lines}
    if len(streams) > 1:
        return [line for line in lines if line["stream"] == "SUM"]
    return lines


def _sum(lines: list[re.Match]) -> re.Match | None:
    """Return the line over all streams."""
    chosen = _over_all_streams(lines)
    return chosen[-1] if chosen else None


def _end_of(line: re.Match) -> str:
    """Return whether a total is that of the ``sender`` or ``receiver``; empty for an interval."""
    last = line["rest"].split()[-1:]
    return last[0] if last and last[0] in _ENDS else ""


def _protocol(text: str, default: str) -> str:
    found = _TEST.search(text)
    return found[1] if found else default


def _parameters(text: str) -> Known:
    """Return the parameters of the test, which ``--verbose`` prints."""
    known: Known = {}
    streams = 1
    if test := _TEST.search(text):
        streams = int(test[2])
        if test[1] == "UDP":
            known["payload_bytes"] = int(test[3])
    if duration := _DURATION.search(text):
        known["duration_s"] = int(duration[1])
    if (target := _TARGET.search(text)) and int(target[1]):
        # The target is that of each stream.
        known["target_mbps"] = int(target[1]) * streams / 1e6
    return known


def _rate(line: re.Match) -> float:
    least, most = _rate_times_seconds(line)
    fewest, largest = _bytes(line)
    if fewest > _AGREEMENT * most or least > _AGREEMENT * largest:
        raise NoMeasurementError(
            f"{line['amount']} {line['bytes']} in {_seconds(line):.4g} s are not "
            f"{line['rate']} {line['unit']}"
        )
    low, high = _around(line["rate"], _factor(line["unit"], "Mb/s"))
    if high - low > _COARSE * high and _seconds(line):
        # A unit of --format that is too large leaves no digits, which the bytes have.
        size = scaled(float(line["amount"]), _factor(line["bytes"] + "/sec", "Mb/s"))
        return size / _seconds(line)
    return scaled(float(line["rate"]), _factor(line["unit"], "Mb/s"))


def _factor(unit: str, target: str) -> Fraction:
    try:
        return factor("rate", unit, target)
    except ConfigurationError as error:
        raise NoMeasurementError(f"iperf3 printed no rate: {error.what}") from error


def _seconds(line: re.Match) -> float:
    return round(float(line["end"]) - float(line["begin"]), 9)


# --- totals -----------------------------------------------------------------------------------


def _tcp(sender: re.Match | None, receiver: re.Match | None) -> Known:
    if receiver is None or not _rate(receiver):
        # In reverse a server sends.
        raise NoMeasurementError(NO_GOODPUT if receiver or not sender else ONLY_SENT)
    known: Known = {"goodput_mbps": _rate(receiver), "seconds": _seconds(receiver)}
    # A server before version 3.2 prints zero for the sender.
    if sender is not None and _rate(sender):
        known["sent_mbps"] = _rate(sender)
        first = sender["rest"].split()[0]
        if first.isdecimal():
            known["retransmits"] = int(first)
    return known


def _udp(test: _Test, sender: re.Match | None, receiver: re.Match | None) -> Known:
    if receiver is None:
        raise NoMeasurementError(ONLY_SENT)
    found = UdpTotals(receive_seconds=_seconds(receiver), delivered_mbps=_rate(receiver))
    if sender is not None:
        found.send_seconds, found.offered_mbps = _seconds(sender), _rate(sender)
        # In reverse the client may not know how many datagrams the server sent.
        found.sent = (int(at["total"]) if (at := _DATAGRAMS.match(sender["rest"])) else 0) or None
    if counted := _DATAGRAMS.match(receiver["rest"]):
        if counted["lost"] is None:
            raise NoMeasurementError("its receiver does not report how many datagrams were lost")
        found.counted, found.lost = int(counted["total"]), int(counted["lost"])
    known = found.row()
    expected = test.counted()
    total = found.counted if test.is_of_receiver() else found.sent
    if expected is not None and total is not None:
        check_sum(total, expected, "its intervals")
    if sender is not None and found.sent:
        _check_bytes(sender, receiver, int(known["received"]), found)
    return known


def _check_bytes(sender: re.Match, receiver: re.Match, received: int, counted: UdpTotals) -> None:
    """Raise if fewer bytes arrived than the receiver's counts are."""
    assert counted.sent is not None
    for measure in (_bytes, _rate_times_seconds):
        _, most = measure(receiver)
        least, _ = measure(sender)
        # The same bytes are printed as the same number, which is more exact than its digits.
        fewer = received == counted.sent and measure is _bytes and most < measure(sender)[1]
        if fewer or received * least > counted.sent * most:
            arrived, sent = (
                f"{line['amount']} {line['bytes']} at {line['rate']} {line['unit']}"
                for line in (receiver, sender)
            )
            why = "" if counted.lost else f": {_UNKNOWN_LOSS}"
            raise NoMeasurementError(
                f"its receiver reports {counted.lost} lost of {counted.counted} datagrams, but "
                f"{sent} were sent and {arrived} arrived{why}"
            )


def _bytes(line: re.Match) -> tuple[float, float]:
    """Return the least and most bytes that are printed like this."""
    return _around(line["amount"], _factor(line["bytes"] + "/sec", "B/s"))


def _rate_times_seconds(line: re.Match) -> tuple[float, float]:
    (least, most), seconds = _around(line["rate"], _factor(line["unit"], "B/s")), _seconds(line)
    slack = _DIGIT * 10.0 ** -len(line["end"].partition(".")[2])
    # A total begins at zero, exactly, and an interval at a rounded time.
    slack *= 2 if float(line["begin"]) else 1
    return least * max(seconds - slack, 0), most * (seconds + slack)


def _around(number: str, unit: Fraction) -> tuple[float, float]:
    slack = _DIGIT * 10.0 ** -len(number.partition(".")[2])
    return max(float(number) - slack, 0) * float(unit), (float(number) + slack) * float(unit)


def _udp_of_one_line(test: _Test, line: re.Match, *, is_client: bool) -> Known:
    """Read the one total of versions 3.0 to 3.2: the bytes sent, and the datagrams received.

    Its number of datagrams is that of the highest that the receiver knows of, also where the client
    prints it as sent; those sent are the sum of the client's intervals.
    """
    counted = _DATAGRAMS.match(line["rest"])
    if counted is None or counted["lost"] is None:
        raise NoMeasurementError("iperf3 counted no datagram")
    found = UdpTotals(counted=int(counted["total"]), lost=int(counted["lost"]))
    if is_client:
        found.send_seconds, found.offered_mbps = _seconds(line), _rate(line)
        found.sent = None if test.is_of_receiver() else test.counted()
    else:
        found.receive_seconds = _seconds(line)
    return found.row()
