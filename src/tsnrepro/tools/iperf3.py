"""iperf3(1): UDP tests at a rate and payload, TCP tests without a rate limit."""

import json
import re
from dataclasses import dataclass
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.tools.parsing import amount, count, readable_json

PORT = 5201
JSON_OPENING = re.compile(r'\{\s{0,99}["}]')
"""Where a JSON document may begin in an output."""
SEVERAL_TESTS = ("it has several tests", "", "Store one test per file")
"""Arguments of an error about an output with several tests."""
BOTH_DIRECTIONS = (
    "it is a test in both directions (--bidir), whose streams share the hosts and the links"
)
_TERMINATED = "the server has terminated"
# A client's first UDP packet has 4 bytes of payload; every measured datagram has at least 16.
MIN_UDP_PAYLOAD_BYTES = 16


@dataclass(frozen=True)
class Iperf3UdpResult:
    """Result of a UDP test. Counts are of datagrams, rates of UDP payload in Mb/s."""

    sent: int
    received: int
    out_of_order: int
    payload_bytes: int
    send_seconds: float
    jitter_ms: float | None
    """``None`` if it is not measured."""
    offered_mbps: float
    """Payload that the talker's socket accepted, over the time of sending."""
    delivered_mbps: float

    @property
    def lost(self) -> int:
        """Datagrams that the listener's program did not read."""
        return self.sent - self.received


@dataclass(frozen=True)
class Iperf3TcpResult:
    """Result of a TCP test; ``goodput_mbps`` is of the payload that the listener read."""

    goodput_mbps: float
    sent_mbps: float
    retransmits: int
    seconds: float
    largest_window_bytes: int | None = None
    """Largest congestion window of the sender; ``None`` if it is not reported."""


def server() -> list[str]:
    """Return the command of a server for a single test."""
    return ["iperf3", "--server", "--one-off", "--json", "--port", str(PORT)]


def udp_client(
    address: str,
    payload_bytes: int,
    rate_mbps: float,
    duration_s: float,
    *,
    window_bytes: int | None = None,
) -> list[str]:
    """Return the command that sends datagrams of ``payload_bytes`` at ``rate_mbps`` of payload.

    ``window_bytes`` is SO_SNDBUF of the sending and SO_RCVBUF of the receiving socket. The kernel
    reserves twice as much, but at most twice net.core.wmem_max and rmem_max. The rate is at least
    1 b/s, since 0 is no limit. iperf3 supports only whole seconds: for another duration it gets a
    number of datagrams, and takes longer if it cannot send them in time.
    """
    length = ["--time", f"{duration_s:g}"]
    if duration_s != int(duration_s):
        datagrams = max(1, round(rate_mbps * 1e6 * duration_s / (8 * payload_bytes)))
        length = ["--blockcount", str(datagrams)]
    window = ["--window", str(window_bytes)] if window_bytes else []
    return [
        *("iperf3", "--client", address, "--port", str(PORT), "--udp"),
        *("--length", str(payload_bytes), "--bitrate", f"{max(1, round(rate_mbps * 1e6))}"),
        *(*length, "--json", "--get-server-output"),
        *window,
    ]


def tcp_client(address: str, duration_s: float) -> list[str]:
    """Return the command of a TCP stream without a rate limit.

    The congestion control is set, because a machine's default may differ from the documents'.
    """
    return [
        *("iperf3", "--client", address, "--port", str(PORT), "--congestion", "cubic"),
        *("--time", f"{duration_s:g}", "--json", "--get-server-output"),
    ]


def failed(text: str) -> bool:
    """Return whether a client's output reports a failure, which may have exit status 0."""
    try:
        document(text)
    except ToolError:
        return True
    return False


def document(text: str) -> dict[str, Any]:
    """Return the JSON document of the one test in an output.

    Text around it is skipped. The events of ``--json-stream`` (3.17) are joined to a document, and
    one that is printed twice, as by some builds of 3.16 and 3.17, is returned once.

    Raises ToolError if there is no document, or a damaged one; it reports an error, or is of
    several tests or of a test in both directions.
    """
    found = _documents(text)
    if not found:
        raise ToolError(f"iperf3 printed no JSON: {text.strip()[:300] or 'nothing'}")
    if "event" in found[0] and "data" in found[0]:
        found = [_of_events(found)]
    # A server that is stopped between two tests reports that in a document of its own.
    found = [one for one in found if _TERMINATED not in str(one.get("error"))] or found
    is_of_iperf3 = {"start", "intervals", "end", "error"} & found[0].keys()
    if is_of_iperf3 and any(one != found[0] for one in found[1:]):
        raise ToolError(*SEVERAL_TESTS)
    if "error" in found[0]:
        raise ToolError(reported(str(found[0]["error"])))
    if _is_bidirectional(found[0]):
        raise ToolError(BOTH_DIRECTIONS)
    return found[0]


def _is_bidirectional(printed: dict[str, Any]) -> bool:
    start, end = printed.get("start"), printed.get("end")
    test = start.get("test_start") if isinstance(start, dict) else None
    return (isinstance(end, dict) and any("bidir" in name for name in end)) or (
        isinstance(test, dict) and bool(test.get("bidir"))
    )


def reported(message: str) -> str:
    """Return why a test that ended in an error, as iperf3 prints it, is no measurement."""
    text = message.strip()[:500]
    if "interrupt" in text or "terminated" in text:
        return f"iperf3 was interrupted: {text}"
    return f"iperf3 reports an error: {text}"


def _documents(text: str) -> list[dict[str, Any]]:
    decoder, found, end = json.JSONDecoder(object_pairs_hook=_record), [], 0
    text = readable_json(text)
    try:
        while opening := JSON_OPENING.search(text, end):
            one, end = decoder.raw_decode(text, opening.start())
            found.append(one)
    except (ValueError, RecursionError) as error:  # also of an integer of thousands of digits
        raise ToolError(
            f"iperf3 printed damaged JSON, broken off or mixed with other output: {error}"[:300]
        ) from error
    return found


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; versions 3.7 to 3.10 print the sums of both directions by one name."""
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        if any(name.startswith("sum") and names.count(name) > 1 for name in record):
            raise ToolError(BOTH_DIRECTIONS)
    return record


def _of_events(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the document that the events of ``--json-stream`` make."""
    joined: dict[str, Any] = {"intervals": []}
    for before, one in zip([None, *events], events, strict=False):
        name, data = one.get("event"), one.get("data")
        if one == before:
            continue
        if name == "interval":
            joined["intervals"].append(data)
        elif name == "start" and "start" in joined:
            raise ToolError(*SEVERAL_TESTS)
        elif name is not None:
            joined[name] = data
    if "end" not in joined and "error" not in joined:
        raise ToolError("iperf3 was interrupted: its events have no end")
    return joined


def parse_udp(text: str) -> Iperf3UdpResult:
    """Parse the client's JSON of a UDP test, which includes the server's report.

    Raises ToolError if the output is an error, or not of a UDP test.
    """
    return udp_result(document(text))


def udp_result(printed: dict[str, Any]) -> Iperf3UdpResult:
    """Return the result of a UDP test by the client's JSON document.

    Raises ToolError if the document is not of a UDP test.
    """
    try:
        sent, received = printed["end"]["sum_sent"], printed["end"]["sum_received"]
        payload = printed["start"]["test_start"]["blksize"]
        server_end = printed["server_output_json"]["end"]
        seconds = amount(sent["seconds"], "iperf3's time of sending", positive=True)
        received_bytes = count(received["bytes"], "iperf3's count of bytes received")
        reordered = [s["udp"].get("out_of_order", 0) for s in server_end["streams"]]
        result = Iperf3UdpResult(
            sent=count(sent["packets"], "iperf3's count of datagrams sent"),
            received=received_bytes // count(payload, "iperf3's payload"),
            out_of_order=sum(count(n, "iperf3's count out of order") for n in reordered),
            payload_bytes=payload,
            send_seconds=seconds,
            jitter_ms=amount(received["jitter_ms"], "iperf3's jitter"),
            offered_mbps=sent["packets"] * payload * 8 / seconds / 1e6,
            delivered_mbps=received_bytes * 8 / seconds / 1e6,
        )
    except (KeyError, ZeroDivisionError, TypeError, ValueError, AttributeError) as error:
        raise ToolError(f"iperf3's JSON lacks {str(error)[:200]} of a UDP test") from error
    if not 0 <= result.received <= result.sent or not result.sent:
        raise ToolError(f"iperf3 counts {result.received} received of {result.sent} sent")
    return result


def parse_tcp(text: str) -> Iperf3TcpResult:
    """Parse the client's JSON of a TCP test.

    Raises ToolError if the output is an error, or not of a TCP test.
    """
    printed = document(text)
    try:
        end = printed["end"]
        return Iperf3TcpResult(
            goodput_mbps=_positive(end["sum_received"], "bits_per_second") / 1e6,
            sent_mbps=_positive(end["sum_sent"], "bits_per_second") / 1e6,
            retransmits=count(end["sum_sent"]["retransmits"], "iperf3's retransmits"),
            seconds=_positive(end["sum_received"], "seconds"),
            largest_window_bytes=_largest_window(end["streams"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ToolError(f"iperf3's JSON lacks {str(error)[:200]} of a TCP test") from error


def _largest_window(streams: list[dict]) -> int | None:
    """Return the sum of the streams' largest congestion windows, which some kernels lack."""
    windows = [stream["sender"].get("max_snd_cwnd") for stream in streams]
    if not windows or None in windows:
        return None
    return sum(count(window, "iperf3's largest window") for window in windows)


def _positive(sums: dict, name: str) -> float:
    return amount(sums[name], f"iperf3's {name}", positive=True)
