"""Files that are refused as not measured, and files that must not be."""

import bz2
import gzip
import io
import lzma
import tarfile

import numpy as np
import pytest
import tool_outputs as printed
from hypothesis import given
from hypothesis import strategies as st
from reader_files import source_file, table

from tsnrepro.imports.plausibility import computed_statistics, zeros_against_counts
from tsnrepro.imports.readers import read_rows
from tsnrepro.imports.screening import (
    NoMeasurementError,
    check_has_data,
    error_in,
    generated_mark,
    why_not_output_of,
)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n\t\n", "NUL and white space"),
        (b"\0\0\0", "NUL and white space"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "Git LFS pointer"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "HTML"),
        (b"\n<html>", "HTML"),
        (b"\xd4\xc3\xb2\xa1\2\4\xff\xff", r"a packet capture \(pcap\)"),
        (b"\n\r\r\n\x1cM<+\x1a\1", r"a packet capture \(pcapng\)"),
        (b"PK\x03\x04\x14\x06\x08!bN\x1a[Content_Types].xml", "a spreadsheet"),
        (b"PK\x03\x04\x14\x08bl9\x85mimetypeapplication/vnd.oasis.opendocument", "a spreadsheet"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a spreadsheet"),
        (b"\x93NUMPY\1v{'descr': '<f8'}", "a file of NumPy"),
        (b"PAR1\x15", "a file of Parquet"),
        (b"\x7fELF\2\1\1\3", "binary data"),
    ],
)
def test_files_without_data(data, reason):
    with pytest.raises(NoMeasurementError, match=reason):
        check_has_data(data)


def test_data_pass():
    check_has_data(b"a,b\n1,2\n")
    check_has_data(b"BZhang,PK\n1,2\n")
    check_has_data(b"\x1b[1mbold\x1b[0m\f\r\n" + b"a,b\n" * 9 + b"\1")


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


OTHERS = {
    "netperf": "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.0.2.2 ()\n",
    "nuttcp": " 1121.4375 MB /  10.00 sec =  940.6633 Mbps 10 %TX 20 %RX 0 retrans\n",
    "qperf": "tcp_lat:\n    latency  =  25.1 us\n",
    "ping": "PING 192.0.2.2 (192.0.2.2) 56(84) bytes of data.\n",
    "owping": "--- owping statistics from [a]:1 to [b]:2 ---\n",
    "cyclictest": "T: 0 ( 1234) P:80 I:1000 C: 10000 Min: 3 Act: 5 Avg: 5 Max: 20\n",
    "iperf 2": "[  3] local 192.0.2.1 port 5 connected with 192.0.2.2 port 5001\n",
    "iperf3": printed.IPERF3_TCP_CLIENT,
    "sockperf": printed.SOCKPERF,
    "mausezahn": printed.MAUSEZAHN,
}


@pytest.mark.parametrize("program", ["iperf3", "sockperf", "mausezahn"])
@pytest.mark.parametrize("other", OTHERS)
def test_outputs_of_other_programs_are_named(program, other):
    one = table(program, "latency" if program == "sockperf" else "loss")
    file = source_file(OTHERS[other], "some/file")
    if other == program:
        assert why_not_output_of(program, OTHERS[other]) is None
    else:
        with pytest.raises(NoMeasurementError, match=f"it is the output of {other}, another"):
            read_rows(file, one)


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("iperf3", printed.IPERF3_UDP_CLIENT),
        ("sockperf", printed.SOCKPERF),
        ("mausezahn", printed.MAUSEZAHN),
    ],
)
def test_decimal_commas_of_tools_are_named(program, text):
    one = table(program, "latency" if program == "sockperf" else "loss")
    with pytest.raises(NoMeasurementError, match="its numbers have a decimal comma"):
        read_rows(source_file(text.replace(".", ","), "some/file"), one)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_archives_are_named(form):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        entry = tarfile.TarInfo("run-1/out.txt")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"a,b\n"))
    for data in (buffer.getvalue(), buffer.getvalue().replace(b"\0", b"")):
        with pytest.raises(NoMeasurementError, match=r"an archive \(tar\)"):
            check_has_data(data)


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
