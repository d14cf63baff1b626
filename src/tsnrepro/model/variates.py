"""Random variates that are the same on every machine: Philox in integers, logarithm by arithmetic.

Each random process of a network (the loss of a direction of a link, the service times of a process,
...) has a separate stream, keyed by the seed and its name. Adding a stream, or drawing more from
one, changes no other: two configurations with one seed have common random numbers.

Source: J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC11 (2011), Philox4x64
with ten rounds; the output equals that of ``numpy.random.Philox`` with the same key.
"""

import hashlib
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.random import SeedSequence

from tsnrepro.model.compiled import kernel

STREAM_WORDS: Final = 8
"""Words of one stream's state: key (two), counter, lane, block (four)."""

PROBABILITY_ONE: Final = 1 << 53
"""Threshold of probability 1 for a draw of 53 bits; probability p is floor(p x 2^53)."""

CONSTANT: Final = 0
ERLANG: Final = 1

_KEY_0, _KEY_1, _COUNTER, _LANE, _BLOCK = 0, 1, 2, 3, 4
_LANES: Final = 4
_MULTIPLIER_0 = np.uint64(0xD2E7470EE14C6C93)
_MULTIPLIER_1 = np.uint64(0xCA5A826395121157)
_WEYL_0 = np.uint64(0x9E3779B97F4A7C15)
_WEYL_1 = np.uint64(0xBB67AE8584CAA73B)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_WORD = np.uint64(32)
_ZERO = np.uint64(0)
_ELEVEN = np.uint64(11)
_LN_2: Final = 0.6931471805599453
_SQRT_2: Final = 1.4142135623730951
_MANTISSA: Final = (1 << 52) - 1
_EXPONENT_OF_ONE: Final = 1023
_BITS_OF_ONE: Final = _EXPONENT_OF_ONE << 52


def child_seeds(seed: int | SeedSequence, count: int) -> list[SeedSequence]:
    """Return ``count`` independent seeds for replications of one experiment."""
    parent = seed if isinstance(seed, SeedSequence) else SeedSequence(seed)
    # A copy, because spawn() changes the parent, and the same call has to return the same children.
    return SeedSequence(parent.entropy, spawn_key=parent.spawn_key).spawn(count)


def stream_state(seed: SeedSequence, name: str) -> npt.NDArray[np.int64]:
    """Return the initial state of the stream ``name`` of ``seed``, shape (STREAM_WORDS,)."""
    digest = hashlib.sha256(name.encode()).digest()
    words = tuple(int.from_bytes(digest[at : at + 4], "big") for at in (0, 4, 8))
    key = SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *words))
    state = np.zeros(STREAM_WORDS, np.int64)
    state[_KEY_0 : _KEY_1 + 1] = key.generate_state(2, np.uint64).view(np.int64)
    state[_LANE] = _LANES
    return state


@kernel
def _high_word(a, b):
    """Return the upper 64 bits of the product of two 64-bit words."""
    a_low, a_high = a & _LOW_HALF, a >> _HALF_WORD
    b_low, b_high = b & _LOW_HALF, b >> _HALF_WORD
    middle = a_high * b_low + ((a_low * b_low) >> _HALF_WORD)
    carry = (middle & _LOW_HALF) + a_low * b_high
    return a_high * b_high + (middle >> _HALF_WORD) + (carry >> _HALF_WORD)


@kernel
def _next_block(memory, stream):
    memory[stream + _COUNTER] += 1
    key_0, key_1 = np.uint64(memory[stream + _KEY_0]), np.uint64(memory[stream + _KEY_1])
    word_0, word_1 = np.uint64(memory[stream + _COUNTER]), _ZERO
    word_2, word_3 = _ZERO, _ZERO
    for _ in range(10):
        high_0 = _high_word(_MULTIPLIER_0, word_0)
        high_1 = _high_word(_MULTIPLIER_1, word_2)
        low_0, low_1 = _MULTIPLIER_0 * word_0, _MULTIPLIER_1 * word_2
        word_0, word_1 = high_1 ^ word_1 ^ key_0, low_1
        word_2, word_3 = high_0 ^ word_3 ^ key_1, low_0
        key_0, key_1 = key_0 + _WEYL_0, key_1 + _WEYL_1
    memory[stream + _BLOCK] = np.int64(word_0)
    memory[stream + _BLOCK + 1] = np.int64(word_1)
    memory[stream + _BLOCK + 2] = np.int64(word_2)
    memory[stream + _BLOCK + 3] = np.int64(word_3)


@kernel
def draw_bits(memory, stream):
    """Return 53 random bits of the stream at an address as a signed integer."""
    lane = memory[stream + _LANE]
    if lane == _LANES:
        _next_block(memory, stream)
        lane = 0
    memory[stream + _LANE] = lane + 1
    return np.int64(np.uint64(memory[stream + _BLOCK + lane]) >> _ELEVEN)


@kernel
def minus_log(x):
    """Return -log(x) for a positive normal double, by IEEE 754 arithmetic only.

    Logarithms of libraries are rounded differently; sums, products and quotients are the same
    everywhere. log m = 2 artanh((m - 1) / (m + 1)) for a mantissa between sqrt(1/2) and sqrt(2).
    """
    bits = np.float64(x).view(np.int64)
    exponent = (bits >> 52) - _EXPONENT_OF_ONE
    mantissa = np.int64((bits & _MANTISSA) | _BITS_OF_ONE).view(np.float64)
    if mantissa > _SQRT_2:
        mantissa *= 0.5
        exponent += 1
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = 0.0
    for term in range(21, 0, -2):
        series = series * square + 1.0 / term
    return -(exponent * _LN_2 + 2.0 * ratio * series)


@kernel
def draw_exponential(memory, stream):
    """Return an exponential variate of mean 1."""
    return minus_log((draw_bits(memory, stream) + 0.5) * (1.0 / 9007199254740992.0))


@kernel
def draw_duration(memory, duration):
    """Return a constant or Erlang duration in integer picoseconds, from its record."""
    mean = duration.mean_ps
    if duration.kind == CONSTANT:
        return mean
    shape = duration.phases
    total = 0.0
    for _ in range(shape):
        total += draw_exponential(memory, duration.random)
    return np.int64(total * (mean / shape) + 0.5)
