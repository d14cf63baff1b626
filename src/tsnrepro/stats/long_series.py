"""Exact order statistics of series that do not fit into memory, by several passes over pieces.

A first pass counts the values in bins of 1/32768 octave, and keeps the smallest and the largest of
each. If these are equal, as for latencies in whole nanoseconds up to 32 µs, the order statistics of
the bin are known; for other bins that are needed, a further pass collects the values (selection in
passes: Munro and Paterson 1980, Theoretical Computer Science 12(3)). Memory is that of the bins and
one piece for any number of values; the indicator series for intervals take one bit per value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# A piece fits into a processor's cache; a multiple of eight, because bits are packed.
_PIECE = 1 << 17
_BINS_PER_OCTAVE = 1 << 15
_SHIFT = 52 - 15  # bits of a double's fraction below the bin number
_LOWEST, _HIGHEST = 2.0**-12, 2.0**32
_BINS = 44 * _BINS_PER_OCTAVE + 2  # two for values below and above
_FINER_BINS = 1 << 16
_MAX_COLLECTED = 4_000_000


@dataclass(frozen=True)
class _Window:
    """A range of values: their count, and the count of values below."""

    least: float
    greatest: float
    before: int
    count: int

    @property
    def known(self) -> bool:
        """Whether all of them are equal."""
        return self.least == self.greatest


class _Bins:
    """Counts of values by bin, in order, with the smallest and the largest value of each bin."""

    def __init__(self, bins: int, before: int = 0) -> None:
        self._before = before
        self.counts = np.zeros(bins, np.int64)
        self.least: Values = np.full(bins, np.inf)
        self.greatest: Values = np.full(bins, -np.inf)

    def add(self, values: Values, low: int, high: int, shift: int) -> None:
        """Count values; those with keys from ``low`` to below ``high`` in the inner bins."""
        # Imported here because most series are short and need no compiler.
        from tsnrepro.stats.series_kernels import tally  # noqa: PLC0415

        ends = self.least, self.greatest
        tally(values.view(np.int64), values, (low, high, shift), self.counts, ends)

    def closed(self) -> _Bins:
        """Drop empty bins and return the rest."""
        used = np.flatnonzero(self.counts)
        self.counts = self.counts[used]
        self.least, self.greatest = self.least[used], self.greatest[used]
        self._up_to = self._before + np.cumsum(self.counts)
        return self

    def window(self, rank: int) -> _Window:
        """Return the bin of a rank, from 1 over all values."""
        found = int(np.searchsorted(self._up_to, rank))
        count = int(self.counts[found])
        before = int(self._up_to[found]) - count
        return _Window(float(self.least[found]), float(self.greatest[found]), before, count)

    def near(self, ranks: NDArray[np.int64]) -> Values:
        """Return the largest value of each rank's bin."""
        return self.greatest[np.searchsorted(self._up_to, ranks)]


class LongSeries:
    """A series of finite values that is read piece by piece, again for each computation.

    Parameters
    ----------
    pieces
        Returns an iterator over the series from its beginning, in pieces of any length above 0.
    quantiles
        Probabilities of the quantiles that will be needed, which are computed in one pass.

    Raises
    ------
    ValueError
        From any method: the series is empty or has nan or infinities.
    """

    def __init__(
        self, pieces: Callable[[], Iterable[Values]], quantiles: Sequence[float] = ()
    ) -> None:
        self._source = pieces
        self.quantiles = tuple(quantiles)
        self.cache: dict[Any, Any] = {}
        """Results of estimators, by their name."""

    def __len__(self) -> int:
        return self._first_pass[1]

    def __repr__(self) -> str:
        return f"<{len(self):,} values, read in pieces>"

    @property
    def mean(self) -> float:
        """The arithmetic mean."""
        return self._first_pass[2]

    @property
    def sd(self) -> float:
        """The sample standard deviation; nan for a single value."""
        return self._first_pass[3]

    @property
    def min(self) -> float:
        """The smallest value."""
        return float(self._first_pass[0].least[0])

    @property
    def max(self) -> float:
        """The largest value."""
        return float(self._first_pass[0].greatest[-1])

    def pieces(self) -> Iterator[Values]:
        """Yield the series in order; the next piece is read while one is processed.

        Raises
        ------
        ValueError
            A value is not finite.
        """
        for piece in _in_multiples_of_eight(_ahead(self._source())):
            for start in range(0, len(piece), _PIECE):
                part = piece[start : start + _PIECE]
                # A sum is finite unless a value is not, or it overflows.
                if not math.isfinite(float(part.sum())):
                    raise ValueError("the series has a value that is not finite")
                yield part

    def order_statistics(self, ranks: Iterable[int]) -> dict[int, float]:
        """Return the values of ranks, counted from 1 at the smallest.

        Most series are read at most once more.
        """
        bins = self._first_pass[0]
        return self._values({rank: bins.window(rank) for rank in set(ranks)})

    def approximate_quantiles(self, shares: NDArray[np.float64]) -> Values:
        """Return quantiles to 1/32768 octave without a further pass, for figures."""
        ranks = np.clip(np.ceil(shares * len(self)), 1, len(self)).astype(np.int64)
        return self._first_pass[0].near(ranks)

    def at_most(self, ranks: Iterable[int]) -> dict[int, tuple[float, NDArray[np.uint8]]]:
        """Return, by rank, its value and packed bits: which values, in order, are at most that.

        Most series are read once.
        """
        bins = self._first_pass[0]
        windows = {rank: bins.window(rank) for rank in set(ranks)}
        if sum(w.count for w in windows.values() if not w.known) > _MAX_COLLECTED:
            exact = self._values(windows)
            windows = {r: _Window(exact[r], exact[r], w.before, 0) for r, w in windows.items()}
        series = {rank: _AtMost(rank, window, len(self)) for rank, window in windows.items()}
        start = 0
        for piece in self.pieces():
            for each in series.values():
                each.add(start, piece)
            start += len(piece)
        return {rank: each.result() for rank, each in series.items()}

    @cached_property
    def _first_pass(self) -> tuple[_Bins, int, float, float]:
        """Bins, count, mean and standard deviation."""
        low, high = _key(_LOWEST), _key(_HIGHEST)
        bins, count, mean, squares = _Bins(_BINS), 0, 0.0, 0.0
        for piece in self.pieces():
            bins.add(piece, low, high, _SHIFT)
            # Chan, Golub and LeVeque 1983, The American Statistician 37(3).
            ahead = float(piece.mean()) - mean
            both = count + len(piece)
            deviations = piece - piece.mean()
            squares += float(deviations @ deviations) + ahead**2 * count * len(piece) / both
            mean += ahead * len(piece) / both
            count = both
        if not count:
            raise ValueError("the series is empty: at least one value is needed")
        sd = math.sqrt(squares / (count - 1)) if count > 1 else math.nan
        return bins.closed(), count, mean, sd

    def _values(self, windows: dict[int, _Window]) -> dict[int, float]:
        """Return the values of ranks within windows."""
        known = {rank: window.least for rank, window in windows.items() if window.known}
        unknown = {rank: window for rank, window in windows.items() if not window.known}
        if not unknown:
            return known
        needed = sorted(set(unknown.values()), key=lambda window: window.least)
        if sum(window.count for window in needed) > _MAX_COLLECTED:
            finer = self._finer(needed)
            return known | self._values({r: finer[w].window(r) for r, w in unknown.items()})
        values = self._collected(needed)
        return known | {
            rank: float(values[window][rank - window.before - 1])
            for rank, window in unknown.items()
        }

    def _collected(self, windows: list[_Window]) -> dict[_Window, Values]:
        """Return the sorted values within each window, of windows in order."""
        from tsnrepro.stats.series_kernels import gather  # noqa: PLC0415

        low, high = (np.array([getattr(w, end) for w in windows]) for end in ("least", "greatest"))
        parts: list[tuple[Values, NDArray[np.int64]]] = []
        values, where = np.empty(_PIECE), np.empty(_PIECE, np.int64)
        for piece in self.pieces():
            count = gather(piece, low, high, values, where)
            parts.append((values[:count].copy(), where[:count].copy()))
        found, of = (np.concatenate(each) for each in zip(*parts, strict=True))
        return {window: np.sort(found[of == i]) for i, window in enumerate(windows)}

    def _finer(self, windows: list[_Window]) -> dict[_Window, _Bins]:
        """Return the values within each window in finer bins."""
        finer = {window: _Bins(_FINER_BINS + 2, window.before) for window in windows}
        for piece in self.pieces():
            for window, bins in finer.items():
                low, high = _key(window.least), _key(window.greatest) + 1
                shift = max(0, (high - low - 1).bit_length() - 16)
                inside = piece[(piece >= window.least) & (piece <= window.greatest)]
                bins.add(inside, low, high, shift)
        return {window: bins.closed() for window, bins in finer.items()}


Series = NDArray[Any] | LongSeries
"""A series in memory, or one that is read in pieces."""


class _AtMost:
    """Indicators of the values that are at most that of a rank, collected piece by piece."""

    def __init__(self, rank: int, window: _Window, count: int) -> None:
        self._rank, self._window = rank, window
        self._bits = np.zeros(-(-count // 8), np.uint8)
        self._inside: list[tuple[NDArray[np.int64], Values]] = []

    def add(self, start: int, piece: Values) -> None:
        """Add the values from an index on, a multiple of eight."""
        up_to = piece <= self._window.greatest
        packed = np.packbits(up_to)
        self._bits[start // 8 : start // 8 + len(packed)] = packed
        if not self._window.known:
            inside = np.flatnonzero(up_to & (piece >= self._window.least))
            self._inside.append((inside + start, piece[inside]))

    def result(self) -> tuple[float, NDArray[np.uint8]]:
        """Return the value and the bits."""
        if self._window.known:
            return self._window.least, self._bits
        indices, values = (np.concatenate(each) for each in zip(*self._inside, strict=True))
        value = float(np.sort(values)[self._rank - self._window.before - 1])
        above = indices[values > value]
        keep = ~(np.uint8(128) >> (above % 8).astype(np.uint8))
        np.bitwise_and.at(self._bits, above // 8, keep)
        return value, self._bits


def _key(value: float) -> int:
    """Return an integer with the same order as the values."""
    bits = int(np.float64(value + 0.0).view(np.int64))  # the same key for both zeros
    return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF


def _ahead(pieces: Iterable[Values]) -> Iterator[Values]:
    """Yield pieces while another thread reads the next one."""
    source = iter(pieces)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, source, None)
        while (piece := coming.result()) is not None:
            coming = pool.submit(next, source, None)
            yield piece


def _in_multiples_of_eight(pieces: Iterable[Values]) -> Iterator[Values]:
    """Yield the values in pieces whose lengths, except the last, are multiples of eight."""
    rest = np.empty(0)
    for each in pieces:
        piece = np.concatenate([rest, each]) if len(rest) else np.ascontiguousarray(each, float)
        whole = len(piece) // 8 * 8
        rest = piece[whole:]
        if whole:
            yield piece[:whole]
    if len(rest):
        yield rest
