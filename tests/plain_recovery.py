"""Sequence recovery and latent error detection of IEEE Std 802.1CB-2017, plain and slow.

They follow the text of clauses 7.4.3 and 7.4.4 step by step, the history a list of which a shift
moves every element, and need nothing but Python: the reference for the compiled functions of
:mod:`tsnrepro.model.recovery` and :mod:`tsnrepro.model.recovery`, and for the switch in eBPF.
"""

from tsnrepro.config.frer import RECOVERY_COUNTERS
from tsnrepro.model.recovery import SEQUENCE_SPACE, signed_distance


class _Reference:
    """What both plain recovery functions share: counters, the reset timer, untagged frames."""

    def __init__(
        self,
        reset_timeout_ns: int | None,
        take_no_sequence: bool,
        individual: bool,
    ) -> None:
        if reset_timeout_ns is not None and reset_timeout_ns <= 0:
            raise ValueError(
                f"reset_timeout_ns is {reset_timeout_ns}: give a positive time, or None for never"
            )
        self.reset_timeout_ns = reset_timeout_ns
        self.take_no_sequence = take_no_sequence
        self.individual = individual
        self.take_any = True
        self.last_seq = SEQUENCE_SPACE - 1
        self.counters: dict[str, int] = dict.fromkeys(RECOVERY_COUNTERS, 0)
        self._deadline_ns: int | None = None

    def accept(self, seq: int | None, now_ns: int) -> bool:
        """Tell whether the frame that arrives at ``now_ns`` passes, and count it.

        ``seq`` is the number of its R-TAG, or None where it has none. Times must not go back.
        Raises ValueError for a number outside 0 ... 65535.
        """
        if seq is not None and not 0 <= seq < SEQUENCE_SPACE:
            raise ValueError(f"sequence number {seq} is outside 0 ... {SEQUENCE_SPACE - 1}")
        self.expire(now_ns)
        if seq is None:
            return self._accept_untagged(now_ns)
        if self.take_any:
            self.take_any = False
            self._take(seq)
            return self._pass(now_ns)
        return self._compare(seq, now_ns)

    def expire(self, now_ns: int) -> None:
        """Let the reset timer run up to ``now_ns``; call it before reading the counters."""
        if self._deadline_ns is not None and now_ns >= self._deadline_ns:
            self.reset()

    def reset(self) -> None:
        """Forget all numbers and take any next one (IEEE Std 802.1CB-2017, 7.4.3.3)."""
        self.counters["resets"] += 1
        self.take_any = True
        self.last_seq = SEQUENCE_SPACE - 1
        self._deadline_ns = None

    def _accept_untagged(self, now_ns: int) -> bool:
        self.counters["tagless"] += 1
        return self._pass(now_ns) if self.take_no_sequence else False

    def _pass(self, now_ns: int) -> bool:
        self.counters["passed"] += 1
        self._reload(now_ns)
        return True

    def _discard(self, counter: str, now_ns: int) -> bool:
        self.counters[counter] += 1
        if self.individual:
            self._reload(now_ns)
        return False

    def _reload(self, now_ns: int) -> None:
        if self.reset_timeout_ns is not None:
            self._deadline_ns = now_ns + self.reset_timeout_ns

    def _take(self, seq: int) -> None:
        raise NotImplementedError

    def _compare(self, seq: int, now_ns: int) -> bool:
        raise NotImplementedError


class VectorRecovery(_Reference):
    """Pass each number once, remembering the last ``history_length`` numbers.

    Source: IEEE Std 802.1CB-2017, 7.4.3.4 (VectorRecoveryAlgorithm) and 7.4.3.4.3
    (ShiftSequenceHistory). Plain Python, one list element a number: a reference, not for speed.
    Counters are in ``counters``, keyed as :data:`RECOVERY_COUNTERS`.
    """

    def __init__(
        self,
        history_length: int = 64,
        reset_timeout_ns: int | None = None,
        *,
        take_no_sequence: bool = False,
        individual: bool = False,
    ) -> None:
        super().__init__(reset_timeout_ns, take_no_sequence, individual)
        if not 2 <= history_length <= SEQUENCE_SPACE // 2:
            raise ValueError(
                f"history_length is {history_length}: it must be 2 ... {SEQUENCE_SPACE // 2}"
            )
        self.history_length = history_length
        self.history = [0] * history_length

    def reset(self) -> None:
        """Forget all numbers, clear the history, and take any next number."""
        super().reset()
        self.history = [0] * self.history_length

    def _take(self, seq: int) -> None:
        self.history = [1] + [0] * (self.history_length - 1)
        self.last_seq = seq

    def _compare(self, seq: int, now_ns: int) -> bool:
        delta = signed_distance(seq, self.last_seq)
        if delta >= self.history_length or delta <= -self.history_length:
            return self._discard("rogue", now_ns)
        if delta <= 0:
            return self._look_back(-delta, now_ns)
        if delta != 1:
            self.counters["out_of_order"] += 1
        for _ in range(delta - 1):
            self._shift(0)
        self._shift(1)
        self.last_seq = seq
        return self._pass(now_ns)

    def _look_back(self, age: int, now_ns: int) -> bool:
        if self.history[age]:
            return self._discard("discarded", now_ns)
        self.history[age] = 1
        self.counters["out_of_order"] += 1
        return self._pass(now_ns)

    def _shift(self, newest: int) -> None:
        if self.history[-1] == 0:
            self.counters["lost"] += 1
        self.history = [newest, *self.history[:-1]]


class MatchRecovery(_Reference):
    """Drop a number only where it repeats the one accepted last.

    Source: IEEE Std 802.1CB-2017, 7.4.3.5 (MatchRecoveryAlgorithm). It never counts rogue or lost
    frames; both stay zero in ``counters``.
    """

    def __init__(
        self,
        reset_timeout_ns: int | None = None,
        *,
        take_no_sequence: bool = False,
        individual: bool = False,
    ) -> None:
        super().__init__(reset_timeout_ns, take_no_sequence, individual)

    def _take(self, seq: int) -> None:
        self.last_seq = seq

    def _compare(self, seq: int, now_ns: int) -> bool:
        if seq == self.last_seq:
            return self._discard("discarded", now_ns)
        if signed_distance(seq, self.last_seq) != 1:
            self.counters["out_of_order"] += 1
        self.last_seq = seq
        return self._pass(now_ns)


class LatentErrorDetection:
    """The procedures of 7.4.4 on the counters of a stream's recovery function.

    ``paths`` is frerSeqRcvyLatentErrorPaths, ``difference`` frerSeqRcvyLatentErrorDifference
    (10.4.1.12). ``alarms`` lists (time, how far the difference has moved) of each signal.
    """

    def __init__(self, paths: int, difference: int) -> None:
        self.paths = paths
        self.difference = difference
        self.base = 0
        self.alarms: list[tuple[int, int]] = []

    def _missing(self, counters: dict[str, int]) -> int:
        return counters["passed"] * (self.paths - 1) - counters["discarded"]

    def reset(self, counters: dict[str, int]) -> None:
        """Take the present difference as the base (LatentErrorReset)."""
        self.base = self._missing(counters)

    def test(self, counters: dict[str, int], now: int) -> bool:
        """Tell whether there is a latent error, and note it (LatentErrorTest)."""
        moved = self._missing(counters) - self.base
        if abs(moved) <= self.difference:
            return False
        self.alarms.append((now, moved))
        return True
