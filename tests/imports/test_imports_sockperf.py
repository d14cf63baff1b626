"""sockperf: summaries with and without colours, full logs and their parser."""

import io
import re

import numpy as np
import pytest
import tool_outputs as printed
from hypothesis import given
from hypothesis import strategies as st
from reader_files import source_file, table

from tsnrepro.common.errors import ToolError
from tsnrepro.imports.readers import sockperf
from tsnrepro.imports.readers.row import statistics
from tsnrepro.imports.screening import NoMeasurementError
from tsnrepro.tools.sockperf import COLOUR, log_pieces, parse, parse_log

latencies = st.lists(st.integers(1, 10**7).map(lambda n: n / 1000), min_size=2, max_size=40)


def read(text):
    return sockperf.read(source_file(text), table("sockperf", "latency"))


def known(text):
    return read(text).rows[0].known


def test_a_summary_gives_every_field():
    found = known(printed.SOCKPERF)
    assert found["mean_us"] == 33.413
    assert (found["p25_us"], found["p50_us"], found["p99_9_us"]) == (30.432, 33.973, 221.565)
    assert (found["p99_99_us"], found["p99_999_us"]) == (549.966, 776.977)
    assert (found["observations"], found["sent"], found["valid_seconds"]) == (23169, 34038, 1.55)


def test_colours_make_no_difference_with_or_without_the_escape_character():
    plain = COLOUR.sub("", printed.SOCKPERF)
    assert plain != printed.SOCKPERF
    assert known(plain) == known(printed.SOCKPERF) == known(printed.SOCKPERF.replace("\x1b", ""))


def test_whole_round_trips_are_halved():
    text = printed.SOCKPERF.replace("avg-latency=", "avg-rtt=")
    found, half = known(text), known(printed.SOCKPERF)
    for name in ("mean_us", "sd_us", "min_us", "p99_9_us", "max_us"):
        assert found[name] == half[name] / 2
    assert found["observations"] == half["observations"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (printed.SOCKPERF_NO_ANSWER, "No messages were received"),
        (printed.SOCKPERF_USAGE, "usage"),
        ("sh: sockperf: command not found\n", "command not found"),
        (printed.SOCKPERF * 2, "several tests"),
        (printed.SOCKPERF[:700], "printed no"),
        (printed.sockperf_log([1.0, 2.0], summary=False).replace("0, ", "0; "), "invalid row"),
    ],
)
def test_outputs_without_measurement_are_refused_with_the_reason(text, reason):
    with pytest.raises(NoMeasurementError, match=reason):
        read(text)


def test_a_truncated_log_is_refused():
    whole = printed.sockperf_log([10.0, 20.0, 30.0])
    cut = whole[: whole.index("2, 2.4")]
    with pytest.raises(NoMeasurementError, match="2 of 3 observations"):
        read(cut)


def test_a_log_without_its_summary_has_statistics_of_its_observations():
    values = [30.0, 10.0, 20.0, 40.0]
    file = source_file(printed.sockperf_log(values, summary=False))
    assert sockperf.observations(file).tolist() == values
    reading = sockperf.read(file, table("sockperf", "latency"))
    assert reading.has_observations
    found = reading.rows[0].known
    assert (found["min_us"], found["p50_us"], found["max_us"]) == (10, 20, 40)
    assert found["mean_us"] == 25
    assert found["sd_us"] == pytest.approx(np.std(values, ddof=1))


def test_further_statistics_of_the_average_are_no_error_message():
    further = "(std-dev=22.032, cv=0.659, std-error=0.145, 99.0% ci=[33.040, 33.786])"
    text = printed.SOCKPERF.replace("(std-dev=22.032)", further)
    assert known(text) == known(printed.SOCKPERF)
    with pytest.raises(NoMeasurementError, match="printed no"):
        read(text[: text.index("# dropped")])


def test_the_table_of_a_histogram_is_no_observation():
    rule = "------------------------------\n"
    log = printed.sockperf_log([50.0, 51.0]) + f"histogram was built\n{rule}50   2\n{rule}"
    assert sockperf.observations(source_file(log)).tolist() == [50, 51]


@pytest.mark.parametrize(
    ("printed_", "put", "reason"),
    [
        ("(interrupted by timer)", "(interrupted by user)", "interrupted by user"),
        ("(interrupted by timer)", "(interrupted by signal 15)", "interrupted by signal 15"),
        # Its receiving thread is stopped after the sending one.
        ("by timer)", "by timer)\nsockperf: Test end (interrupted by signal 2)", "under-load"),
        ("[CLIENT] send on:", ": [SERVER] listen on:\n", "output of sockperf's server"),
    ],
)
def test_other_ends_than_that_of_a_test(printed_, put, reason):
    text = printed.SOCKPERF.replace(printed_, put)
    assert text != printed.SOCKPERF
    with pytest.raises(NoMeasurementError, match=reason):
        read(text)


def test_a_log_states_its_parameters():
    stated = "--mps=600000 --burst=1 --reply-every=1 --msg-size={} --time=2"
    log = printed.sockperf_log([10.0, 20.0]).replace("--msg-size=64", stated.format(200))
    assert known(log)["payload_bytes"] == 200
    for one, other in (("--burst=1", "--burst=5"), ("--reply-every=1", "--reply-every=100")):
        with pytest.raises(NoMeasurementError, match="sockperf ran with bursts of"):
            read(log.replace(one, other))


def test_percentiles_of_the_first_versions_are_padded():
    text = re.sub(r"percentile (\d\d\.\d\d)\d =", r"percentile  \1 =", printed.SOCKPERF)
    assert text.count("percentile  ") == 8
    assert known(text)["p50_us"] == known(printed.SOCKPERF)["p50_us"]


def test_mode_under_load_is_named():
    text = printed.SOCKPERF.replace("SentMessages=23169", "SentMessages=2316801")
    with pytest.raises(NoMeasurementError, match="under-load"):
        read(text.replace("SentMessages=34038", "SentMessages=3403800"))


@given(latencies)
def test_a_quantile_is_the_smallest_observation_that_its_share_does_not_exceed(values):
    found = statistics(np.array(values))
    ordered = sorted(values)
    for name, q in (("p25_us", 0.25), ("p50_us", 0.5), ("p90_us", 0.9), ("p99_9_us", 0.999)):
        smallest = next(v for i, v in enumerate(ordered, 1) if i >= q * len(ordered) - 1e-9)
        assert found[name] == smallest


# --- the parser of full logs ------------------------------------------------------------------


@given(latencies, st.booleans(), st.booleans())
def test_a_log_is_read_as_it_was_written(values, closed, summary):
    text = printed.sockperf_log(values, closed=closed, summary=summary)
    table = parse_log(text.encode())
    assert list(table.columns) == ["sent_s", "half_round_trip_us"]
    assert table["half_round_trip_us"].tolist() == values
    assert (np.diff(table["sent_s"]) > 0).all()
    assert table.equals(parse_log(text))


def test_a_log_of_whole_round_trips_is_halved():
    table = parse_log(printed.sockperf_log([10.0, 30.0], kind="rtt", summary=False))
    assert table["half_round_trip_us"].tolist() == [5.0, 15.0]


def test_windows_line_ends():
    text = printed.sockperf_log([10.0, 30.0]).replace("\n", "\r\n")
    assert parse_log(text)["half_round_trip_us"].tolist() == [10.0, 30.0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("no log at all", "header line is missing"),
        (printed.sockperf_log([]), "no observation"),
        (printed.sockperf_log([1.0], closed=False) + "1, 2.5, 2.6\n", "Row #2.*got 3"),
        (printed.sockperf_log([1.0], closed=False) + "1, 2.5, 2.6, x\n", "Row #2.*'x'"),
        (printed.sockperf_log([1.0], closed=False) + "1, 2.5, 2.6,\n", "invalid row"),
    ],
)
def test_a_broken_log_is_an_error_that_names_the_row(text, what):
    with pytest.raises(ToolError, match=what):
        parse_log(text)


# --- versions 3.3 to 3.10, and other modes ----------------------------------------------------

FURTHER = ", mean-ad=1.9, siqr=1.0, cv=0.062, std-error=0.042, p-value=0.1, 99.0% ci=[1.0, 2.0])"


@pytest.mark.parametrize(
    ("average", "factor"),
    [
        (f"avg-latency=33.413 (std-dev=22.032{FURTHER}", 1),
        ("avg-lat= 33.413 (std-dev=22.032)", 1),
        (f"avg-rtt=33.413 (std-dev=22.032{FURTHER}", 0.5),
    ],
)
def test_the_average_of_each_version(average, factor):
    text = re.sub(r"avg-latency=.*\)", average, COLOUR.sub("", printed.SOCKPERF))
    found = parse(text)
    assert found.mean_us == factor * 33.413
    assert found.sd_us == factor * 22.032
    assert found.percentiles_us["99.000"] == factor * 150.058


def test_percentiles_of_old_versions_have_two_decimals():
    old = re.sub(r"(percentile \d+\.\d\d)\d", r"\1", COLOUR.sub("", printed.SOCKPERF))
    assert parse(old).percentiles_us["50.000"] == 33.973


UNDER_LOAD = {
    "SentMessages=34038; ReceivedMessages=34037": "SentMessages=20100; ReceivedMessages=201",
    "SentMessages=23169; ReceivedMessages=23169": "SentMessages=15501; ReceivedMessages=156",
}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (UNDER_LOAD, "under-load, with a reply to every 100 messages"),
        ({"Latency is": "Latency of burst of 4 messages is"}, "bursts of 4 messages"),
        ({"Latency is 33.413 usec": "Message Rate is 9 [msg/sec]"}, "throughput.*ping-pong"),
        ({"sockperf: Summary": "[Valid Duration] RunTime=1.0 sec; SentMessages=9; "
          "ReceivedMessages=9\nsockperf: Summary"}, "measured 2 servers"),
    ],
)  # fmt: skip
def test_other_modes_are_named(changes, says):
    text = printed.SOCKPERF
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(ToolError, match=says):
        parse(text)


def test_lost_replies_are_not_mode_under_load():
    text = printed.SOCKPERF.replace("ReceivedMessages=23169", "ReceivedMessages=9000")
    lost = text.replace("dropped messages = 0", "dropped messages = 14169")
    assert parse(lost).observations == 9000


RULE = "------------------------------\n"
HISTOGRAM = f"histogram was built using --h_bin_size_us=5\n{RULE}bin (usec)\n50   4\n{RULE}"


def test_observations_end_at_the_first_rule_behind_the_header():
    log = printed.sockperf_log([50.0, 51.0, 52.0], summary=False) + HISTOGRAM
    assert parse_log(log)["half_round_trip_us"].tolist() == [50, 51, 52]
    for piece_bytes in (220, 260, 1000):
        pieces = log_pieces(io.BytesIO(log.encode()), piece_bytes)
        assert np.concatenate([*pieces]).tolist() == [50, 51, 52]


def test_a_log_of_times_alone():
    """Of the first versions, where a lost message has no time of receipt."""
    log = f"{RULE}txTime, rxTime\n1.000000000, 1.000100000\n2.0, 0.0\n3.0, 3.0002\n{RULE}"
    assert parse_log(log)["half_round_trip_us"].tolist() == pytest.approx([50, 100])
    assert next(log_pieces(io.BytesIO(log.encode()))).tolist() == pytest.approx([50, 100])


@pytest.mark.parametrize("summary", [True, False])
def test_a_log_that_is_broken_off_or_has_another_behind_it_is_refused(summary):
    whole = printed.sockperf_log([10.125, 20.25], summary=False, closed=False)
    with pytest.raises(NoMeasurementError, match="last row of its log is broken off"):
        read(whole[:-2])
    other = printed.sockperf_log([30.5], summary=summary)
    for end in ("", "------------------------------\n"):
        with pytest.raises(NoMeasurementError, match=r"several logs|row"):
            read(whole + end + other)
