"""Files that are refused as not measured, and files that must not be."""

import bz2
import gzip
import lzma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.imports.plausibility import computed_statistics, zeros_against_counts
from tsnrepro.imports.screening import NoMeasurementError, check_has_data, error_in, generated_mark


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n\t\n", "NUL and white space"),
        (b"\0\0\0", "NUL and white space"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "Git LFS pointer"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "HTML"),
        (b"\n<html>", "HTML"),
    ],
)
def test_files_without_data(data, reason):
    with pytest.raises(NoMeasurementError, match=reason):
        check_has_data(data)


def test_data_pass():
    check_has_data(b"a,b\n1,2\n")
    check_has_data(b"BZhang,PK\n1,2\n")


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (gzip.compress(b"a,b"), "gzip"),
        (lzma.compress(b"a,b"), "xz"),
        (bz2.compress(b"a,b"), "bzip2"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "zstd"),
        (b"PK\x03\x04\x14", "zip"),
    ],
    ids=["gzip", "xz", "bzip2", "zstd", "zip"],
)
def test_compressed_files_are_named(data, form):
    # A NUL is removed before a file is screened.
    with pytest.raises(NoMeasurementError, match=rf"it is compressed \({form}\)"):
        check_has_data(data.replace(b"\0", b""), "a/control.csv.gz")
    with pytest.raises(NoMeasurementError, match=rf"data file of flent, compressed \({form}\)"):
        check_has_data(data, "a/rrul.flent.gz")


@pytest.mark.parametrize(
    "text",
    [
        "bash: iperf3: command not found",
        "iperf3: error - unable to connect to server: Connection refused",
        "Traceback (most recent call last):\n  File",
        "Usage: iperf3 [-s|-c host] [options]",
        "usage: run.py [-h] folder",
        "cat: results.csv: No such file or directory",
    ],
)
def test_error_messages(text):
    assert error_in(text)


@pytest.mark.parametrize(
    "text",
    ["target,achieved\n100,99.9\n", "out_of_order,errors\n0,0\n", "processor usage in percent"],
)
def test_no_error_messages(text):
    assert error_in(text) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"metadata": {"synthetic": true}}',
        '{"is_generated": "yes"}',
        "# simulated with a queue model\nrate,loss\n",
        "# dummy data for the plots\n",
        "note: values were randomly generated",
    ],
)
def test_marks_of_generated_data(text):
    assert generated_mark(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"metadata": {"synthetic": false, "simulated": null}}',
        "# not simulated: measured on two boards\n",
        '{"description": "Precision packet generation with mausezahn"}',
        '{"operator": "Automated test script"}',
        "rate,loss\n100,0\n",
    ],
)
def test_no_marks_of_generated_data(text):
    assert generated_mark(text) is None


def test_zeros_against_counts():
    rows = [{"offered_mbps": 0, "sent": 1000}, {"offered_mbps": 0.0, "sent": 500}]
    assert "although it counts sent 1500" in zeros_against_counts(rows)
    assert zeros_against_counts([{"mean_us": 0, "p99_us": 0}])
    assert zeros_against_counts([*rows, {"offered_mbps": 1.0, "sent": 5}]) is None
    # No loss at any load is a result.
    assert zeros_against_counts([{"loss_percent": 0.0, "sent": 10, "lost": 0}]) is None
    assert zeros_against_counts([]) is None


@given(
    st.lists(st.floats(10, 1000), min_size=3, max_size=10, unique=True),
    st.floats(0.05, 5),
    st.sampled_from(["min_us", "max_us", "sd_us", "p99_us"]),
)
def test_a_multiple_of_the_mean_is_found(means, factor, name):
    rows = [{"mean_us": mean, name: round(factor * mean, 4)} for mean in means]
    assert [found.split()[0] for found in computed_statistics(rows)] == [name]


def test_statistics_of_samples_have_no_constant_ratio():
    rng = np.random.default_rng(7)
    rows = []
    for scale in (20, 40, 60, 80, 100):
        sample = rng.gamma(8, scale / 8, 5000)
        rows.append(
            {
                "mean_us": sample.mean(),
                "sd_us": sample.std(),
                "min_us": sample.min(),
                "p50_us": np.median(sample),
                "p99_9_us": np.quantile(sample, 0.999),
                "max_us": sample.max(),
            }
        )
    assert computed_statistics(rows) == []


def test_two_rows_or_one_mean_are_too_few():
    assert computed_statistics([{"mean_us": m, "max_us": 2 * m} for m in (10, 20)]) == []
    assert computed_statistics([{"mean_us": 10, "max_us": 20}] * 5) == []
