"""Compiled loops over the values of a long series."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def tally(bits, values, edges, counts, ends):
    """Count values in bins of 2**shift keys, and keep the smallest and the largest of each bin.

    ``bits`` are the bits of the values as signed words. ``edges`` are the lowest key, the highest
    and the shift; the first bin counts values below the lowest key, the last those from the highest
    on.
    """
    low, high, shift = edges
    least, greatest = ends
    last = len(counts) - 1
    for i in range(len(values)):
        key = bits[i] ^ ((bits[i] >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
        if key == -1:  # negative zero, which equals positive zero
            key = 0
        if key < low:
            at = 0
        elif key >= high:
            at = last
        else:
            # Unsigned: the distance of lowest and highest key exceeds a signed word.
            at = 1 + np.int64((np.uint64(key) - np.uint64(low)) >> np.uint64(shift))
        counts[at] += 1
        least[at] = min(least[at], values[i])
        greatest[at] = max(greatest[at], values[i])


@njit(cache=True, nogil=True)
def gather(values, low, high, found, where):
    """Write values within windows, and the windows' numbers, to arrays; return their count."""
    count = 0
    for i in range(len(values)):
        first, beyond = 0, len(low)
        while first < beyond:
            middle = (first + beyond) // 2
            if values[i] > high[middle]:
                first = middle + 1
            else:
                beyond = middle
        if first < len(low) and values[i] >= low[first]:
            found[count], where[count] = values[i], first
            count += 1
    return count
