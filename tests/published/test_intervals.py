"""Ranges of printed digits: what a number stands for, and arithmetic that never loses it."""

import math
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tsnrepro.published.intervals import Interval, extreme, mean, total

NUMBERS = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)
DECIMALS = st.integers(min_value=0, max_value=4)


@st.composite
def known_to_a_range(draw):
    """Draw a range and a number that lies in it."""
    ends = sorted((draw(NUMBERS), draw(NUMBERS)))
    inside = draw(st.floats(min_value=ends[0], max_value=ends[1]))
    return Interval(ends[0], *ends), inside


def holds(interval, number):
    """Tell whether a range covers a number, up to the last bits."""
    slack = 1e-9 * max(1, abs(number))
    return interval.low - slack <= number <= interval.high + slack


@given(NUMBERS, DECIMALS)
def test_printed_digits_cover_the_number_they_were_rounded_from(number, decimals):
    printed = Interval.printed(f"{number:.{decimals}f}")
    assert holds(printed, number)
    assert printed.high - printed.low == pytest.approx(10.0**-decimals)


@pytest.mark.parametrize(
    ("text", "qualifier", "low", "high"),
    [
        ("530", None, 529.5, 530.5),
        ("+33.2", None, 33.15, 33.25),
        ("-0.8", None, -0.85, -0.75),
        ("0.000", None, -0.0005, 0.0005),
        ("250", "approximately", 245, 255),
        ("70", "approximately", 65, 75),
        ("0.05", "approximately", 0.045, 0.055),
        ("886", "approximately", 885.5, 886.5),
        ("338", "below", -math.inf, 338),
        ("100", "at-least", 100, math.inf),
        ("1e3", None, 1000, 1000),
    ],
)
def test_printed_digits_and_words_give_a_range(text, qualifier, low, high):
    printed = Interval.printed(text, qualifier)
    assert (printed.low, printed.high) == pytest.approx((low, high))
    assert printed.value == float(text)


def test_words_are_no_number():
    with pytest.raises(ValueError, match="could not convert"):
        Interval.printed("LAN9668")


@given(known_to_a_range(), known_to_a_range())
def test_arithmetic_covers_every_reading_of_its_operands(first, second):
    (a, x), (b, y) = first, second
    assert holds(a + b, x + y)
    assert holds(a - b, x - y)
    assert holds(a * b, x * y)
    assert holds(-a, -x)
    assert holds(abs(a), abs(x))
    assert holds(a ** Interval.exact(2), x * x)
    assert holds(total([a, b]), x + y)
    assert holds(mean([a, b]), (x + y) / 2)
    assert holds(extreme(min, [a, b]), min(x, y))
    assert holds(extreme(max, [a, b]), max(x, y))


@given(known_to_a_range(), known_to_a_range())
def test_division_covers_every_reading_of_its_operands(first, second):
    (a, x), (b, y) = first, second
    assume(abs(b.value) > 1e-3 and abs(y) > 1e-3)
    assert holds(a / b, x / y)


@pytest.mark.parametrize("value", [0.5, 0])
def test_a_divisor_that_may_be_zero_leaves_the_quotient_open(value):
    quotient = Interval.exact(1) / Interval(value, -1, 1)
    assert (quotient.low, quotient.high) == (-math.inf, math.inf)
    with pytest.raises(ZeroDivisionError):
        Interval.exact(1) / Interval.exact(0)


@pytest.mark.parametrize("exponent", [Interval.exact(-1), Interval.exact(0.5), Interval(2, 1, 3)])
def test_only_whole_powers_are_taken(exponent):
    with pytest.raises(ValueError, match="exponent"):
        Interval.exact(2) ** exponent


def test_no_numbers_have_no_mean():
    with pytest.raises(ValueError, match="no numbers"):
        mean([])


@pytest.mark.parametrize(
    ("a", "b", "tolerance", "expected"),
    [
        ("33.2", "33.17", 0, True),
        ("6.6", "7.02", 0, False),
        ("40.7", "40.62", 0, False),
        ("530", "540", 0.01, False),
        ("530", "540", 0.02, True),
    ],
)
def test_two_numbers_agree_as_far_as_their_digits_go(a, b, tolerance, expected):
    assert Interval.printed(a).overlaps(Interval.printed(b), tolerance) is expected
    assert Interval.printed(b).overlaps(Interval.printed(a), tolerance) is expected


@given(st.decimals(min_value=1, max_value=9999, places=2), st.integers(1, 9999), DECIMALS)
def test_a_percentage_printed_from_its_parts_always_agrees_with_them(part, whole, decimals):
    printed = Interval.printed(f"{100 * part / Decimal(whole):.{decimals}f}")
    recomputed = Interval.exact(100) * Interval.printed(str(part)) / Interval.printed(str(whole))
    assert printed.overlaps(recomputed)


def test_a_narrowed_range_keeps_its_value_and_what_is_endless():
    assert Interval(5, 1, 13).narrowed(4) == Interval(5, 4, 7)
    assert Interval(5, 1, math.inf).narrowed(2) == Interval(5, 3, math.inf)
    assert Interval(5, 1, math.inf).narrowed(math.inf) == Interval.exact(5)
