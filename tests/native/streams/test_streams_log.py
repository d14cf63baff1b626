"""Logs: read whole or refused, and compressed without loss."""

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tsnrepro.common.errors import RecordError, ToolError
from tsnrepro.native.streams import log


def arrivals(count: int) -> np.ndarray:
    records = np.zeros(count, log.LISTENER_DTYPE)
    records["stream"], records["sequence"] = 5001, np.arange(count)
    records["sent_ns"] = 1_795_000_000_000_000_000 + np.arange(count) * 100_000
    records["received_ns"] = records["sent_ns"] + 4000
    return records


@pytest.mark.parametrize("dtype", [log.LISTENER_DTYPE, log.TALKER_DTYPE])
def test_a_record_is_32_bytes_without_padding(dtype):
    assert dtype.itemsize == 32
    assert [dtype.fields[name][1] for name in dtype.names] == [0, 4, 8, 16, 24]


def test_bytes_are_little_endian():
    data = (
        (7).to_bytes(4, "little")
        + (8).to_bytes(4, "little")
        + b"".join(value.to_bytes(8, "little") for value in (2**60, 2**61, 0))
    )
    (record,) = log.read_listener_log(data)
    assert record.tolist() == (7, 8, 2**60, 2**61, 0)


@pytest.mark.parametrize("rest", [1, 31])
def test_a_truncated_log_names_how_much_is_there(tmp_path, rest):
    path = tmp_path / "arrivals"
    path.write_bytes(arrivals(3).tobytes() + b"x" * rest)
    with pytest.raises(ToolError, match=f"{96 + rest} bytes ends {rest} bytes into record 3") as e:
        log.read_listener_log(path)
    assert e.value.where == str(path)
    assert "3 whole records of 32 bytes" in e.value.remedy


def test_an_empty_log_is_no_arrivals():
    assert len(log.read_listener_log(b"")) == 0


def test_a_log_travels_as_text():
    data = arrivals(100).tobytes()
    text = base64.encodebytes(data).decode()
    assert log.decode_log(text) == data
    with pytest.raises(ToolError, match="in base64 cannot be read"):
        log.decode_log("?" + text)
    with pytest.raises(ToolError, match="in base64 cannot be read"):
        log.decode_log(text.strip()[:-3])


@given(hnp.arrays(log.LISTENER_DTYPE, st.integers(0, 30)))
def test_compression_loses_nothing(records):
    data = log.compress(records)
    back = log.decompress(data)
    assert back.dtype == records.dtype
    np.testing.assert_array_equal(back, records)
    assert log.compress(back) == data


def test_a_steady_stream_takes_a_tenth_of_its_bytes():
    records = arrivals(20_000)
    assert len(log.compress(records)) < records.nbytes / 10


def test_what_is_no_compressed_log_is_refused():
    with pytest.raises(RecordError, match="cannot be read"):
        log.decompress(b"no parquet")
    with pytest.raises(RecordError, match="cannot be read"):
        log.decompress(log.compress(arrivals(100))[:-50])
    with pytest.raises(RecordError, match="has the columns sequence"):
        log.decompress(log.compress(arrivals(4)[["sequence"]]))


def test_queue_times_stand_beside_the_arrivals_of_the_same_number():
    received = arrivals(4)[[0, 3, 1]]
    departures = np.zeros(3, log.TALKER_DTYPE)
    departures["sequence"], departures["stamped_ns"] = np.arange(3), [10, 20, 30]
    found = log.with_queue_times(received, departures)
    assert found["queued_ns"].tolist() == [10, 0, 20]
    assert found["sequence"].tolist() == [0, 3, 1]
    again = log.decompress(log.compress(found))
    np.testing.assert_array_equal(again, found)
