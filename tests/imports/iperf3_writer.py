"""What iperf3 prints of a test whose truth is known, by the formats of its versions' sources."""

import json
from dataclasses import dataclass

_UDP = "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams"
_UDP_SENDER = "[ ID] Interval           Transfer     Bitrate         Total Datagrams"
_RULE = "- - - - - - - - - - - - - - - - - - - - - - - - -"


def scaled(number, base, unit):
    """Return a number as unit_snprintf() prints it."""
    prefixes = ["", "K", "M", "G", "T"]
    while number >= base and len(prefixes) > 1:
        number, prefixes = number / base, prefixes[1:]
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:4.{digits}f} {prefixes[0]}{unit}"


def events(document):
    """Return the lines of ``--json-stream`` that a document makes."""
    parts = [("start", document["start"])]
    parts += [("interval", one) for one in document["intervals"]]
    parts += [("error", document["error"])] if "error" in document else []
    parts += [("end", document["end"])]
    return "".join(json.dumps({"event": name, "data": data}) + "\n" for name, data in parts)


def debugged(output):
    """Return an output with what ``--debug`` prints of client and server between its parts."""
    agreed = '{\n\t"udp":\ttrue,\n\t"streams":\t[{\n\t\t\t"id":\t1,\n\t\t\t"bytes":\t9\n\t\t}]\n}\n'
    before, rule, totals = output.rpartition(_RULE)
    results = f"send_results\n{agreed}get_results\n{agreed}interval forces keep\n"
    return f"send_parameters:\n{agreed}sent 9 bytes of 9, total 9\n{before}{results}{rule}{totals}"


@dataclass(frozen=True)
class UdpTest:
    """A UDP test in intervals of a second."""

    payload: int
    sent: tuple[int, ...]
    """Datagrams by interval, over all streams."""
    lost: tuple[int, ...]
    """Those of each interval that did not arrive, except the last ones of the test."""
    tail: int = 0
    """The last datagrams of the test, which did not arrive either: no receiver knows of them."""
    streams: int = 1
    version: int = 12
    """The number after 3."""
    server: bool = False
    """Whether the server's output is written, which does not know what was sent."""
    reverse: bool = False
    interrupted: bool = False

    @property
    def seconds(self):
        return len(self.sent)

    @property
    def all_sent(self):
        return sum(self.sent)

    @property
    def counted(self):
        return self.all_sent - self.tail

    @property
    def received(self):
        return self.counted - sum(self.lost)

    @property
    def _reports_received(self):
        """Whether intervals are those of the receiver: of a server, or of a client in reverse."""
        return self.server != self.reverse

    # --- JSON ---

    def document(self):
        """Return the JSON document."""
        test = {"protocol": "UDP", "num_streams": self.streams, "blksize": self.payload}
        test |= {"omit": 0, "duration": self.seconds, "bytes": 0, "reverse": int(self.reverse)}
        start = {"version": f"iperf 3.{self.version}", "test_start": test}
        start["accepted_connection" if self.server else "connecting_to"] = {"host": "192.0.2.1"}
        if self.version >= 9:
            start["target_bitrate"] = 1_000_000
        intervals = [{"streams": [], "sum": self._part(i)} for i in range(self.seconds)]
        found = {"start": start, "intervals": intervals, "end": {"streams": []} | self._end()}
        if self.interrupted:
            found["error"] = "interrupt - the client has terminated"
        return found

    def _part(self, index):
        count, lost = self.sent[index], self.lost[index]
        last = index == self.seconds - 1
        if self._reports_received:
            total = count - (self.tail if last else 0)
            counts = {
                "lost_packets": lost,
                "packets": total,
                "bytes": (total - lost) * self.payload,
            }
        else:
            counts = {"packets": count, "bytes": count * self.payload}
        owner = {"sender": not self._reports_received} if self.version >= 7 else {}
        times = {"start": index, "end": index + 1, "seconds": 1.0}
        rate = {"bits_per_second": counts["bytes"] * 8.0}
        return times | counts | rate | owner | {"omitted": False}

    def _sum(self, size, packets, lost):
        seconds = float(self.seconds)
        rate = {"bits_per_second": size * 8 / seconds}
        counts = {"packets": packets, "lost_packets": lost, "bytes": size, "jitter_ms": 0.01}
        return {"start": 0, "end": seconds, "seconds": seconds} | rate | counts

    def _end(self):
        lost, sent = sum(self.lost), 0 if self.server else self.all_sent
        # Until 3.1 the count was the receiver's; a server has no other.
        packets = self.counted if self.server or self.version < 2 else sent
        both = self._sum(sent * self.payload, packets, lost)
        if self.version < 10:
            return {"sum": both}
        arrived = self._sum(self.received * self.payload, packets, lost)
        return {
            "sum": arrived if self.server else both,
            "sum_sent": self._sum(sent * self.payload, sent, 0),
            "sum_received": arrived,
        }

    def events(self):
        """Return the lines of ``--json-stream``."""
        return events(self.document())

    # --- text ---

    def text(self, prefix="", verbose=False):
        """Return the text."""
        peer = "Accepted connection from 192.0.2.1, port 40000"
        lines = [peer if self.server else "Connecting to host 192.0.2.2, port 5201"]
        if verbose:
            lines += ["      Target Bitrate: 1000000"] if self.version >= 9 else []
            lines.append(
                f"Starting Test: protocol: UDP, {self.streams} streams, {self.payload} byte "
                f"blocks, omitting 0 seconds, {self.seconds} second test, tos 0"
            )
        lines.append(_UDP if self._reports_received else _UDP_SENDER)
        for index in range(self.seconds):
            lines += [_RULE] if index and self.streams > 1 else []
            lines += self._interval(index)
        lines += [_RULE, *(["Test Complete. Summary Results:"] if verbose else []), _UDP]
        lines += self._totals()
        if self.interrupted:
            lines.append("iperf3: interrupt - the client has terminated")
        else:
            lines += [] if self.server else ["", "iperf Done."]
        return "".join(f"{prefix}{line}\n" for line in lines)

    def _line(self, begin, end, size, rest, end_word=""):
        measure = scaled(size, 1024, "Bytes"), scaled(size * 8 / (end - begin), 1000, "bits")
        content = f" {begin:6.2f}-{end:<6.2f} sec  {measure[0]}  {measure[1]}/sec{rest}  {end_word}"
        if self.streams == 1:
            return [f"[  5]{content}"]
        # Each stream's line is wrong, which a reader of the sum does not notice.
        each = [f"[{5 + 2 * i:3}]{content}" for i in range(self.streams)]
        return [*(line.replace(measure[0], "1.00 KBytes") for line in each), f"[SUM]{content}"]

    def _interval(self, index):
        part = self._part(index)
        rest = f"  {part['packets']}"
        if self._reports_received:
            rest = _counts(part["lost_packets"], part["packets"])
        return self._line(index, index + 1, part["bytes"], rest)

    def _totals(self):
        sent, received = self.all_sent * self.payload, self.received * self.payload
        counts = _counts(sum(self.lost), self.counted)
        if self.version < 3:
            one = self._line(0, self.seconds, 0 if self.server else sent, counts)
            return one + ([] if self.server else [f"[  5] Sent {self.counted} datagrams"])
        arrived = self._line(0, self.seconds, received, counts, "receiver")
        if self.interrupted:
            arrived = self._line(0, self.seconds, 0, _counts(0, 0), "receiver")
        if self.server:
            return arrived
        return [*self._line(0, self.seconds, sent, _counts(0, self.all_sent), "sender"), *arrived]


def _counts(lost, total):
    share = f"{100 * lost / total:.2g}" if total else "0"
    return f"  0.010 ms  {lost}/{total} ({share}%)"


@dataclass(frozen=True)
class TcpTest:
    """A TCP test: payload read by the receiver and written by the sender, in 10 s."""

    received: int
    sent: int
    retransmits: int = 0
    streams: int = 1
    server: bool = False
    version: int = 12
    protocol: str = "TCP"
    reverse: bool = False

    def document(self):
        """Return the JSON document."""
        test = {"protocol": self.protocol, "num_streams": self.streams, "duration": 10}
        test |= {"reverse": int(self.reverse)}
        start = {"version": f"iperf 3.{self.version}", "test_start": test}
        start["accepted_connection" if self.server else "connecting_to"] = {"host": "192.0.2.1"}
        sent = {"seconds": 10.0, "bytes": self.sent, "bits_per_second": self.sent * 0.8}
        sent |= {"retransmits": self.retransmits} if self.reverse or not self.server else {}
        arrived = {"seconds": 10.0, "bytes": self.received, "bits_per_second": self.received * 0.8}
        if self.server:  # which knows of its own end alone
            other = arrived if self.reverse else sent
            other |= {"bytes": 0, "bits_per_second": 0}
        end = {"streams": [], "sum_sent": sent, "sum_received": arrived}
        return {"start": start, "intervals": [], "end": end}

    def text(self, prefix="", verbose=False):
        """Return the text."""
        peer = "Accepted connection from 192.0.2.1, port 40000"
        lines = [peer if self.server else "Connecting to host 192.0.2.2, port 5201"]
        if verbose:
            lines.append(
                f"Starting Test: protocol: {self.protocol}, {self.streams} streams, 131072 byte "
                "blocks, omitting 0 seconds, 10 second test, tos 0"
            )
        header = "[ ID] Interval           Transfer     Bitrate         Retr"
        lines += [header, *self._lines(self.sent, ""), _RULE, header]
        retransmits = f"{self.retransmits:3}             "
        if not self.server or self.reverse:
            lines += self._lines(self.sent, retransmits + "sender")
        elif self.version < 2:
            lines += self._lines(0, "                sender")
        if not (self.server and self.reverse):
            lines += self._lines(self.received, "                receiver")
        return "".join(f"{prefix}{line}\n" for line in lines)

    def _lines(self, size, rest):
        names = ["  5"] if self.streams == 1 else [*map("{:3}".format, range(self.streams)), "SUM"]
        part = {name: size if name in ("SUM", "  5") else size // 3 for name in names}
        if self.streams > 1:
            part["  5"] = size // 3
        return [
            f"[{name}]   0.00-10.00  sec  {scaled(part[name], 1024, 'Bytes')}  "
            f"{scaled(part[name] * 0.8, 1000, 'bits')}/sec  {rest}"
            for name in names
        ]
