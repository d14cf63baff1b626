"""CSV of send and receive times: exact differences, missing packets, NUL bytes, broken rows."""

import os
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_files import source_file

from tsnrepro.common.errors import RecordError
from tsnrepro.imports.mapping import Times
from tsnrepro.imports.readers import packet_times
from tsnrepro.imports.screening import NoMeasurementError

NAMED = Times(sent="tx", received="rx", unit="ns")
SECONDS = Times(sent=1, received=2, unit="s")

packets = st.lists(
    st.tuples(st.integers(10**18, 2 * 10**18), st.integers(1, 10**9)), min_size=1, max_size=30
)


def read(text, times, row_range=None):
    return packet_times.read(source_file(text), times, row_range)


def text_of(rows, header="tx,rx"):
    return "\n".join([header, *(f"{sent},{received}" for sent, received in rows)]) + "\n"


@given(packets)
def test_nanoseconds_since_1970_keep_every_digit(rows):
    found = read(text_of([(t, t + d) for t, d in rows]).encode(), NAMED)
    assert found.latencies_us.tolist() == [d / 1000 for _, d in rows]
    assert (found.sent, found.received) == (len(rows), len(rows))


@given(packets)
def test_decimal_seconds_keep_every_digit(rows):
    def seconds(nanoseconds):
        return f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"

    text = "".join(f"{i},{seconds(t)},{seconds(t + d)}\n" for i, (t, d) in enumerate(rows))
    found = read(text.encode(), SECONDS)
    assert found.latencies_us.tolist() == pytest.approx([d / 1000 for _, d in rows], rel=1e-12)


def printed_seconds(nanoseconds, draw):
    """Return a time in seconds as one of many programs prints it."""
    whole, part = divmod(nanoseconds, 10**9)
    exact = f"{whole}.{part:09d}"
    ways = [exact, exact + "000", f" {exact}", f"{exact} ", f"+{exact}", f"{nanoseconds}e-9"]
    ways += [exact.rstrip("0"), f"0{exact}"] + ([str(whole)] if not part else [])
    return draw(st.sampled_from(ways)) if draw else exact


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2 * 10**9).map(lambda tenths: tenths * 10**8) | st.integers(0, 10**18),
            st.integers(1, 10**9) | st.integers(1, 10).map(lambda tenths: tenths * 10**8),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.data(),
)
def test_decimals_are_exact_however_they_are_printed(rows, end, data):
    mixed = data.draw(st.booleans())
    lines, arrived = [], []
    for sent, delay in rows:
        lost = data.draw(st.booleans())
        cells = [
            printed_seconds(time, data.draw if mixed else None) for time in (sent, sent + delay)
        ]
        word = data.draw(st.sampled_from(["", "NA", "0"]))
        lines.append(f"10.0.0.1,{cells[0]},{word if lost else cells[1]},x")
        arrived += [] if lost else [delay / 1000]
    times = SECONDS.model_copy(update={"missing": ["0"]})
    if not arrived:
        return
    found = read(end.join(lines).encode(), times)
    assert found.latencies_us.tolist() == pytest.approx(arrived, rel=1e-12)
    assert (found.sent, found.skipped_rows) == (len(rows), 0)


@pytest.mark.parametrize(
    "cell", ["0x1.5", "0x15", "1.5.5", "1.-5", "-.x5", "1. 5", "1.5e", "1._5", "5.0x1", "'1.5'"]
)
def test_what_is_no_decimal_is_not_made_one(cell):
    found = read(
        f"tx,rx\n0.5,1.5\n0.5,{cell}\n".encode(), Times(sent="tx", received="rx", unit="s")
    )
    assert (found.latencies_us.tolist(), found.skipped_rows) == ([1e6], 1)
    found = read(f"tx,rx\n5,15\n5,{cell}\n".encode(), Times(sent="tx", received="rx", unit="s"))
    assert (found.latencies_us.tolist(), found.skipped_rows) == ([1e7], 1)


@given(packets, st.sampled_from(["", "NA", "nan", "lost"]), st.data())
def test_a_packet_without_arrival_is_sent_and_not_received(rows, word, data):
    gone = data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=len(rows) - 1))
    lines = [(t, word if i in gone else t + d) for i, (t, d) in enumerate(rows)]
    times = NAMED.model_copy(update={"missing": ["lost"]})
    found = read(text_of(lines).encode(), times)
    assert (found.sent, found.received) == (len(rows), len(rows) - len(gone))
    assert found.skipped_rows == 0


@given(packets, st.integers(1, 5), st.data())
def test_nul_bytes_anywhere_change_nothing_and_are_counted(rows, count, data):
    whole = text_of([(t, t + d) for t, d in rows]).encode()
    damaged = bytearray(whole)
    for _ in range(count):
        damaged.insert(data.draw(st.integers(0, len(damaged))), 0)
    file = source_file(bytes(damaged))
    assert (file.nul_bytes, file.clean) == (count, whole)
    file = source_file(bytes(damaged))
    found = packet_times.read(file, NAMED)
    assert file.nul_bytes == count  # counted block by block
    assert found.latencies_us.tolist() == [d / 1000 for _, d in rows]


def test_invalid_rows_are_skipped_and_reported():
    text = "tx,rx\n1000,3000\n2000\n3000,oops\nx,5000\n4000,9000\n"
    found = read(text.encode(), NAMED)
    assert found.latencies_us.tolist() == [2.0, 5.0]
    assert found.skipped_rows == 3
    reasons = dict(found.skipped)
    assert any("1 cells for 2" in reason for reason in reasons.values())
    assert any("oops" in reason for reason in reasons.values())
    assert found.sent == 2


def test_the_span_of_sending():
    found = read(b"tx,rx\n1000000000,1000000500\n3500000000,3500000100\n", NAMED)
    assert found.span_s == float(Fraction(5, 2))


def test_numbers_with_exponents():
    found = read(b"tx,rx\n1e3,2.5e3\n", NAMED)
    assert found.latencies_us.tolist() == [1.5]


def test_another_delimiter_and_more_columns():
    times = Times(sent="tx_us", received="rx_us", unit="us", delimiter=";")
    found = read(b"seq;tx_us;size;rx_us\n1;10.5;64;30.25\n", times)
    assert found.latencies_us.tolist() == [19.75]


@pytest.mark.parametrize("damaged", [False, True])
def test_decimal_commas(damaged):
    times = Times(sent="tx", received="rx", unit="s", delimiter=";", decimal=",")
    text = "tx;rx\n1,000100;1,000350\n2;2,5\n" + ("x;1\n3.5;4.5\n" if damaged else "")
    found = read(text.encode(), times)
    assert found.latencies_us.tolist() == pytest.approx([250, 500_000])
    assert found.skipped_rows == 2 * damaged
    point = Times(sent="tx", received="rx", unit="s", delimiter=";")
    with pytest.raises(NoMeasurementError, match="decimal comma") as error:
        read(text.replace("2;2,5\n", "").replace("3.5;4.5\n", "").encode(), point)
    assert "decimal: ','" in error.value.remedy
    # The key is recorded only where it is set, so that trials keep their names.
    assert ("decimal" in times.recorded(), "decimal" in point.recorded()) == (True, False)


def test_times_of_day_are_no_latencies():
    with pytest.raises(NoMeasurementError, match="time of day"):
        read(b"rx\n1764338400000000000\n1764338400000000500\n", Times(latency="rx", unit="ns"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tx,rx\n", "no row with"),
        ("tx,rx\n100,\n", "no row with the times"),
        ("tx,rx\n100,50\n300,400\n", "1 of 2 packets arrive when or before they are sent"),
        ("tx,rx\n100,0\n", "named?|list it under times"),
        ("Traceback (most recent call last):\n  File ...\n", "Traceback"),
        ("usage: capture.py [-h] iface\n", "usage"),
    ],
)
def test_files_without_measurement_are_refused(text, reason):
    with pytest.raises(NoMeasurementError) as caught:
        read(text.encode(), NAMED)
    assert caught.match(reason)


def excel(nanoseconds):
    return f"{nanoseconds:.14E}"


def as_a_double(nanoseconds):
    return int(float(nanoseconds))


@pytest.mark.parametrize(
    ("rounded", "delay", "step"), [(excel, 40_000, "10 us"), (as_a_double, 1500, "0.256 us")]
)
def test_times_that_were_rounded(rounded, delay, step):
    def text(delay):
        sent = [1_764_338_400_123_456_789 + 10_007_001 * i for i in range(5)]
        return text_of([(rounded(time), rounded(time + delay)) for time in sent]).encode()

    with pytest.raises(NoMeasurementError, match=f"rounded to {step}"):
        read(text(delay), NAMED)
    # Much longer ones are known well enough, and clocks of a microsecond are not rounded so.
    assert read(text(100 * delay), NAMED).latencies_us == pytest.approx([delay / 10] * 5, rel=0.1)
    microseconds = [(1_764_338_400_123_456_000, 1_764_338_400_123_476_000)]
    assert read(text_of(microseconds).encode(), NAMED).latencies_us.tolist() == [20]


def test_few_times_that_end_in_zeros_by_chance():
    sent = 256 * (10**18 // 256 + 1)
    assert read(text_of([(sent, sent + 256)]).encode(), NAMED).latencies_us == [0.256]


def test_infinite_times():
    with pytest.raises(NoMeasurementError, match="arrive when or before"):
        read(b"tx,rx\n1e999,1e999\n", NAMED)


def test_latencies_shorter_than_light_takes():
    with pytest.raises(NoMeasurementError, match=r"at most 0\.1 ns") as error:
        read(b"tx,rx\n1700000000.1,1700000000.2\n", NAMED)
    assert "unit" in error.value.remedy


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ("1000ns,2000ns", "no row.*1000ns, 2000ns"),
        ("2026-11-28T14:00:00Z,2026-11-28T14:00:01Z", "no row.*2026-11-28T"),
        ('"1,000","2,000"', "decimal comma"),
    ],
)
def test_the_first_row_that_is_none_is_shown(cells, reason):
    with pytest.raises(NoMeasurementError, match=reason):
        read(f"tx,rx\n{cells}\n".encode(), NAMED)


def test_a_block_of_blank_lines():
    found = read(b"tx,rx\n1.5,2.5\n" + (1 << 23) * b"\n" + b"2.5,3.25\n", NAMED)
    assert found.latencies_us.tolist() == [0.001, 0.00075]


def test_carriage_returns_alone():
    assert read(b"tx,rx\r1000,2000\r3000,4500\r", NAMED).latencies_us.tolist() == [1.0, 1.5]


def test_a_missing_column_is_an_error_of_the_mapping():
    with pytest.raises(RecordError, match=r"no column 'rx'.*There are: tx, arrival"):
        read(b"tx,arrival\n1,2\n", NAMED)
    with pytest.raises(RecordError, match="times in the mapping"):
        read(b"1,2\n", Times(sent=0, received=5, unit="s"))


def test_two_tests_in_a_file_are_refused():
    text = text_of([(1000, 2000), (3000, 4500)])
    with pytest.raises(NoMeasurementError, match="header line is repeated"):
        read(text + text, NAMED)


READ = """
import sys
from reader_files import source_file
from tsnrepro.imports.mapping import Times
from tsnrepro.imports.readers import packet_times
times = Times(sent="tx", received="rx", unit="us")
print(packet_times.read(source_file(sys.stdin.buffer.read()), times).latencies_us.tolist())
"""


@pytest.mark.parametrize("rest", ["", "oops,1\n"])
@pytest.mark.parametrize(
    "zero", ["0e-400999999", "0E-99", "0e-0000400999999", "0e999999999", f"0.{10**7 * '0'}"],
    ids=["far below", "below", "zeros before", "above", "decimals"],
)  # fmt: skip
def test_numbers_with_too_many_decimals_do_not_end_the_process(zero, rest):
    # In another process, which pyarrow would end by a signal.
    text = f"tx,rx\n1.5,3.5\n{zero},2.5\n{rest}"
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", READ], input=text.encode(), env=paths,
                          capture_output=True, check=False)  # fmt: skip
    assert done.stdout == b"[2.0, 2.5]\n" or b"RecordError: not a CSV" in done.stderr
