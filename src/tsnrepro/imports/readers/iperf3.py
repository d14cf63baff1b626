"""iperf3's output, text or JSON, client's or server's: one test per file, or its intervals."""

import json
import re
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import INTERVALS, MappedTable
from tsnrepro.imports.readers.row import DataRow, FileRows, Known, one_row
from tsnrepro.imports.screening import NoMeasurementError, error_in
from tsnrepro.imports.units import factor, scaled
from tsnrepro.tools import iperf3

_N = r"\d{1,18}"
_LINE = re.compile(
    r"^\[ *(?P<stream>\d{1,6}|SUM)\] +"
    r"(?P<begin>\d{1,9}\.\d{1,9})- *(?P<end>\d{1,9}\.\d{1,9}) +sec +"
    r"[\d.]{1,12} \w{0,9}Bytes +(?P<rate>\d{1,12}(?:\.\d{1,9})?) "
    r"(?P<unit>\w{0,9}(?:bits|Bytes)/sec)(?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_DATAGRAMS = re.compile(rf" +[\d.]{{1,20}} ms +(?P<lost>-?{_N})/(?P<total>{_N}) \([^)]*\)")
_PACKETS = re.compile(rf" +({_N})\s*$")
_SENT = re.compile(rf"^\[ *\d{{1,6}}\] Sent ({_N}) datagrams", re.MULTILINE)
_OUT_OF_ORDER = re.compile(
    rf"^\[ *(?:\d{{1,6}}|SUM)\][^\n]*?\b({_N}) datagrams received out-of-order", re.MULTILINE
)
_TEST = re.compile(rf"protocol: (UDP|TCP), {_N} streams?, ({_N}) byte blocks")
_DURATION = re.compile(rf"\bomitting {_N} seconds?, ({_N}) second test")
_TARGET = re.compile(rf"Target Bitrate: ({_N})")
_BEGINNING = re.compile(r"^(?:Connecting to host|Accepted connection from)", re.MULTILINE)
_SERVER_PART = "\nServer output:"
# The last interval of a test may be shorter than the others.
_MIN_INTERVAL = 0.5


def read(file: SourceFile, table: MappedTable) -> FileRows:
    """Return the file's one test as a row, or each interval that it reports.

    Raises
    ------
    NoMeasurementError
        It is an error or usage message, was interrupted, has several tests or a test of the other
        protocol; or its intervals are those of a TCP sender, which do not show what arrived.
    """
    text, wants_udp = file.tool_output(), table.experiment == "loss"
    start = text.find("{")
    is_json = start >= 0 and text[start + 1 : start + 100].lstrip()[:1] in ('"', "}")
    whole = _json if is_json else _text
    parts = _json_intervals if is_json else _text_intervals
    try:
        if table.rows != INTERVALS:
            return one_row(whole(text[start:] if is_json else text, wants_udp))
        return _of_intervals(parts(text[start:] if is_json else text, wants_udp), wants_udp)
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise NoMeasurementError(f"iperf3's output lacks {error}"[:200]) from error


def _of_intervals(intervals: list[Known], wants_udp: bool) -> FileRows:
    if not intervals:
        raise NoMeasurementError("iperf3 reported no intervals")
    if not wants_udp and "goodput_mbps" not in intervals[0]:
        raise NoMeasurementError(
            "its intervals are the sender's and do not show what arrived",
            "",
            "Use the server's output, or the client's with --get-server-output",
        )
    found = FileRows([])
    usual = max(float(known["duration_s"]) for known in intervals)
    for number, known in enumerate(intervals, start=1):
        location = f"interval {number}"
        if float(known["duration_s"]) < _MIN_INTERVAL * usual:
            found.skipped.append((location, "it is shorter than half of the others"))
            found.skipped_rows += 1
        else:
            found.rows.append(DataRow(location, dict(known), known))
    return found


# --- JSON -------------------------------------------------------------------------------------


def _document(text: str) -> dict[str, Any]:
    try:
        document, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise NoMeasurementError(f"iperf3's JSON is broken: {error}"[:200]) from error
    if "{" in text[end:]:
        raise NoMeasurementError("it has several tests", "", "Store one test per file")
    if "error" in document:
        raise NoMeasurementError(f"iperf3 reports an error: {document['error']}"[:200])
    return document


def _document_parameters(document: dict[str, Any], wants_udp: bool) -> Known:
    """Return the parameters of the test in a document, after checking its protocol."""
    start, totals = document.get("start", {}), document.get("end", {})
    test = start.get("test_start", {})
    protocol = test.get("protocol", "UDP" if "lost_packets" in totals.get("sum", {}) else "TCP")
    _check_protocol(protocol, wants_udp)
    known: Known = {"duration_s": test["duration"]} if test.get("duration") else {}
    if wants_udp and (target := test.get("target_bitrate") or start.get("target_bitrate")):
        known["target_mbps"] = target / 1e6
    if wants_udp and test.get("blksize"):
        known["payload_bytes"] = test["blksize"]
    return known


def _check_protocol(protocol: str, wants_udp: bool) -> None:
    if protocol.upper() != ("UDP" if wants_udp else "TCP"):
        experiment, wanted = ("loss", "UDP") if wants_udp else ("tcp", "TCP")
        raise NoMeasurementError(f"it is a {protocol} test, and {experiment} needs {wanted}"[:200])


def _json(text: str, wants_udp: bool) -> Known:
    document = _document(text)
    known, totals = _document_parameters(document, wants_udp), document.get("end", {})
    if not wants_udp:
        return known | _tcp_totals(totals)
    if "server_output_json" in document:
        return known | _complete_udp(text)
    return known | _udp_totals(totals, known.get("payload_bytes"))


def _complete_udp(text: str) -> Known:
    try:
        result = iperf3.parse_udp(text)
    except ToolError as error:
        raise NoMeasurementError(error.what) from error
    names = ("sent", "received", "lost", "out_of_order", "payload_bytes", "send_seconds")
    return {name: getattr(result, name) for name in (*names, "offered_mbps", "delivered_mbps")}


def _udp_totals(totals: dict[str, Any], payload: Any) -> Known:
    """Read the client's totals, which include those of the server at the end of the test."""
    sent = totals.get("sum_sent", totals.get("sum", {}))
    arrived = totals.get("sum_received", totals.get("sum", {}))
    if not sent.get("packets") or not sent.get("seconds"):
        raise NoMeasurementError("iperf3 counted no datagram")
    known: Known = {
        "sent": sent["packets"],
        "send_seconds": sent["seconds"],
        "offered_mbps": sent["bytes"] * 8 / sent["seconds"] / 1e6,
    }
    if "sum_received" in totals and payload:
        known["received"] = arrived["bytes"] // payload
        known["delivered_mbps"] = arrived["bytes"] * 8 / sent["seconds"] / 1e6
    elif "lost_packets" in arrived:
        known["received"] = sent["packets"] - arrived["lost_packets"]
    return known


def _tcp_totals(totals: dict[str, Any]) -> Known:
    sent, arrived = totals.get("sum_sent", {}), totals.get("sum_received", {})
    if not arrived.get("bits_per_second"):
        raise NoMeasurementError("iperf3 measured no goodput: nothing was received")
    known: Known = {
        "goodput_mbps": arrived["bits_per_second"] / 1e6,
        "seconds": arrived["seconds"],
    }
    if sent.get("bits_per_second"):
        known["sent_mbps"] = sent["bits_per_second"] / 1e6
    # Only Linux reports retransmitted segments.
    if sent.get("retransmits") is not None:
        known["retransmits"] = sent["retransmits"]
    return known


def _json_intervals(text: str, wants_udp: bool) -> list[Known]:
    document = _document(text)
    parameters = _document_parameters(document, wants_udp)
    reported = document.get("server_output_json", document).get("intervals", [])
    found = []
    for part in (interval["sum"] for interval in reported):
        if part.get("omitted"):
            continue
        known = parameters | {"duration_s": part["seconds"]}
        if not part["seconds"] > 0:
            continue
        rate, is_sender = part["bits_per_second"] / 1e6, part.get("sender", True)
        if wants_udp:
            known |= {"offered_mbps" if is_sender else "delivered_mbps": rate}
            if is_sender:
                known["sent"] = part["packets"]
            elif part["packets"]:
                known["loss_percent"] = 100 * part["lost_packets"] / part["packets"]
        else:
            known |= {
                "seconds": part["seconds"],
                "sent_mbps" if is_sender else "goodput_mbps": rate,
            }
        found.append(known)
    return found


# --- text -------------------------------------------------------------------------------------


def _text(text: str, wants_udp: bool) -> Known:
    text = text.split(_SERVER_PART, 1)[0]
    if len(_BEGINNING.findall(text)) > 1:
        raise NoMeasurementError("it has several tests", "", "Store one test per file")
    sender, receiver = _totals(text)
    lines = [line for line in (sender, receiver) if line is not None]
    if not lines:
        reason = error_in(text) or "iperf3 printed no totals: it did not complete"
        raise NoMeasurementError(reason)
    has_datagrams = any(_DATAGRAMS.match(line["rest"]) for line in lines)
    _check_protocol("UDP" if has_datagrams else "TCP", wants_udp)
    of_lines = _udp_lines(text, sender, receiver) if wants_udp else _tcp_lines(sender, receiver)
    return _parameters(text) | of_lines


def _lines(text: str) -> list[re.Match]:
    """Return the lines with rates; those over all streams if there are several."""
    lines = list(_LINE.finditer(text))
    return [line for line in lines if line["stream"] == "SUM"] or lines


def _end_of(line: re.Match) -> str:
    """Return whether a total is that of the ``sender`` or ``receiver``; empty for an interval."""
    last = line["rest"].split()[-1:]
    return last[0] if last and last[0] in ("sender", "receiver") else ""


def _totals(text: str) -> tuple[re.Match | None, re.Match | None]:
    """Return the lines of the sender's and the receiver's totals, over all streams."""
    lines = _lines(text)
    of = {_end_of(line): line for line in lines}
    sender, receiver = of.get("sender"), of.get("receiver")
    if sender is None and receiver is None and lines and _SENT.search(text):
        sender = lines[-1]  # before version 3.2 there was one line for both ends
    return sender, receiver


def _parameters(text: str) -> Known:
    """Return the parameters of the test, which ``--verbose`` prints."""
    known: Known = {}
    if (test := _TEST.search(text)) and test[1] == "UDP":
        known["payload_bytes"] = int(test[2])
    if duration := _DURATION.search(text):
        known["duration_s"] = int(duration[1])
    if (target := _TARGET.search(text)) and int(target[1]):
        known["target_mbps"] = int(target[1]) / 1e6
    return known


def _rate(line: re.Match) -> float:
    try:
        return scaled(float(line["rate"]), factor("rate", line["unit"], "Mb/s"))
    except ValueError as error:
        raise NoMeasurementError(f"iperf3 printed no rate: {error}") from error


def _seconds(line: re.Match) -> float:
    return round(float(line["end"]) - float(line["begin"]), 9)


def _tcp_lines(sender: re.Match | None, receiver: re.Match | None) -> Known:
    if receiver is None or not _rate(receiver):
        raise NoMeasurementError("iperf3 measured no goodput: nothing was received")
    known: Known = {"goodput_mbps": _rate(receiver), "seconds": _seconds(receiver)}
    if sender is not None:
        known["sent_mbps"] = _rate(sender)
        first = sender["rest"].split()[0]
        if first.isdecimal():
            known["retransmits"] = int(first)
    return known


def _udp_lines(text: str, sender: re.Match | None, receiver: re.Match | None) -> Known:
    known: Known = {}
    if sender is not None:
        counted = _DATAGRAMS.match(sender["rest"])
        count = _SENT.search(text)
        known["sent"] = int(count[1]) if count else int(counted["total"]) if counted else 0
        known["send_seconds"], known["offered_mbps"] = _seconds(sender), _rate(sender)
        if receiver is None and counted:
            known["received"] = int(known["sent"]) - int(counted["lost"])
    if receiver is not None and (counted := _DATAGRAMS.match(receiver["rest"])):
        total, lost = int(counted["total"]), int(counted["lost"])
        known["delivered_mbps"] = _rate(receiver)
        known["received"] = total - lost
        # The server alone does not know how many were sent after the last one that arrived.
        if sender is None and total:
            known["loss_percent"] = 100 * lost / total
    if not known.get("sent") and not known.get("received"):
        raise NoMeasurementError("iperf3 counted no datagram")
    if late := _OUT_OF_ORDER.search(text):
        known["out_of_order"] = int(late[1])
    return known


def _text_intervals(text: str, wants_udp: bool) -> list[Known]:
    parameters = _parameters(text)
    client, _, server = text.partition(_SERVER_PART)
    is_server = bool(server) or "\nAccepted connection from" in f"\n{client}"
    found = []
    for line in _lines(server or client):
        if _end_of(line) or "(omitted)" in line["rest"] or not _seconds(line) > 0:
            continue
        known = parameters | {"duration_s": _seconds(line)}
        counted, packets = _DATAGRAMS.match(line["rest"]), _PACKETS.match(line["rest"])
        _check_protocol("UDP" if counted or (packets and not is_server) else "TCP", wants_udp)
        if counted:
            known["delivered_mbps"] = _rate(line)
            if int(counted["total"]):
                known["loss_percent"] = 100 * int(counted["lost"]) / int(counted["total"])
        elif packets and wants_udp:
            known |= {"offered_mbps": _rate(line), "sent": int(packets[1])}
        else:
            known["goodput_mbps" if is_server else "sent_mbps"] = _rate(line)
            known["seconds"] = _seconds(line)
        found.append(known)
    return found
