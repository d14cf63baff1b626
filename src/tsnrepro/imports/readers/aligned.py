"""Integers in lines of one length, as packets' times are: half of the time that a CSV reader takes.

Digits are converted eight at a time, as bytes of an integer (D. Lemire, Quickly parsing eight
digits, 2018), and those that all lines of a block share only once.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_WORD = 8
# 18 digits are below the largest integer of 64 bits, and so are 19 that begin with 0 to 8.
_MOST_DIGITS = 19
_NOT_DIGITS = 0x0F0F0F0F0F0F0F0F


def integers(data: bytes, delimiter: bytes, width: int, wanted: Sequence[int]) -> list | None:
    """Return columns of lines that hold nothing but digits between delimiters.

    Parameters
    ----------
    data
        Whole lines.
    delimiter
        The character between columns.
    width
        The number of columns.
    wanted
        Those that are returned, from 0.

    Returns
    -------
    list or None
        Arrays of pyarrow, int64; None if the lines are not all like this and of the same cells'
        lengths.
    """
    line = data[: data.find(b"\n") + 1]
    cells = line[:-1].split(delimiter)
    rows, rest = divmod(len(data), len(line) or 1)
    sizes = [len(cell) for cell in cells]
    if rest or len(line) < _WORD or len(cells) != width or max(sizes) > _MOST_DIGITS:
        return None
    characters = np.frombuffer(data, np.uint8)
    ends = np.cumsum([size + 1 for size in sizes]) - 1
    table = characters.reshape(rows, len(line))
    # No other character than these is not a digit.
    aligned = all((table[:, end] == line[end]).all() for end in ends.tolist())
    if not aligned or np.count_nonzero(characters - ord("0") > 9) != rows * width:
        return None
    found = [_numbers(data, int(ends[n]), sizes[n], len(line)) for n in wanted]
    # Larger ones have become negative.
    return None if any((one < 0).any() for one in found) else [pa.array(one) for one in found]


def _numbers(data: bytes, end: int, digits: int, stride: int) -> np.ndarray:
    """Return the numbers of a column that ends at ``end`` in lines of ``stride`` bytes."""
    rows, total, left = len(data) // stride, np.zeros(1, np.uint64), digits
    while left:
        taken = left % _WORD or _WORD
        left -= taken
        last = end - left
        first = max(last - _WORD, 0)
        word = np.ndarray((rows,), "<u8", data, first, (stride,))
        # The digits are the last bytes of the word.
        shown = _NOT_DIGITS >> _WORD * (_WORD - taken) << _WORD * (_WORD - taken)
        word = (word << _WORD * (first + _WORD - last)) & shown
        word = word[:1] if (word == word[0]).all() else word
        total = total * 10**taken + _eight(word)
    return np.broadcast_to(total, rows).astype(np.int64)


def _eight(digits: np.ndarray) -> np.ndarray:
    """Return the number of eight digits, whose first is the lowest byte of a word."""
    pairs = (digits * (10 * 2**8 + 1)) >> 8 & 0x00FF00FF00FF00FF
    fours = (pairs * (100 * 2**16 + 1)) >> 16 & 0x0000FFFF0000FFFF
    return (fours * (10_000 * 2**32 + 1)) >> 32
