"""Packets printed by isochron report: any format, lost packets, what is no such output."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_files import source_file
from test_imports_importer import manifest_file

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import parse
from tsnrepro.experiments.latency.analysis import series
from tsnrepro.imports.importer import import_folder
from tsnrepro.imports.mapping import Times
from tsnrepro.imports.readers import packet_times
from tsnrepro.imports.screening import NoMeasurementError, check_has_data
from tsnrepro.records.tables import load_trials

EPOCH_NS = 1_700_000_000_000_000_000
FORMATS = {
    r"%u,%d,%d\n": "qTR",
    r"%x: %u %u\t%u\n": "SRqT",
    "seqid %u scheduled for %T, TX qdisc %T sw %T hw %T, RX hw %T sw %T\n": "qSstTRr",
    r"[%T] 100%% (%u) +%T.%T*\n": "wqTR",
}
SUMMARY = """\
Packets not received: 1 (25.000%)
Summary:
Path delay: min 700 max 1800 mean 1233.333 stddev 450.925, min at seqid 1, max at seqid 4
MAC latency: min -12 max 40 mean 1.500 stddev 2.000, min at seqid 1, max at seqid 4
Sending one packet takes on average 1.203% of the cycle time (min 1.000% max 2.100%)
HW TX deadline misses: 0 (0.000%)
"""


def times(form=r"%u,%d,%d\n", args="qTR", **changes):
    keys = {"printf_format": form, "printf_args": args, "sent": "T", "received": "R", "unit": "ns"}
    return parse(Times, keys | changes, "a mapping")


def printed(packets, form=r"%u,%d,%d\n", args="qTR"):
    """Print packets (number, sent, received in nanoseconds) as isochron report does."""
    lines = []
    for number, sent, received in packets:
        values = {"q": number, "T": sent, "R": received}
        line, arguments = form.replace(r"\n", "\n").replace(r"\t", "\t"), iter(args)
        for piece in ("%%", "%u", "%d", "%x", "%T"):
            line = line.replace(piece, f"\0{piece[1]}")
        head, *codes = line.split("\0")
        for code in codes:
            value = values.get(next(arguments), 5 * 10**9) if code[0] != "%" else "%"
            if code[0] in "xT":
                whole, rest = divmod(value, 10**9)
                value = f"{value:x}" if code[0] == "x" else f"{whole}.{rest:09d}"
            head += f"{value}{code[1:]}"
        lines.append(head)
    return "".join(lines)


def read(text, layout=None):
    return packet_times.read(source_file(text), layout or times())


FOUR = [(1, EPOCH_NS, EPOCH_NS + 700), (2, EPOCH_NS + 5000, EPOCH_NS + 6200),
        (3, EPOCH_NS + 9000, 0), (4, EPOCH_NS + 20_000, EPOCH_NS + 21_800)]  # fmt: skip


@pytest.mark.parametrize(("form", "args"), FORMATS.items())
@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=20).filter(any))
def test_any_format_keeps_every_nanosecond_and_counts_lost_packets(form, args, delays_ns):
    sent = [EPOCH_NS + 999_999_999 * k for k in range(len(delays_ns))]
    packets = [
        (number, time, time + delay if delay else 0)
        for number, (time, delay) in enumerate(zip(sent, delays_ns, strict=True), start=3)
    ]
    found = read(printed(packets, form, args), times(form, args))
    assert found.latencies_us.tolist() == [delay / 1000 for delay in delays_ns if delay]
    assert (found.sent, found.skipped_rows) == (len(delays_ns), 0)


def test_a_summary_below_the_packets_is_no_packet():
    found = read(printed(FOUR) + SUMMARY)
    assert (found.sent, found.received, found.skipped_rows) == (4, 3, 0)


def test_packets_without_timestamp_of_sending_and_damaged_lines_are_skipped():
    text = printed([*FOUR, (5, 0, EPOCH_NS + 1), (6, 0, 0)]) + "7,oops,3\n"
    text += printed([(8, EPOCH_NS + 10**5, EPOCH_NS + 10**5 + 1)]) + "9,17000000"
    found = read(text)
    assert found.latencies_us.tolist() == [0.7, 1.2, 1.8, 0.001]
    assert (found.sent, found.received) == (6, 4)
    assert dict(found.skipped) == {
        "row 5": "it has no timestamp of sending",
        "row 7": "not a packet: 7,oops,3",
        "row 9": "its end is missing: the file is truncated",
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (printed(FOUR) * 2, "printed twice"),
        (f"14:00:00 {printed(FOUR[:1])}", "row 1: not a packet: 14:00:00 "),
        (printed(FOUR[:1] + FOUR[3:]), "it lacks 2 packets"),
        (printed([(1, EPOCH_NS, EPOCH_NS + 37 * 10**9)]), "not synchronized: .* 37 s"),
        (printed(FOUR) + "Receiver PHC not synchronized (mean PHC ...)\n", "isochron reports: Rec"),
        (SUMMARY, r"the summary of isochron alone; isochron report --printf-format '%u,%d,%d\\n'"),
        (printed([(1, EPOCH_NS, 0)]), "no row with the times of a packet that arrived"),
        (printed([(1, EPOCH_NS, EPOCH_NS - 1)]), "arrive when or before"),
    ],
)
def test_what_is_not_the_report_of_one_test_is_refused(text, says):
    with pytest.raises(NoMeasurementError, match=says):
        read(text)


def test_the_binary_log_is_refused_with_what_to_run():
    with pytest.raises(NoMeasurementError, match="binary log of isochron") as error:
        check_has_data(b"ISOCHRON\0\0\0\4\0\0\0\5")
    assert error.value.remedy.startswith("isochron report --printf-format")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"args": "qT"}, "for each of printf_args"),
        ({"form": "%u,%d,%s\n"}, "for each of printf_args"),
        ({"form": r"%u\n%d,%d\n"}, "one line per packet"),
        ({"form": r"%u\e%d,%d\n"}, "one line per packet"),
        ({"form": r"%u,%d,%x\n"}, "'R' has to be printed, with %d"),
        ({"args": "STR"}, "'q' has to be printed"),
        ({"args": "qTT"}, "printed twice"),
        ({"received": "r"}, "'r' has to be printed"),
        ({"unit": "us"}, "unit: ns only"),
        ({"printf_args": None}, "for each of printf_args"),
        ({"sent": None, "received": None, "latency": "T"}, "unit: ns only"),
    ],
)
def test_the_options_fit_what_is_read(changes, says):
    with pytest.raises(ConfigurationError, match=says):
        times(**changes)


MAPPING = r"""
    description: isochron's reports
    tables:
      one-way:
        files: ["*.txt"]
        format: times
        experiment: latency
        latency_quantity: one way
        times: {printf_format: '%u,%d,%d\n', printf_args: qTR, sent: T, received: R, unit: ns}
        fields: {configuration: frer, payload_bytes: 64}
    """


def test_an_import_of_a_report(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/1.txt").write_text(printed(FOUR) + SUMMARY)
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(textwrap.dedent(MAPPING))
    report = import_folder(tmp_path / "data", mapping, "lab", tmp_path / "raw")
    assert report.trials["latency"] == 1
    manifest = manifest_file(tmp_path, "latency", "lab")
    trial = load_trials(manifest).iloc[0]
    assert (trial["sent"], trial["received"]) == (4, 3)
    assert series(manifest)[trial["trial"]].tolist() == [0.7, 1.2, 1.8]
