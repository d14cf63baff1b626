"""mausezahn's output."""

import pytest
import tool_outputs as printed
from hypothesis import given
from hypothesis import strategies as st
from reader_files import source_file, table

from tsnrepro.imports.readers import mausezahn
from tsnrepro.imports.screening import NoMeasurementError


def read(text):
    return mausezahn.read(source_file(text), table("mausezahn"))


def test_a_run_gives_what_was_sent_and_the_time_it_took():
    (row,) = read(printed.MAUSEZAHN).rows
    assert row.known["sent"] == 100
    assert row.known["send_seconds"] == pytest.approx(100 / 18678)
    assert row.cell("packets_per_second") == "18678"


def test_a_run_without_a_count_has_no_sent():
    (row,) = read("0.00 seconds (38462 packets per second)\n").rows
    assert row.known == {}
    assert row.cell("frames") == ""


def test_several_runs_in_one_log_are_several_rows():
    rows = read("start\n" + printed.MAUSEZAHN + "next size\n" + printed.MAUSEZAHN).rows
    assert [row.location for row in rows] == ["run 1", "run 2"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (printed.MAUSEZAHN_STOPPED, "until stopped"),
        (printed.MAUSEZAHN_USAGE, "usage"),
        ("mausezahn: command not found\n", "command not found"),
        ("Terminated\n", "no rate was printed"),
    ],
)
def test_an_incomplete_run_is_refused(text, reason):
    with pytest.raises(NoMeasurementError, match=reason):
        read(text)


@given(st.integers(1, 10**9), st.integers(1, 10**7))
def test_any_run_is_read_as_printed(frames, rate):
    seconds = frames / rate
    text = (
        f"Mausezahn will send {frames} frames... {seconds:.2f} seconds ({rate} packets per second)"
    )
    (row,) = read(text).rows
    assert row.known["sent"] == frames
    assert row.known["send_seconds"] == pytest.approx(seconds)
