"""Checks that iperf3's text and JSON share, and the row that a UDP test's totals make."""

from collections.abc import Sequence
from dataclasses import dataclass

from tsnrepro.imports.plausibility import overflowed
from tsnrepro.imports.readers.row import Known
from tsnrepro.imports.screening import NoMeasurementError

RECEIVE_SECONDS = "receive_seconds"
"""Time that the receiver's total spans; counts are checked against it, and it is no result."""
NOTE = "note"
"""What limits the results, for the report; it is no result."""
MORE_ARRIVED = (
    "more datagrams arrived than were sent: duplicates reached the listener (no elimination), "
    "or iperf3 miscounted"
)
NO_GOODPUT = "iperf3 measured no goodput: it was interrupted, or nothing was received"
ONLY_SENT = "its totals are the sender's and do not show what arrived"
NO_SUM = "it has several streams and no sum of them"
# A counter of datagrams is off by more than this only if it overflowed or lacks streams.
_COUNTER_ERROR = 0.01
_MARGIN = 10
# The last interval may end a little before the test.
_GAP_SECONDS = 0.1


@dataclass
class UdpTotals:
    """Totals of a UDP test, over all streams; None for what the output lacks."""

    sent: int | None = None
    send_seconds: float | None = None
    offered_mbps: float | None = None
    counted: int | None = None
    """Datagrams up to the last one that the receiver knows of."""
    lost: int | None = None
    """Those of them that did not arrive, as the receiver reports it."""
    received: int | None = None
    """By the bytes that arrived; by ``counted`` and ``lost`` if these are unknown."""
    receive_seconds: float | None = None
    delivered_mbps: float | None = None
    tail_unknown: bool = False
    """Whether ``counted`` may be the sender's, with what was lost behind the last arrival."""

    def row(self) -> Known:
        """Return the fields that the totals determine.

        Raises
        ------
        NoMeasurementError
            Nothing was counted, a counter overflowed, or more arrived or was lost than was sent.
        """
        check_counters(self.sent, self.counted, self.lost, self.received)
        if self.counted == 0:
            raise NoMeasurementError(
                "iperf3 was interrupted, or nothing arrived: its receiver reports 0/0 datagrams"
            )
        received, lost = self.received, self.lost
        if lost is not None and lost < 0:
            raise NoMeasurementError(f"{MORE_ARRIVED} ({lost} lost of {self.counted})")
        if received is None:
            if self.counted is None or lost is None:
                raise NoMeasurementError(ONLY_SENT)
            received = self.counted - lost
            if received < 0:
                raise NoMeasurementError(f"it counts {lost} lost of {self.counted} datagrams")
        most = self.counted if self.sent is None else self.sent
        if most is not None and received > most:
            raise NoMeasurementError(f"{MORE_ARRIVED} ({received} of {most})")
        found = {
            "sent": self.sent,
            "send_seconds": self.send_seconds,
            "offered_mbps": self.offered_mbps,
            "received": received,
            "delivered_mbps": self.delivered_mbps,
            RECEIVE_SECONDS: self.receive_seconds,
        }
        known: Known = {name: value for name, value in found.items() if value is not None}
        if self.tail_unknown and self.counted == most:
            # Not as counts, of which 0 lost would be one.
            known[NOTE] = (
                f"at most {known.pop('received')} of {most} datagrams arrived, and its loss is "
                "that by gaps: the JSON of iperf3 3.2 to 3.9 does not show what was lost behind "
                "the last arrival, and the server's output does (--get-server-output)"
            )
            known["loss_percent"] = 100 * (lost or 0) / most if most else 0.0
        if self.sent is None and self.counted and lost is not None:
            known["loss_percent"] = 100 * lost / self.counted
        return known


def check_counters(*counts: int | None) -> None:
    """Raise if a count is where a counter ends.

    Raises
    ------
    NoMeasurementError
        It is one of the extreme numbers of 32 or 64 bits.
    """
    if ended := [count for count in counts if count is not None and overflowed(count)]:
        raise NoMeasurementError(f"it counts {ended[0]} datagrams: its counter overflowed")


def check_sum(counted: int, expected: int, source: str) -> None:
    """Raise if a total is far from what it should be, as after an overflow.

    Parameters
    ----------
    counted
        The total.
    expected
        The same by another part of the output.
    source
        That part, for the reason.

    Raises
    ------
    NoMeasurementError
        It is.
    """
    if abs(counted - expected) > _COUNTER_ERROR * expected + _MARGIN:
        raise NoMeasurementError(
            f"its total is {counted} datagrams, but {expected} by {source}: "
            "a counter overflowed, or a part of the output is missing"
        )


def are_whole(intervals: Sequence[tuple[float, float]], end: float) -> bool:
    """Return whether intervals follow each other from the begin of a test to its end."""
    ends = [0.0, *(last for _, last in intervals)]
    begins = [*(first for first, _ in intervals), end]
    return all(b - e <= _GAP_SECONDS for b, e in zip(begins, ends, strict=True))


def check_protocol(protocol: str, wants_udp: bool) -> None:
    """Raise unless a test is of the protocol that the experiment needs.

    Raises
    ------
    NoMeasurementError
        It is not.
    """
    if protocol.upper() != ("UDP" if wants_udp else "TCP"):
        experiment, wanted = ("loss", "UDP") if wants_udp else ("tcp", "TCP")
        raise NoMeasurementError(f"it is a {protocol} test, and {experiment} needs {wanted}"[:200])
