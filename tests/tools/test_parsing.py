"""Numbers that no measurement can have given are refused, whichever tool printed them."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.common.errors import ToolError
from tsnrepro.tools import iperf3, parsing, sockperf

IMPOSSIBLE = (-5, -0.001, math.nan, math.inf, "3", None, True)


@given(st.integers(0, 10**18))
def test_counts_are_what_they_are(number):
    assert parsing.count(number, "n") == number


@given(st.floats(0, 1e300))
def test_amounts_are_what_they_are(number):
    assert parsing.amount(number, "x") == number


@pytest.mark.parametrize("value", IMPOSSIBLE)
def test_what_nothing_can_be_is_refused(value):
    for check in (parsing.count, parsing.amount):
        with pytest.raises(ToolError, match="the name is"):
            check(value, "the name")


@pytest.mark.parametrize("value", [-5, 0, math.nan])
@pytest.mark.parametrize("place", ["bits_per_second", "seconds"])
def test_a_goodput_or_time_that_cannot_be(tcp_output, place, value):
    document = json.loads(tcp_output)
    document["end"]["sum_received"][place] = value
    with pytest.raises(ToolError, match=place):
        iperf3.parse_tcp(json.dumps(document))


@pytest.mark.parametrize("value", [-1, 0, math.nan])
def test_a_time_of_sending_that_cannot_be(udp_output, value):
    document = json.loads(udp_output)
    document["end"]["sum_sent"]["seconds"] = value
    with pytest.raises(ToolError, match="time of sending"):
        iperf3.parse_udp(json.dumps(document))


def test_more_received_than_sent(udp_output):
    document = json.loads(udp_output)
    document["end"]["sum_received"]["bytes"] *= 2
    with pytest.raises(ToolError, match="received of"):
        iperf3.parse_udp(json.dumps(document))


def test_a_mean_outside_its_extremes(ping_pong_output):
    printed, _ = ping_pong_output
    mean = f"avg-latency={sockperf.parse(printed).max_us + 1:.3f} "
    altered = sockperf.AVERAGE.sub(f"{mean}(std-dev=1.0)", sockperf.COLOUR.sub("", printed))
    with pytest.raises(ToolError, match="not in order"):
        sockperf.parse(altered)


@pytest.mark.parametrize("latency", ["-5", "nan", "inf"])
def test_an_observation_that_cannot_be(latency):
    log = f"packet, txTime(sec), rxTime(sec), latency(usec)\n0,0.1,0.2,{latency}\n"
    with pytest.raises(ToolError, match="negative or not a number"):
        sockperf.parse_log(log)
