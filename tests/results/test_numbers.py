"""Numbers as they are printed."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.results.numbers import TEX, TEXT, interval, limits, number, printed

FINITE = st.floats(-1e9, 1e9, allow_nan=False)


def read(text):
    """Return the number that a reader sees."""
    plain = text.replace("−", "-").replace("\N{NARROW NO-BREAK SPACE}", "")
    return Decimal(plain.removeprefix("<"))


@given(FINITE, st.integers(0, 6), st.booleans())
def test_a_number_is_rounded_to_the_digits(value, digits, signed):
    text = number(value, digits, TEXT, signed=signed)
    half = Decimal(5).scaleb(-digits - 1)
    assert abs(read(text) - Decimal(value)) <= half or text.startswith("<")
    assert len(text.partition(".")[2]) == digits


@given(st.floats(1e-12, 1e9), st.integers(0, 6))
def test_a_positive_number_never_prints_as_zero(value, digits):
    assert re.search("[1-9]", number(value, digits, TEXT))


def test_zero_prints_as_zero_with_and_without_sign():
    assert number(0, 3, TEXT) == "0.000"
    assert number(-0.0, 1, TEXT, signed=True) == "0.0"
    assert number(-0.0004, 3, TEXT, signed=True) == "0.000"
    assert number(0.0004, 3, TEXT, signed=True) == "0.000"
    assert number(0.0004, 3, TEXT) == "<0.001"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(9999, "9999"), (10000, r"10\,000"), (1234567.25, r"1\,234\,567.2"), (-12345.6, None)],
)
def test_groups_start_at_five_digits(value, expected):
    digits = 0 if isinstance(value, int) else 1
    assert number(value, digits, TEX) == (expected or r"\ensuremath{-}12\,345.6")


def test_signed_numbers_have_plus_and_minus():
    assert number(1.5, 1, TEXT, signed=True) == "+1.5"
    assert number(-1.5, 1, TEXT, signed=True) == "−1.5"


@pytest.mark.parametrize(
    ("triple", "expected"),
    [
        ((5.0, 4.0, 6.0), "5 [4, 6]"),
        ((5.0, None, None), "5"),
        ((5.0, 4.0, None), "5 [4, –]"),
        ((None, None, None), "–"),
        ((None, 700.0, None), "≥\N{NARROW NO-BREAK SPACE}700"),
        ((None, 0.0, 300.0), "≤\N{NARROW NO-BREAK SPACE}300"),
        ((None, None, 300.0), "≤\N{NARROW NO-BREAK SPACE}300"),
        ((None, 200.0, 300.0), "[200, 300]"),
    ],
)
def test_an_interval_has_the_known_limits(triple, expected):
    assert interval(*triple, 0, TEXT) == expected


def test_limits_stand_alone():
    assert limits(1.0, 2.0, 1, TEXT) == "[1.0, 2.0]"
    assert limits(None, None, 1, TEXT) == "–"


@pytest.mark.parametrize(
    ("text", "qualifier", "expected"),
    [
        ("941.0", None, "941.0"),
        ("+0.04", None, "+0.04"),
        ("-0.8", None, "−0.8"),
        ("0.5", "approximately", "~0.5"),
        ("0.001", "below", "<0.001"),
        ("3", "above", ">3"),
        ("3", "at-least", "≥\N{NARROW NO-BREAK SPACE}3"),
        ("556002", None, "556\N{NARROW NO-BREAK SPACE}002"),
        ("", None, "–"),
        ("LAN9668", None, "LAN9668"),
    ],
)
def test_published_cells_keep_their_digits(text, qualifier, expected):
    assert printed(text, qualifier, TEXT) == expected


def test_an_exact_zero_without_limits_has_no_decimals():
    assert interval(0.0, None, None, 4, TEXT) == "0"
    assert interval(0.0, 0.0, 0.3, 1, TEXT) == "0.0 [0.0, 0.3]"
    assert interval(0.00001, None, None, 4, TEXT) == "<0.0001"


def test_limits_that_print_as_the_value_are_left_out():
    assert interval(530.0, 529.99, 530.01, 1, TEXT) == "530.0"
    assert interval(0.001, -0.001, 0.002, 1, TEXT, signed=True) == "0.0"
    assert interval(530.0, 529.99, 530.01, 1, TEXT, seen=True) == "530.0"
    assert interval(530.0, 529.99, 530.06, 1, TEXT) == "530.0 [530.0, 530.1]"


def test_a_range_of_observed_values_is_not_printed_as_an_interval():
    assert interval(2.0, 1.0, 3.0, 1, TEXT, seen=True) == "2.0 (1.0 … 3.0)"
    assert interval(None, 1.0, 3.0, 0, TEXT, seen=True) == "1 … 3"
    assert interval(None, 1.0, None, 0, TEXT, seen=True) == interval(None, 1.0, None, 0, TEXT)
    assert limits(-1.0, 3.0, 1, TEX, seen=True) == r"\ensuremath{-}1.0\,\ldots\,3.0"
