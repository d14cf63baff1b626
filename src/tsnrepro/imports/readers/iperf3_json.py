"""iperf3's JSON: a document per test, or with ``--json-stream`` an event per line."""

import re
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.imports.readers import iperf3_text
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
from tsnrepro.imports.screening import NoMeasurementError, check_not_csit
from tsnrepro.tools import iperf3

_FIRST_TO_COUNT_SENT = 3
# Their one count of datagrams is the receiver's.
_COUNTS_RECEIVED = re.compile(r"iperf 3\.[01]\b")


def begins(text: str) -> int | None:
    """Return where a text's first JSON document begins, or None."""
    start = text.find("{")
    return start if start >= 0 and iperf3.JSON_OPENING.match(text, start) else None


def totals(text: str, wants_udp: bool) -> Known:
    """Return the fields that a test's totals determine.

    Raises
    ------
    NoMeasurementError
        As :func:`tsnrepro.imports.readers.iperf3.read`.
    """
    document = _document(text)
    known, end = _parameters(document, wants_udp), document.get("end", {})
    if wants_udp:
        return known | _udp(document, end)
    if _is_server(document) and _sends(document):
        raise NoMeasurementError(ONLY_SENT)
    return known | _tcp(end)


def intervals(text: str, wants_udp: bool) -> list[Known]:
    """Return the fields of each interval.

    Raises
    ------
    NoMeasurementError
        As :func:`tsnrepro.imports.readers.iperf3.read`.
    """
    document = _document(text)
    parameters = _parameters(document, wants_udp)
    if _sends(document):
        document = document.get("server_output_json", document)
    return [
        parameters | _interval(part, wants_udp, _sends(document))
        for part in (interval["sum"] for interval in document.get("intervals", []))
        if not part.get("omitted") and part["seconds"] > 0
    ]


def _interval(part: dict[str, Any], wants_udp: bool, sends: bool) -> Known:
    # Before version 3.7 an interval does not state whose it is.
    is_sender = part.get("sender", sends and "lost_packets" not in part)
    known: Known = {"duration_s": part["seconds"]}
    rate = part["bits_per_second"] / 1e6
    if not wants_udp:
        known["seconds"] = part["seconds"]
        known["sent_mbps" if is_sender else "goodput_mbps"] = rate
    elif is_sender:
        known |= {"offered_mbps": rate, "sent": part["packets"]}
    else:
        known["delivered_mbps"] = rate
        if part["packets"]:
            known["loss_percent"] = 100 * part["lost_packets"] / part["packets"]
    return known


# --- documents --------------------------------------------------------------------------------


def _document(text: str) -> dict[str, Any]:
    """Return the document of a file's one test, in which every part has its sums."""
    try:
        document = iperf3.document(text)
    except ToolError as error:
        raise NoMeasurementError(error.what, "", error.remedy) from error
    check_not_csit(document, "")
    if "x_values" in document:
        raise NoMeasurementError("it is a data file of flent, not an output of iperf3")
    if not {"start", "intervals", "end"} & document.keys():
        what = "it is JSON, but not iperf3's: it has no start, intervals or end"
        raise NoMeasurementError(what)
    for part in (document.get("end", {}), *document.get("intervals", [])):
        _add_sums(part)
    return document


def _add_sums(part: dict[str, Any]) -> None:
    """Add the sums of a single stream, which the first versions print for several only."""
    streams = part.get("streams", [])
    if not streams or any(name.startswith("sum") for name in part):
        return
    if len(streams) > 1:
        raise NoMeasurementError(NO_SUM)
    (one,) = streams
    names = {"udp": "sum", "sender": "sum_sent", "receiver": "sum_received"}
    if "bytes" in one:
        part["sum"] = one
    part |= {names[name]: value for name, value in one.items() if isinstance(value, dict)}


def _is_server(document: dict[str, Any]) -> bool:
    start = document.get("start", {})
    if "accepted_connection" in start or "connecting_to" in start:
        return "accepted_connection" in start
    receives = document.get("end", {}).get("sum", {}).get("sender") is False
    return receives and not start.get("test_start", {}).get("reverse")


def _sends(document: dict[str, Any]) -> bool:
    """Return whether the program that printed a document sent; with ``--reverse`` a server does."""
    test = document.get("start", {}).get("test_start", {})
    return _is_server(document) == bool(test.get("reverse"))


def _parameters(document: dict[str, Any], wants_udp: bool) -> Known:
    """Return the parameters of the test in a document, after checking its protocol."""
    start, end = document.get("start", {}), document.get("end", {})
    test = start.get("test_start", {})
    protocol = test.get("protocol", "UDP" if "lost_packets" in end.get("sum", {}) else "TCP")
    check_protocol(protocol, wants_udp)
    known: Known = {"duration_s": test["duration"]} if test.get("duration") else {}
    if wants_udp and (target := test.get("target_bitrate") or start.get("target_bitrate")):
        # The target is that of each stream.
        known["target_mbps"] = target * test.get("num_streams", 1) / 1e6
    if wants_udp and test.get("blksize"):
        known["payload_bytes"] = test["blksize"]
    return known


# --- totals -----------------------------------------------------------------------------------


def _udp(document: dict[str, Any], end: dict[str, Any]) -> Known:
    """Read the totals of a UDP test.

    The client has those of both ends. Its one ``sum`` before version 3.10 has the bytes sent and
    the datagrams lost; up to version 3.1 its ``packets`` are those that the server knows of, and
    not those sent. From version 3.2 on they are those sent, and only the server's output shows how
    many it knows of.
    """
    both = end.get("sum", {})
    sent, arrived = end.get("sum_sent", both), end.get("sum_received", both)
    if _is_server(document):
        return _udp_of_server(document, arrived)
    if not (arrived.get("packets") or sent.get("packets")) or not sent.get("seconds"):
        raise NoMeasurementError("iperf3 counted no datagram")
    payload = _payload(document, sent)
    counted = UdpTotals(
        sent=_sent(document, sent, payload),
        send_seconds=sent["seconds"],
        offered_mbps=sent["bytes"] * 8 / sent["seconds"] / 1e6,
        counted=arrived.get("packets"),
        lost=arrived.get("lost_packets"),
    )
    if "sum_received" in end and payload:
        counted.received = arrived["bytes"] // payload
        counted.delivered_mbps = arrived["bytes"] * 8 / sent["seconds"] / 1e6
    elif server := document.get("server_output_json", {}).get("end", {}).get("sum"):
        counted.counted, counted.lost = server["packets"], server["lost_packets"]
    elif server := document.get("server_output_text"):
        counted.received = int(iperf3_text.totals(server, wants_udp=True)["received"])
    else:
        version = document.get("start", {}).get("version", "")
        counted.tail_unknown = not _COUNTS_RECEIVED.match(version)
    found = counted.row()
    if "server_output_json" in document and "sum_sent" in end and "sum_received" in end:
        return _complete(document)
    return found


def _complete(document: dict[str, Any]) -> Known:
    """Read a test with the server's report as one of our own."""
    try:
        result = iperf3.udp_result(document)
    except ToolError as error:
        raise NoMeasurementError(error.what) from error
    names = ("sent", "received", "lost", "out_of_order", "payload_bytes", "send_seconds")
    return {name: getattr(result, name) for name in (*names, "offered_mbps", "delivered_mbps")}


def _payload(document: dict[str, Any], sent: dict[str, Any]) -> int | None:
    """Return the payload of a datagram: as the test states it, or by the counts at the sender."""
    if payload := document.get("start", {}).get("test_start", {}).get("blksize"):
        return payload
    exact = sent.get("packets") and not sent["bytes"] % sent["packets"]
    return sent["bytes"] // sent["packets"] if exact else None


def _sent(document: dict[str, Any], sent: dict[str, Any], payload: int | None) -> int | None:
    """Return how many datagrams were sent; None if a receiver printed its own count alone."""
    by_bytes = sent["bytes"] // payload if payload and sent.get("bytes") else None
    if not _sends(document):
        return by_bytes
    if "sum_sent" in document["end"] or _minor_version(document) >= _FIRST_TO_COUNT_SENT:
        if by_bytes is not None:
            check_sum(sent["packets"], by_bytes, "the bytes sent")
        return sent["packets"]
    return (_sum_of_intervals(document) if by_bytes is None else by_bytes) or None


def _minor_version(document: dict[str, Any]) -> int:
    found = re.match(r"iperf 3\.(\d{1,4})", document.get("start", {}).get("version", ""))
    return int(found[1]) if found else 0


def _sum_of_intervals(document: dict[str, Any]) -> int:
    parts = [interval["sum"] for interval in document.get("intervals", [])]
    return sum(part["packets"] for part in parts if not part.get("omitted"))


def _udp_of_server(document: dict[str, Any], arrived: dict[str, Any]) -> Known:
    """Read a server's totals, which have no bytes before version 3.10 and never what was sent."""
    if _sends(document):
        raise NoMeasurementError(ONLY_SENT)
    counted = UdpTotals(counted=arrived["packets"], lost=arrived["lost_packets"])
    payload, seconds = _payload(document, {}), arrived["seconds"]
    if arrived.get("bytes") and payload:
        counted.received = arrived["bytes"] // payload
    if payload and counted.counted:
        received = counted.received
        received = arrived["packets"] - arrived["lost_packets"] if received is None else received
        counted.receive_seconds = seconds
        counted.delivered_mbps = received * payload * 8 / seconds / 1e6
    parts = [interval["sum"] for interval in document.get("intervals", [])]
    if are_whole([(part["start"], part["end"]) for part in parts], arrived["end"]):
        check_sum(arrived["packets"], _sum_of_intervals(document), "its intervals")
    return counted.row()


def _tcp(end: dict[str, Any]) -> Known:
    sent, arrived = end.get("sum_sent", {}), end.get("sum_received", {})
    if not arrived.get("bits_per_second"):
        raise NoMeasurementError(NO_GOODPUT)
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
