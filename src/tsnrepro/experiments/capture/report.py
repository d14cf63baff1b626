"""Comparison of one trial's captures with the rules of FRER and with the counters.

The captures are taken at the first switch's port to each member path, and at the listener. A time
stamp of the former is the frame's departure: after the egress queue, before the cable. So it is
known which copy *left* first and by how much, and the order of each path; the interleaving of the
paths at the recovery function, a cable and an interrupt later, is known only within limits, and the
report notes which counters depend on it.
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from tsnrepro.common.topology import LISTENER
from tsnrepro.experiments.capture.capture_file import Capture
from tsnrepro.experiments.capture.counters import SENDING, TrialCounters
from tsnrepro.experiments.capture.dissect import (
    OTHER_TRAFFIC,
    STREAM_FRAGMENT,
    STREAM_FRAME,
    classify_stream,
    digests,
    dissect,
)
from tsnrepro.experiments.capture.replay import replay, replay_orders
from tsnrepro.experiments.capture.sequence_numbers import (
    Arrivals,
    FirstCopies,
    PathOrder,
    first_copies,
    merge,
    path_order,
)
from tsnrepro.tools.frerctl import StreamFilter

ONE_TAG: Final = "stream frames with one R-TAG"
BEYOND_FIRST: Final = "copies beyond the first"
_OUTCOMES: Final = "passed, discarded and rogue together"
_Subject = Literal["capture", "wire", "counters"]
_QUANTILES: Final = {
    **{"min": 0.0, "p0_1": 0.001, "p1": 0.01, "p5": 0.05, "p25": 0.25, "p50": 0.5},
    **{"p75": 0.75, "p95": 0.95, "p99": 0.99, "p99_9": 0.999, "max": 1.0},
}


@dataclass(frozen=True)
class CaptureFinding:
    """One comparison. ``expected`` is a number, or the lowest and the highest possible one.

    ``subject`` is what a disagreement is about: the capture itself, the frames on the wire, or the
    counters.
    """

    subject: _Subject
    name: str
    where: str
    expected: int | tuple[int, int]
    found: int
    note: str = ""

    @property
    def agrees(self) -> bool:
        """Return whether the number found is the expected one."""
        if isinstance(self.expected, tuple):
            return self.expected[0] <= self.found <= self.expected[1]
        return self.found == self.expected


_captured = partial(CaptureFinding, "capture")
_on_wire = partial(CaptureFinding, "wire")
_counted = partial(CaptureFinding, "counters")


@dataclass(frozen=True)
class PathReport:
    """One member path, as captured; ``order`` is None without frames with an R-TAG."""

    port: str
    frames: int
    stream_frames: int
    stream_fragments: int
    tagged: int
    order: PathOrder | None
    won: int
    """Numbers whose first copy was on this path."""
    first: int | None = None
    """The number in the first R-TAG captured on it."""


@dataclass(frozen=True)
class WireReport:
    """The report on the captures of one trial; see :func:`report_captures`."""

    frer: bool
    paths: list[PathReport]
    ties: int
    single_copies: int
    """Numbers that were on one path only."""
    listener_stream_frames: int
    listener_stream_fragments: int
    delay_us: dict[str, float]
    """Quantiles of the delay of path 1 against path 0 by number; empty without pairs."""
    delayed_numbers: int
    replayed: dict[str, int]
    """Counters of clause 10 from the replay of the captured order; empty for the control."""
    findings: list[CaptureFinding]
    delay_ns: np.ndarray
    """The delays that ``delay_us`` summarises, in the order of the numbers."""

    @property
    def agrees(self) -> bool:
        """Return whether every finding agrees."""
        return all(finding.agrees for finding in self.findings)

    def disagreements(self, *subjects: _Subject) -> list[CaptureFinding]:
        """Return the findings that do not agree, of some subjects or of all."""
        return [
            f for f in self.findings if not f.agrees and (not subjects or f.subject in subjects)
        ]

    def document(self) -> dict[str, Any]:
        """Return the report as recorded, without the single delays."""
        values = {name: value for name, value in asdict(self).items() if name != "delay_ns"}
        findings = [asdict(f) | {"agrees": f.agrees} for f in self.findings]
        return values | {"findings": findings, "agrees": self.agrees}


def report_captures(
    members: dict[str, Capture],
    listener: Capture,
    stream: StreamFilter,
    counted: TrialCounters | None = None,
    talker: int | None = None,
) -> WireReport:
    """Report on the captures of one trial.

    Parameters
    ----------
    members
        The capture of each member port, by its name, in the order of the paths.
    listener
        The capture at the listener's card.
    stream
        The measured stream.
    counted
        The trial's counters; without them the captures are compared with FRER's rules only.
    talker
        The talker's address as a number (see :func:`tsnrepro.experiments.capture.dissect.mac`);
        frames of other senders are left out. None includes all.
    """
    points = {
        port: _Point(f"{SENDING} {port}", capture, stream, talker)
        for port, capture in members.items()
    }
    end = _Point(f"{LISTENER} eth0", listener, stream, talker)
    return _Trial(points, end, counted).report()


class _Point:
    """A capture point: the frames of the measured direction, dissected."""

    def __init__(
        self, where: str, capture: Capture, stream: StreamFilter, talker: int | None
    ) -> None:
        self.where, self.capture = where, capture
        frames = dissect(capture)
        digest = digests(capture, frames)
        kept = slice(None)
        if talker is not None and not (frames["source"] == talker).all():
            kept = frames["source"] == talker
        self.frames, self.digest = frames[kept], digest[kept]
        self.time_ns = capture.time_ns[kept]
        self.kind = classify_stream(self.frames, stream)
        self.r_tags = self.frames["r_tags"]
        self.tagged = self.r_tags > 0

    @property
    def of_stream(self) -> np.ndarray:
        return self.kind != OTHER_TRAFFIC

    def count(self, kind: int) -> int:
        return int((self.kind == kind).sum())

    def findings(self) -> list[CaptureFinding]:
        where, capture = self.where, self.capture
        found = [_captured("bytes behind the last whole record", where, 0, capture.truncated_bytes)]
        if capture.dropped is not None:
            note = "the capture is incomplete" if capture.dropped else ""
            found.append(_captured("frames the capture missed", where, 0, capture.dropped, note))
        short = int((self.digest == 0).sum())
        note = "capture more bytes of each frame" if short else ""
        return [*found, _captured("frames captured too short", where, 0, short, note)]


class _Trial:
    """All capture points of a trial."""

    def __init__(
        self, points: dict[str, _Point], end: _Point, counted: TrialCounters | None
    ) -> None:
        self.points, self.end, self.counted = points, end, counted
        self.members = list(points.values())
        if counted is not None:
            self.frer = counted.frer
        else:
            self.frer = any(point.tagged.any() for point in self.members)
        self._number_frames()

    def _number_frames(self) -> None:
        """Unwrap the numbers over all paths, and select those generated before the last reading.

        Later frames, such as a host's neighbour discovery, have higher numbers.
        """
        every = merge(
            [point.time_ns[point.tagged] for point in self.members],
            [point.frames["sequence"][point.tagged] for point in self.members],
        )
        if self.counted is not None:
            self.first, self.stop = 0, self.counted.numbered
        elif len(every.number):
            self.first, self.stop = int(every.number.min()), int(every.number.max()) + 1
        else:
            self.first, self.stop = 0, 0
        self.every = every
        self.numbers = [every.of_path(path).number for path in range(len(self.members))]
        self.arrivals: Arrivals = every.before(self.stop)

    def report(self) -> WireReport:
        copies = first_copies(self.arrivals, len(self.members))
        delay_us = copies.delay_ns / 1000
        replayed = self._replayed()
        findings = [f for point in [*self.members, self.end] for f in point.findings()]
        findings += self._tag_findings() + self._path_findings() + self._listener_findings()
        if self.counted is not None:
            findings += self._counter_findings(self.counted, replayed)
        return WireReport(
            frer=self.frer,
            paths=[self._path(i, port, copies) for i, port in enumerate(self.points)],
            ties=int((copies.winner == -1).sum()),
            single_copies=int((copies.copies == 1).sum()),
            listener_stream_frames=self.end.count(STREAM_FRAME),
            listener_stream_fragments=self.end.count(STREAM_FRAGMENT),
            delay_us=_quantiles(delay_us),
            delayed_numbers=len(delay_us),
            replayed=replayed,
            findings=findings,
            delay_ns=copies.delay_ns,
        )

    def _order(self, path: int) -> PathOrder | None:
        numbers = self.arrivals.of_path(path).number
        return path_order(numbers, self.first, self.stop) if len(numbers) else None

    def _path(self, path: int, port: str, copies: FirstCopies) -> PathReport:
        point = self.points[port]
        return PathReport(
            port=port,
            frames=len(point.frames),
            stream_frames=point.count(STREAM_FRAME),
            stream_fragments=point.count(STREAM_FRAGMENT),
            tagged=int(point.tagged.sum()),
            order=self._order(path),
            won=int((copies.winner == path).sum()),
            first=int(point.frames["sequence"][point.tagged][0]) if point.tagged.any() else None,
        )

    # --- the rules of FRER --------------------------------------------------------------------

    def _tag_findings(self) -> list[CaptureFinding]:
        found = []
        for point in self.members:
            stream = int(point.of_stream.sum())
            tagged = int((point.r_tags[point.of_stream] == 1).sum())
            reserved = int((point.frames["reserved"] != 0).sum())
            expected = stream if self.frer else 0
            found += [
                _on_wire(ONE_TAG, point.where, expected, tagged),
                _on_wire("R-TAGs with reserved bits set", point.where, 0, reserved),
            ]
        untagged = int((~self.end.tagged[self.end.of_stream]).sum())
        name, expected = "stream frames without R-TAG", int(self.end.of_stream.sum())
        return [*found, _on_wire(name, self.end.where, expected, untagged)]

    def _path_findings(self) -> list[CaptureFinding]:
        if not self.frer:
            name = "stream frames on a path not used"
            return [
                _on_wire(name, point.where, 0, int(point.of_stream.sum()))
                for point in self.members[1:]
            ]
        found = []
        for path, (port, point) in enumerate(self.points.items()):
            order = self._order(path) or path_order(np.empty(0, int), self.first, self.stop)
            dropped = self.counted.members[port].queue_dropped if self.counted else 0
            note = "what the egress queue dropped is missing" if dropped else ""
            if order.missing != dropped and order.missing:
                note = f"first {order.first_missing}, longest run {order.longest_missing_run}"
            found += [
                _on_wire("numbers missing", point.where, dropped, order.missing, note),
                _on_wire("numbers repeated", point.where, 0, order.repeated),
                _on_wire("numbers out of order", point.where, 0, order.out_of_order),
            ]
        return [*found, self._same_content()]

    def _same_content(self) -> CaptureFinding:
        """Compare the frames with equal numbers on the paths."""
        number = np.concatenate([np.empty(0, np.int64), *self.numbers])
        digest = np.concatenate(
            [np.empty(0, np.uint64), *(p.digest[p.tagged] for p in self.members)]
        )
        order = np.argsort(number, kind="stable")
        number, digest = number[order], digest[order]
        unlike = (number[1:] == number[:-1]) & (digest[1:] != digest[:-1])
        where = f"{SENDING}, all member ports"
        return _on_wire("numbers with unlike frames", where, 0, int(unlike.sum()))

    def _listener_findings(self) -> list[CaptureFinding]:
        """Compare the listener's frames with those on the paths, by their content."""
        carried = self._carried_once()
        arrived = self.end.digest[self.end.of_stream]
        kinds, index = np.unique(np.concatenate([carried, arrived]), return_inverse=True)
        sent = np.bincount(index[: len(carried)], minlength=len(kinds))
        came = np.bincount(index[len(carried) :], minlength=len(kinds))
        unknown = int(came[sent == 0].sum())
        beyond = int(np.maximum(came - sent, 0)[sent > 0].sum())
        missing = int(np.maximum(sent - came, 0).sum())
        where = self.end.where
        found = [
            _on_wire(BEYOND_FIRST, where, 0, beyond),
            _on_wire("stream frames that no path carried", where, 0, unknown),
        ]
        lost: int | tuple[int, int] = 0
        note = ""
        if self.counted is not None and self.counted.host_queue_dropped:
            # The queue counts frames of any kind.
            lost = (0, self.counted.host_queue_dropped)
            note = "what the last egress queue dropped is missing"
        name = "stream frames that did not arrive"
        return [*found, _on_wire(name, where, lost, missing, note)]

    def _carried_once(self) -> np.ndarray:
        """Return the digests of the stream's frames that recovery should pass."""
        if not self.frer:
            first = self.members[0]
            return first.digest[first.of_stream]
        number = np.concatenate(
            [n[p.of_stream[p.tagged]] for n, p in zip(self.numbers, self.members, strict=True)]
        )
        digest = np.concatenate([p.digest[p.tagged & p.of_stream] for p in self.members])
        return digest[np.unique(number, return_index=True)[1]]

    # --- the counters -------------------------------------------------------------------------

    def _replayed(self) -> dict[str, int]:
        if not self.frer or self.counted is None:
            return {}
        read = self.counted.read
        read_ns = read.after_ns[1] if read else None
        return self._with_tagless(replay(self.arrivals, self.counted.variables, read_ns)[0])

    def _with_tagless(self, counters: dict[str, int]) -> dict[str, int]:
        assert self.counted is not None
        tagless = sum(int((~point.tagged).sum()) for point in self.members)
        passed = tagless if self.counted.variables.take_no_sequence else 0
        return counters | {"tagless": tagless, "passed": counters["passed"] + passed}

    def _counter_findings(
        self, counted: TrialCounters, replayed: dict[str, int]
    ) -> list[CaptureFinding]:
        found = self._member_findings(counted)
        if self.frer:
            found += self._generator_findings(counted) + self._recovery_findings(counted, replayed)
        else:
            recovered = sum(counted.recovery.values())
            found.append(_counted("recovery: frames counted", "sw2", 0, recovered))
        where, frames = self.end.where, self.end.count(STREAM_FRAME)
        fragments = self.end.count(STREAM_FRAGMENT)
        found += [
            _counted("stream frames in", where, frames, counted.listener_frames),
            _counted("later fragments in", where, fragments, counted.listener_fragments),
        ]
        if counted.received is not None:
            expected = frames - sum(counted.dropped_behind_card.values())
            drops = ", ".join(f"{n} in {p}" for p, n in counted.dropped_behind_card.items() if n)
            note = f"dropped behind the card: {drops}" if drops else ""
            name = "datagrams the program received"
            found.append(_counted(name, LISTENER, expected, counted.received, note))
        return found

    def _member_findings(self, counted: TrialCounters) -> list[CaptureFinding]:
        found = []
        for path, (port, point) in enumerate(self.points.items()):
            here = counted.members[port]
            left: int | tuple[int, int] = self._within(point)
            if self.frer:
                # The generator and the ports of its switch are read atomically.
                late = int((self.numbers[path] >= self.stop).sum())
                left = len(point.frames) - late
            sent = here.replicated - here.queue_dropped
            arrived = self._within(point)
            found += [
                _counted("frames out", point.where, left, sent),
                _counted("frames in", f"sw2 {port}", arrived, here.arrived),
            ]
        return found

    def _within(self, point: _Point) -> int | tuple[int, int]:
        """Return the number of frames between the two readings, or its lower and upper limit."""
        read = self.counted.read if self.counted else None
        if read is None:
            return len(point.frames)
        time = point.time_ns
        lowest = int(((time >= read.before_ns[1]) & (time < read.after_ns[0])).sum())
        highest = int(((time >= read.before_ns[0]) & (time < read.after_ns[1])).sum())
        return lowest if lowest == highest else (lowest, highest)

    def _generator_findings(self, counted: TrialCounters) -> list[CaptureFinding]:
        seen = len(np.unique(self.arrivals.number))
        # A number that every queue dropped was not captured.
        missed = min((m.queue_dropped for m in counted.members.values()), default=0)
        expected = (seen, seen + missed) if missed else seen
        name = "numbers given before the capture"
        return [
            _counted(name, f"{SENDING} generator", 0, counted.numbered_before),
            _counted("numbers given", f"{SENDING} generator", expected, counted.numbered),
        ]

    def _recovery_findings(
        self, counted: TrialCounters, replayed: dict[str, int]
    ) -> list[CaptureFinding]:
        """Compare each counter of clause 10 exactly, or within its range over possible orders."""
        found, ranges = [], {}
        recorded = _with_outcomes(counted.recovery)
        for name, expected in _with_outcomes(replayed).items():
            allowed: int | tuple[int, int] = expected
            note = ""
            if recorded[name] != expected:
                ranges = ranges or self._ranges(counted)
                low, high = ranges[name]
                if low < high:
                    allowed, note = (low, high), "depends on the order and moment of counting"
            found.append(_counted(f"recovery: {name}", "sw2", allowed, recorded[name], note))
        return found

    def _ranges(self, counted: TrialCounters) -> dict[str, tuple[int, int]]:
        """Return the range of each counter, and of the sum of outcomes, over possible orders."""
        found = [
            _with_outcomes(self._with_tagless(counters))
            for counters in replay_orders(
                self.every, counted.variables, len(self.members), counted.read
            )
        ]
        return {
            name: (min(c[name] for c in found), max(c[name] for c in found)) for name in found[0]
        }


def _with_outcomes(counters: dict[str, int]) -> dict[str, int]:
    """Add the sum of the three outcomes of tagged frames, which does not depend on the order."""
    outcomes = sum(counters[name] for name in ("passed", "discarded", "rogue"))
    return counters | {_OUTCOMES: outcomes}


def _quantiles(values: np.ndarray) -> dict[str, float]:
    if len(values) == 0:
        return {}
    levels = np.quantile(values, list(_QUANTILES.values()), method="inverted_cdf")
    return dict(zip(_QUANTILES, levels.tolist(), strict=True))
