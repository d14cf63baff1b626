"""iperf3's JSON, as it really prints it, and as it may come when something went wrong."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.common.errors import ToolError
from tsnrepro.tools import iperf3


def test_a_udp_test(udp_output):
    result = iperf3.parse_udp(udp_output)
    document = json.loads(udp_output)
    total = document["end"]["sum"]
    assert result.payload_bytes == 500
    assert result.sent == total["packets"] == pytest.approx(2e6 / 8 / 500, rel=0.05)
    # iperf3 counts losses by the numbers in the datagrams, we count what arrived.
    assert result.lost == total["lost_packets"]
    assert result.sent == result.received + result.lost
    assert result.offered_mbps == pytest.approx(2.0, rel=0.05)
    assert result.delivered_mbps <= result.offered_mbps
    assert result.delivered_mbps == pytest.approx(
        result.offered_mbps * result.received / result.sent
    )
    assert result.send_seconds == pytest.approx(1.0, rel=0.1)
    assert result.jitter_ms >= 0
    assert result.out_of_order == 0


def test_offered_load_is_payload_over_the_time_of_sending(udp_output):
    result = iperf3.parse_udp(udp_output)
    payload_bits = result.sent * result.payload_bytes * 8
    assert result.offered_mbps == pytest.approx(payload_bits / result.send_seconds / 1e6)


def test_a_tcp_test(tcp_output):
    result = iperf3.parse_tcp(tcp_output)
    end = json.loads(tcp_output)["end"]
    assert result.goodput_mbps == pytest.approx(
        end["sum_received"]["bytes"] * 8 / end["sum_received"]["seconds"] / 1e6, rel=1e-6
    )
    assert result.sent_mbps >= result.goodput_mbps * 0.99
    assert result.seconds == pytest.approx(1.0, rel=0.2)
    assert result.retransmits >= 0


def test_congestion_control_is_the_one_asked_for(tcp_output):
    assert json.loads(tcp_output)["end"]["sender_tcp_congestion"] == "cubic"


def test_nobody_answers(refused_output):
    for parse in (iperf3.parse_udp, iperf3.parse_tcp):
        with pytest.raises(ToolError, match=r"iperf3 reports an error: .*Connection refused"):
            parse(refused_output)
    assert iperf3.failed(refused_output)


def test_a_good_output_has_not_failed(udp_output, tcp_output):
    assert not iperf3.failed(udp_output)
    assert not iperf3.failed(tcp_output)


def test_a_warning_may_stand_before_the_json(udp_output):
    warned = "warning: UDP block size 1480 exceeds TCP MSS 1448\n" + udp_output
    assert iperf3.parse_udp(warned) == iperf3.parse_udp(udp_output)


def test_forms_of_one_document(udp_output, tcp_output):
    for output, parse in ((udp_output, iperf3.parse_udp), (tcp_output, iperf3.parse_tcp)):
        document = json.loads(output)
        events = [
            ("start", document["start"]),
            *(("interval", interval) for interval in document["intervals"]),
            *((name, document[name]) for name in ("end", "server_output_json")),
        ]
        lines = [json.dumps({"event": name, "data": data}) for name, data in events]
        for form in (2 * output, f"iperf 3.12\n{output}\niperf Done.\n", "\n".join(lines)):
            assert parse(form) == parse(output)
            assert not iperf3.failed(form)


def test_more_than_one_test_or_direction_is_no_measurement(udp_output):
    other = udp_output.replace('"packets"', '"counted"')
    assert other != udp_output
    reverse = json.loads(udp_output)
    reverse["end"]["sum_bidir_reverse"] = {}
    one_name = udp_output.replace('"sum_sent"', '"sum"', 1)
    for output, said in (
        (udp_output + other, "several tests"),
        (json.dumps(reverse), "both directions"),
        (one_name, "both directions"),
    ):
        with pytest.raises(ToolError, match=said):
            iperf3.parse_udp(output)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "printed no JSON: nothing"),
        ("iperf3: command not found\n", "printed no JSON: iperf3: command not found"),
        ("{}", "lacks 'end'"),
        ('{"end": {}', "damaged JSON"),
        ('{"error": "the server is busy"}', "the server is busy"),
    ],
)
@pytest.mark.parametrize("parse", [iperf3.parse_udp, iperf3.parse_tcp])
def test_what_is_no_measurement_is_said(parse, text, said):
    with pytest.raises(ToolError, match=said):
        parse(text)
    if text != "{}":
        assert iperf3.failed(text)


def test_one_kind_of_test_is_not_taken_for_the_other(udp_output, tcp_output):
    with pytest.raises(ToolError, match="of a UDP test"):
        iperf3.parse_udp(tcp_output)
    with pytest.raises(ToolError, match="of a TCP test"):
        iperf3.parse_tcp(udp_output)


NEEDED = [
    ("end",),
    ("end", "sum_sent"),
    ("end", "sum_sent", "packets"),
    ("end", "sum_sent", "seconds"),
    ("end", "sum_received"),
    ("end", "sum_received", "bytes"),
    ("end", "sum_received", "jitter_ms"),
    ("start", "test_start", "blksize"),
    ("server_output_json",),
    ("server_output_json", "end", "streams"),
]


@pytest.mark.parametrize("path", NEEDED, ids=".".join)
@pytest.mark.parametrize("junk", ["absent", None, "text", {}])
def test_a_value_that_is_missing_is_no_zero(udp_output, path, junk):
    document = json.loads(udp_output)
    *parents, last = path
    node = document
    for name in parents:
        node = node[name]
    if junk == "absent" or (junk == {} and last == "streams"):  # nothing to go through either way
        del node[last]
    else:
        node[last] = junk
    with pytest.raises(ToolError):
        iperf3.parse_udp(json.dumps(document))


def test_more_received_than_sent_is_no_measurement(udp_output):
    document = json.loads(udp_output)
    document["end"]["sum_received"]["bytes"] = 10**9
    with pytest.raises(ToolError, match="received of"):
        iperf3.parse_udp(json.dumps(document))


def test_nothing_sent_is_no_measurement(udp_output):
    document = json.loads(udp_output)
    document["end"]["sum_sent"]["packets"] = 0
    document["end"]["sum_received"]["bytes"] = 0
    with pytest.raises(ToolError, match="0 received of 0 sent"):
        iperf3.parse_udp(json.dumps(document))


@given(st.data())
def test_output_cut_at_any_place_is_an_error_and_nothing_else(udp_output, data):
    end = data.draw(st.integers(0, len(udp_output.rstrip()) - 1))
    with pytest.raises(ToolError):
        iperf3.parse_udp(udp_output[:end])


@given(
    sent=st.integers(1, 10**7),
    lost=st.integers(0, 10**7),
    payload=st.integers(16, 65507),
    seconds=st.floats(0.1, 1000),
)
def test_any_counts_come_back(udp_output, sent, lost, payload, seconds):
    lost = min(lost, sent)
    document = json.loads(udp_output)
    document["start"]["test_start"]["blksize"] = payload
    document["end"]["sum_sent"] |= {"packets": sent, "seconds": seconds}
    document["end"]["sum_received"]["bytes"] = (sent - lost) * payload
    result = iperf3.parse_udp(json.dumps(document))
    assert (result.sent, result.received, result.lost) == (sent, sent - lost, lost)
    assert result.offered_mbps == pytest.approx(sent * payload * 8 / seconds / 1e6)


def test_the_rate_is_payload_in_bits_per_second():
    argv = iperf3.udp_client("10.0.0.2", 1472, 530.5, 10)
    assert argv[argv.index("--bitrate") + 1] == "530500000"
    # 0 would be no limit.
    slow = iperf3.udp_client("10.0.0.2", 1472, 1e-9, 10)
    assert slow[slow.index("--bitrate") + 1] == "1"
    assert argv[argv.index("--length") + 1] == "1472"
    assert argv[argv.index("--time") + 1] == "10"
    assert "--udp" in argv
    assert "--json" in argv
    # It knows whole seconds only.
    short = iperf3.udp_client("10.0.0.2", 1250, 100, 0.5)
    assert short[short.index("--blockcount") + 1] == "5000"
    assert "--time" not in short
    assert "--udp" not in iperf3.tcp_client("10.0.0.2", 10)
