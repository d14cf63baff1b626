"""Integers in lines of one length: read as they were written, or left to the reader of CSV."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tsnrepro.imports.readers import aligned


def lines_of(rows, delimiter=","):
    return "".join(delimiter.join(row) + "\n" for row in rows).encode()


@st.composite
def tables(draw):
    sizes = draw(st.lists(st.integers(1, 19), min_size=1, max_size=4))
    cell = [st.text("0123456789", min_size=size, max_size=size) for size in sizes]
    return draw(st.lists(st.tuples(*cell), min_size=1, max_size=8))


def numbers(rows):
    return [[int(cell) for cell in column] for column in zip(*rows, strict=True)]


def read(rows, data=None):
    width = len(rows[0])
    found = aligned.integers(lines_of(rows) if data is None else data, b",", width, range(width))
    return None if found is None else [column.to_pylist() for column in found]


@given(tables())
@example([("9223372036854775807", "1"), ("9223372036854775807", "2")])
def test_every_digit_is_kept(rows):
    expected = numbers(rows)
    too_large = any(number >= 2**63 for column in expected for number in column)
    short = len(lines_of(rows[:1])) < 8
    assert read(rows) == (None if too_large or short else expected)


@given(tables(), st.data())
def test_a_line_unlike_the_others_is_left_to_the_reader_of_csv(rows, data):
    text = bytearray(lines_of(rows))
    text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from(b'0,\n x-+.\r"\x00'))
    found = read(rows, bytes(text))
    if found is not None:
        assert found == numbers([line.split(b",") for line in bytes(text).splitlines()])


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"1,2\n", b"1234567,1234567", b"1234567,123\n1234567,1234\n",
             b"-123456,1\n", b"1234567,1\r\n", b"123456 ,1\n", b"12345678901234567890,1\n"]
)  # fmt: skip
def test_what_is_left_to_the_reader_of_csv(text):
    assert aligned.integers(text, b",", 2, [0]) is None


def test_wanted_columns_and_another_delimiter():
    times = np.arange(1000) * 20_011 + 1_700_000_000 * 10**9
    rows = [(f"{number:07}", str(time), "1472") for number, time in enumerate(times.tolist())]
    found = aligned.integers(lines_of(rows, ";"), b";", 3, [1])
    assert found is not None
    assert [column.to_pylist() for column in found] == [times.tolist()]
