"""iperf3: UDP at a rate and payload, TCP as fast as it goes."""

import json
from dataclasses import dataclass

from tsnrepro.errors import ToolError

PORT = 5201
# A client's first UDP packet has 4 bytes of payload; every measured datagram has at least 16.
MIN_UDP_PAYLOAD_BYTES = 16


@dataclass(frozen=True)
class UdpResult:
    """One UDP test. Counts are datagrams, rates are UDP payload in Mb/s."""

    sent: int
    received: int
    out_of_order: int
    payload_bytes: int
    send_seconds: float
    jitter_ms: float | None
    """``None`` where it is not measured."""
    offered_mbps: float
    """What the talker's socket took in, over the time it sent."""
    delivered_mbps: float

    @property
    def lost(self) -> int:
        """Datagrams that the listener's program never read."""
        return self.sent - self.received


@dataclass(frozen=True)
class TcpResult:
    """One TCP test; ``goodput_mbps`` is payload that the listener read."""

    goodput_mbps: float
    sent_mbps: float
    retransmits: int
    seconds: float


def server() -> list[str]:
    """Return the command of a server that serves one test and ends."""
    return ["iperf3", "--server", "--one-off", "--json", "--port", str(PORT)]


def udp_client(address: str, payload_bytes: int, rate_mbps: float, duration_s: int) -> list[str]:
    """Return the command that sends ``payload_bytes`` datagrams at ``rate_mbps`` of payload."""
    return [
        *("iperf3", "--client", address, "--port", str(PORT), "--udp"),
        *("--length", str(payload_bytes), "--bitrate", f"{round(rate_mbps * 1e6)}"),
        *("--time", str(duration_s), "--json", "--get-server-output"),
    ]


def tcp_client(address: str, duration_s: int) -> list[str]:
    """Return the command of one TCP stream without a rate limit.

    The congestion control is named, because a machine's default may be another than the
    documents' hosts had.
    """
    return [
        *("iperf3", "--client", address, "--port", str(PORT), "--congestion", "cubic"),
        *("--time", str(duration_s), "--json", "--get-server-output"),
    ]


def failed(text: str) -> bool:
    """Tell whether a client's output reports a failure; its exit status may be zero then."""
    try:
        _document(text)
    except ToolError:
        return True
    return False


def _document(text: str) -> dict:
    # A warning may stand before the JSON.
    start = text.find("{")
    try:
        document = json.loads(text[start:]) if start >= 0 else None
    except json.JSONDecodeError as error:
        raise ToolError(f"iperf3 printed broken JSON: {error}") from error
    if document is None:
        raise ToolError(f"iperf3 printed no JSON but: {text.strip()[:300] or 'nothing'}")
    if "error" in document:
        raise ToolError(f"iperf3 reports an error: {document['error']}")
    return document


def parse_udp(text: str) -> UdpResult:
    """Read the client's JSON, the server's report of what arrived included.

    Raises
    ------
    ToolError
        The output is an error, or no measurement of a UDP test.
    """
    document = _document(text)
    try:
        sent, received = document["end"]["sum_sent"], document["end"]["sum_received"]
        payload = document["start"]["test_start"]["blksize"]
        server_end = document["server_output_json"]["end"]
        result = UdpResult(
            sent=sent["packets"],
            received=received["bytes"] // payload,
            out_of_order=sum(s["udp"].get("out_of_order", 0) for s in server_end["streams"]),
            payload_bytes=payload,
            send_seconds=sent["seconds"],
            jitter_ms=float(received["jitter_ms"]),
            offered_mbps=sent["packets"] * payload * 8 / sent["seconds"] / 1e6,
            delivered_mbps=received["bytes"] * 8 / sent["seconds"] / 1e6,
        )
    except (KeyError, ZeroDivisionError, TypeError, ValueError, AttributeError) as error:
        raise ToolError(f"iperf3's JSON lacks {error} of a UDP test") from error
    if not 0 <= result.received <= result.sent or not result.sent:
        raise ToolError(f"iperf3 counts {result.received} received of {result.sent} sent")
    return result


def parse_tcp(text: str) -> TcpResult:
    """Read the client's JSON of a TCP test.

    Raises
    ------
    ToolError
        The output is an error, or no measurement of a TCP test.
    """
    document = _document(text)
    try:
        end = document["end"]
        return TcpResult(
            goodput_mbps=end["sum_received"]["bits_per_second"] / 1e6,
            sent_mbps=end["sum_sent"]["bits_per_second"] / 1e6,
            retransmits=end["sum_sent"]["retransmits"],
            seconds=end["sum_received"]["seconds"],
        )
    except (KeyError, TypeError) as error:
        raise ToolError(f"iperf3's JSON lacks {error} of a TCP test") from error
