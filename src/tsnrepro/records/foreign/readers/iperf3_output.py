"""iperf3's output, text or JSON, client's or server's: one test a file."""

import json
import re
from typing import Any

from tsnrepro.errors import ToolError
from tsnrepro.records.foreign.readers.row import Known, Reading, Row
from tsnrepro.records.foreign.refusal import NoMeasurementError, complaint
from tsnrepro.records.foreign.units import factor, scaled
from tsnrepro.tools import iperf3

_LINE = re.compile(
    r"^\[\s*(?P<stream>\d+|SUM)\]\s+(?P<begin>[\d.]+)-\s*(?P<end>[\d.]+)\s+sec\s+[\d.]+ \w*Bytes\s+"
    r"(?P<rate>[\d.]+) (?P<unit>\w*(?:bits|Bytes)/sec)(?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_DATAGRAMS = re.compile(r"\s+[\d.]+ ms\s+(?P<lost>-?\d+)/(?P<total>\d+) \([^)]*\)")
_SENT = re.compile(r"^\[\s*\d+\] Sent (\d+) datagrams", re.MULTILINE)
_OUT_OF_ORDER = re.compile(r"^\[\s*(?:\d+|SUM)\].*?(\d+) datagrams received out-of-order", re.M)
_TEST = re.compile(r"protocol: (?P<protocol>UDP|TCP).*?, (?P<payload>\d+) byte blocks.*?, ")
_DURATION = re.compile(r"Starting Test:.*?, (\d+) second test")
_TARGET = re.compile(r"Target Bitrate: (\d+)")
_BEGINNING = re.compile(r"^(?:Connecting to host|Accepted connection from)", re.MULTILINE)
_SERVER_PART = "\nServer output:"


def read(text: str, experiment: str) -> Reading:
    """Return the file's one test as a row of our fields.

    Parameters
    ----------
    text
        What iperf3 printed.
    experiment
        ``sweep`` for a UDP test, ``tcp`` for a TCP test.

    Raises
    ------
    NoMeasurementError
        It is an error or a usage text, was interrupted, holds several tests, or a test of the
        other protocol.
    """
    start = text.find("{")
    is_json = start >= 0 and text[start + 1 : start + 100].lstrip()[:1] in ('"', "}")
    if not is_json:
        known = _text(text, experiment)
    else:
        try:
            known = _json(text[start:], experiment)
        except (KeyError, TypeError, AttributeError) as error:
            raise NoMeasurementError(f"iperf3's JSON lacks {error}") from error
    return Reading([Row("", dict(known), known)])


# --- JSON -------------------------------------------------------------------------------------


def _json(text: str, experiment: str) -> Known:
    try:
        document, end = json.JSONDecoder().raw_decode(text)
    except ValueError as error:
        raise NoMeasurementError(f"iperf3's JSON is broken: {error}") from error
    if "{" in text[end:]:
        raise NoMeasurementError("it holds several tests", "", "Store one test a file")
    if "error" in document:
        raise NoMeasurementError(f"iperf3 reports an error: {document['error']}")
    test, totals = document.get("start", {}).get("test_start", {}), document.get("end", {})
    protocol = test.get("protocol", "UDP" if "lost_packets" in totals.get("sum", {}) else "TCP")
    _check_protocol(protocol, experiment)
    known: Known = {"duration_s": test["duration"]} if test.get("duration") else {}
    if experiment == "tcp":
        return known | _tcp_totals(totals)
    if target := test.get("target_bitrate") or document.get("start", {}).get("target_bitrate"):
        known["target_mbps"] = target / 1e6
    if "server_output_json" in document:
        return known | _complete_udp(text)
    return known | _udp_totals(totals, test.get("blksize"))


def _check_protocol(protocol: str, experiment: str) -> None:
    wanted = "TCP" if experiment == "tcp" else "UDP"
    if protocol.upper() != wanted:
        raise NoMeasurementError(f"it is a {protocol} test, and {experiment} needs {wanted}")


def _complete_udp(text: str) -> Known:
    try:
        result = iperf3.parse_udp(text)
    except ToolError as error:
        raise NoMeasurementError(error.what) from error
    names = ("sent", "received", "lost", "out_of_order", "payload_bytes", "send_seconds")
    return {name: getattr(result, name) for name in (*names, "offered_mbps", "delivered_mbps")}


def _udp_totals(totals: dict[str, Any], payload: int | None) -> Known:
    """Read the client's own totals; the server's part of them came at the end of the test."""
    sent = totals.get("sum_sent", totals.get("sum", {}))
    arrived = totals.get("sum_received", totals.get("sum", {}))
    if not sent.get("packets") or not sent.get("seconds"):
        raise NoMeasurementError("iperf3 counted no datagram")
    known: Known = {
        "sent": sent["packets"],
        "send_seconds": sent["seconds"],
        "offered_mbps": sent["bytes"] * 8 / sent["seconds"] / 1e6,
    }
    if payload:
        known["payload_bytes"] = payload
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
    # Only Linux tells how many segments were sent again.
    if sent.get("retransmits") is not None:
        known["retransmits"] = sent["retransmits"]
    return known


# --- text -------------------------------------------------------------------------------------


def _text(text: str, experiment: str) -> Known:
    text = text.split(_SERVER_PART, 1)[0]
    if len(_BEGINNING.findall(text)) > 1:
        raise NoMeasurementError("it holds several tests", "", "Store one test a file")
    sender, receiver = _totals(text)
    if sender is None and receiver is None:
        reason = complaint(text) or "iperf3 printed no totals: it did not come to its end"
        raise NoMeasurementError(reason)
    lines = [line for line in (sender, receiver) if line is not None]
    has_datagrams = any(_DATAGRAMS.match(line["rest"]) for line in lines)
    _check_protocol("UDP" if has_datagrams else "TCP", experiment)
    known = _stated(text)
    if experiment == "tcp":
        return known | _tcp_lines(sender, receiver)
    return known | _udp_lines(text, sender, receiver)


def _totals(text: str) -> tuple[re.Match | None, re.Match | None]:
    """Return the sender's and the receiver's line of the whole test, over all streams."""
    sender = receiver = None
    lines = list(_LINE.finditer(text))
    if any(line["stream"] == "SUM" for line in lines):
        lines = [line for line in lines if line["stream"] == "SUM"]
    for line in lines:
        words = line["rest"].split()
        if words[-1:] == ["sender"]:
            sender = line
        elif words[-1:] == ["receiver"]:
            receiver = line
    if sender is None and receiver is None and lines and _SENT.search(text):
        sender = lines[-1]  # before version 3.2 one line stood for both ends
    return sender, receiver


def _stated(text: str) -> Known:
    """Return what only ``--verbose`` prints."""
    known: Known = {}
    if (test := _TEST.search(text)) and test["protocol"] == "UDP":
        known["payload_bytes"] = int(test["payload"])
    if duration := _DURATION.search(text):
        known["duration_s"] = int(duration[1])
    if (target := _TARGET.search(text)) and int(target[1]):
        known["target_mbps"] = int(target[1]) / 1e6
    return known


def _rate(line: re.Match) -> float:
    return scaled(float(line["rate"]), factor("rate", line["unit"], "Mb/s"))


def _seconds(line: re.Match) -> float:
    return float(line["end"]) - float(line["begin"])


def _tcp_lines(sender: re.Match | None, receiver: re.Match | None) -> Known:
    if receiver is None or not _rate(receiver):
        raise NoMeasurementError("iperf3 measured no goodput: nothing was received")
    known: Known = {"goodput_mbps": _rate(receiver), "seconds": _seconds(receiver)}
    if sender is not None:
        known["sent_mbps"] = _rate(sender)
        words = sender["rest"].split()
        if words[0].isdigit():
            known["retransmits"] = int(words[0])
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
        # The server alone does not know how many were sent after the last one that came.
        if sender is None and total:
            known["loss_percent"] = 100 * lost / total
    if not known.get("sent") and not known.get("received"):
        raise NoMeasurementError("iperf3 counted no datagram")
    if late := _OUT_OF_ORDER.search(text):
        known["out_of_order"] = int(late[1])
    return known
