"""Units: known factors, and exactness."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.imports.units import FACTORS, factor, scaled


@pytest.mark.parametrize(
    ("quantity", "number", "unit", "own", "expected"),
    [
        ("rate", 941296785.86, "bit/s", "Mb/s", 941.29678586),
        ("rate", 500, "kbps", "Mb/s", 0.5),
        ("rate", 1.5, "Gb/s", "Mb/s", 1500),
        ("rate", 1, "MB/s", "Mb/s", 8),
        ("rate", 1, "Mb/s", "Mb/s", 1),
        # iperf3 -f M counts in powers of two
        ("rate", 1, "MBytes/sec", "Mb/s", 8.388608),
        # tc -iec, by the prefixes of IEC 80000-13
        ("rate", 1, "Mibit/s", "Mb/s", 1.048576),
        ("rate", 1, "GB/s", "Mb/s", 8000),
        ("share", 0.001, "ratio", "percent", 0.1),
        ("share", 12, "ppm", "percent", 0.0012),
        ("time", 54000, "ns", "us", 54),
        ("time", 1500, "ps", "us", 0.0015),
        ("time", 0.25, "ms", "us", 250),
        ("time", 1, "min", "s", 60),
        ("size", 512, "bits", "bytes", 64),
    ],
)
def test_conversion_to_the_unit_of_a_field(quantity, number, unit, own, expected):
    assert scaled(number, factor(quantity, unit, own)) == pytest.approx(expected, rel=1e-15)


def test_bits_and_bytes_differ_by_a_capital():
    assert factor("rate", "MB/s", "bit/s") == 8 * factor("rate", "Mb/s", "bit/s")


def test_an_unknown_unit_names_the_known_ones():
    with pytest.raises(ConfigurationError, match=r"'furlong'.*There are: .*us"):
        factor("time", "furlong", "us")


@given(st.sampled_from(sorted(FACTORS)), st.data())
def test_conversion_and_back_is_exact(quantity, data):
    units = st.sampled_from(sorted(FACTORS[quantity]))
    one, other = data.draw(units), data.draw(units)
    assert factor(quantity, one, other) * factor(quantity, other, one) == 1


@given(st.floats(1e-6, 1e9), st.integers(1, 10**9), st.integers(1, 10**9))
def test_scaling_rounds_no_more_than_twice(number, numerator, denominator):
    by = Fraction(numerator, denominator)
    exact = Fraction(number) * by
    assert abs(Fraction(scaled(number, by)) - exact) <= exact * Fraction(1, 2**51)


@given(st.integers(-(10**12), 10**12))
def test_an_integer_in_the_unit_of_the_field_is_unchanged(number):
    assert scaled(number, Fraction(1)) == number
    assert isinstance(scaled(number, Fraction(1)), int)
