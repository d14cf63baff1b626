"""iperf3(1): UDP tests at a rate and payload, TCP tests without a rate limit."""

from dataclasses import dataclass

from tsnrepro.common.errors import ToolError
from tsnrepro.tools.parsing import amount, count, json_object

PORT = 5201
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
        _document(text)
    except ToolError:
        return True
    return False


def _document(text: str) -> dict:
    document = json_object(text, "iperf3")
    if "error" in document:
        raise ToolError(f"iperf3 reports an error: {str(document['error'])[:500]}")
    return document


def parse_udp(text: str) -> Iperf3UdpResult:
    """Parse the client's JSON of a UDP test, which includes the server's report.

    Raises
    ------
    ToolError
        The output is an error, or not of a UDP test.
    """
    return udp_result(_document(text))


def udp_result(document: dict) -> Iperf3UdpResult:
    """Return the result of a UDP test by the client's JSON document.

    Raises
    ------
    ToolError
        The document is not of a UDP test.
    """
    try:
        sent, received = document["end"]["sum_sent"], document["end"]["sum_received"]
        payload = document["start"]["test_start"]["blksize"]
        server_end = document["server_output_json"]["end"]
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

    Raises
    ------
    ToolError
        The output is an error, or not of a TCP test.
    """
    document = _document(text)
    try:
        end = document["end"]
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
