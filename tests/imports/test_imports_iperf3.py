"""iperf3's text and JSON, against values read from the same lines by hand."""

import json

import pytest
import tool_outputs as printed
from hypothesis import given
from hypothesis import strategies as st
from iperf3_writer import scaled
from reader_files import source_file, table

from tsnrepro.imports.readers import iperf3
from tsnrepro.imports.screening import NoMeasurementError


def read(text, experiment):
    return iperf3.read(source_file(text), table("iperf3", experiment))


def known(text, experiment="loss"):
    (row,) = read(text if isinstance(text, str) else json.dumps(text), experiment).rows
    return row.known


def test_client_text_has_both_totals():
    found = known(printed.IPERF3_UDP_CLIENT)
    # The receiver does not know the datagrams after the last one that arrived.
    assert found == {
        "sent": 280082,
        "received": 278723 - 143383,
        "send_seconds": 1.01,
        "offered_mbps": 143.0,
        "delivered_mbps": 68.9,
    }


def test_verbose_text_has_payload_duration_and_target():
    found = known(printed.IPERF3_UDP_VERBOSE)
    assert (found["payload_bytes"], found["duration_s"], found["target_mbps"]) == (64, 1, 900)
    assert (found["sent"], found["received"]) == (280082, 135340)


def test_several_streams_are_summed_by_iperf3():
    found = known(printed.IPERF3_UDP_TWO_STREAMS)
    assert (found["sent"], found["received"], found["offered_mbps"]) == (40, 39, 10.485)


def test_a_server_reports_the_loss_but_not_what_was_sent():
    found = known(printed.IPERF3_UDP_SERVER)
    assert "sent" not in found
    assert found["received"] == 4240
    assert found["loss_percent"] == pytest.approx(100 * 3 / 4243)


IPERF3_1_UDP_CLIENT = """\
[ ID] Interval           Transfer     Bandwidth       Total Datagrams
[  4]   0.00-5.00   sec   298 MBytes   500 Mbits/sec  212300  
[  4]   5.00-10.00  sec   298 MBytes   500 Mbits/sec  212292  
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  4]   0.00-10.00  sec   596 MBytes   500 Mbits/sec  0.012 ms  31/424500 (0.0073%)  
[  4] Sent 424500 datagrams

iperf Done.
"""


def test_before_version_3_3_those_sent_are_the_sum_of_the_intervals():
    found = known(IPERF3_1_UDP_CLIENT)
    assert (found["sent"], found["received"]) == (424592, 424469)
    assert found["offered_mbps"] == 500
    intervals = iperf3.read(source_file(IPERF3_1_UDP_CLIENT), table("iperf3", rows="intervals"))
    assert [row.known["sent"] for row in intervals.rows] == [212300, 212292]


def test_before_version_3_3_a_total_alone_has_the_loss_but_not_what_was_sent():
    found = known(IPERF3_1_UDP_CLIENT.partition("- -\n")[2])
    assert "sent" not in found
    assert found["received"] == 424469
    assert found["loss_percent"] == pytest.approx(100 * 31 / 424500)


def test_tcp_text():
    found = known(printed.IPERF3_TCP_CLIENT, "tcp")
    assert found["goodput_mbps"] == pytest.approx(18000)
    assert found["sent_mbps"] == pytest.approx(18100)
    assert (found["retransmits"], found["seconds"]) == (7, 1.0)


def test_tcp_json_with_and_without_retransmits():
    found = known(printed.IPERF3_TCP_JSON, "tcp")
    assert found == {
        "duration_s": 10,
        "goodput_mbps": 941.3,
        "seconds": 10.04,
        "sent_mbps": 942.5,
        "retransmits": 12,
    }
    document = json.loads(json.dumps(printed.IPERF3_TCP_JSON))
    del document["end"]["sum_sent"]["retransmits"]
    assert "retransmits" not in known(document, "tcp")


def test_udp_json_without_the_server_s_output():
    found = known(printed.IPERF3_UDP_JSON)
    assert (found["sent"], found["received"], found["payload_bytes"]) == (3123, 3113, 200)
    assert (found["target_mbps"], found["duration_s"]) == (5, 1)
    assert found["offered_mbps"] == pytest.approx(624600 * 8 / 1.000107 / 1e6)


def test_udp_json_of_old_versions_has_one_sum():
    document = json.loads(json.dumps(printed.IPERF3_UDP_JSON))
    del document["end"]["sum_sent"], document["end"]["sum_received"]
    found = known(document)
    assert (found["sent"], found["loss_percent"]) == (3123, 100 * 10 / 3123)


def test_udp_json_with_the_server_s_output_is_read_as_in_measured_trials():
    document = json.loads(json.dumps(printed.IPERF3_UDP_JSON))
    document["end"]["sum_received"]["jitter_ms"] = 0.01
    document["server_output_json"] = {
        "end": {"streams": [{"udp": {"out_of_order": 2}}]},
    }
    found = known(document)
    assert (found["lost"], found["out_of_order"]) == (10, 2)


def test_a_warning_may_precede_the_json():
    text = "warning: UDP block size 1472 exceeds TCP MSS\n" + json.dumps(printed.IPERF3_UDP_JSON)
    assert known(text)["sent"] == 3123


@pytest.mark.parametrize(
    ("text", "experiment", "reason"),
    [
        (printed.IPERF3_REFUSED, "loss", "Connection refused"),
        (printed.IPERF3_USAGE, "loss", "unrecognized option"),
        (json.dumps({"start": {}, "end": {}, "error": "unable to connect"}), "tcp", "unable"),
        (printed.IPERF3_UDP_CLIENT, "tcp", "it is a UDP test"),
        (printed.IPERF3_TCP_CLIENT, "loss", "it is a TCP test"),
        (json.dumps(printed.IPERF3_TCP_JSON), "loss", "it is a TCP test"),
        (
            printed.IPERF3_UDP_CLIENT + printed.IPERF3_UDP_CLIENT.replace("45796", "45797"),
            "loss",
            "several tests",
        ),
        (printed.IPERF3_UDP_CLIENT.split("- - -")[0], "loss", "did not complete"),
        (json.dumps(printed.IPERF3_UDP_JSON)[:-30], "loss", "broken"),
        ('{"start": {"test_start": {"protocol": "UDP"}}, "end": {"sum": {}}}', "loss", "datagram"),
        ('{"start": [], "end": []}', "tcp", "cannot be one"),
        ('{"iperf": {"start": {}, "end": {}}}', "tcp", "not iperf3's"),
        (json.dumps(printed.IPERF3_UDP_JSON).replace("3123", '"3123"'), "loss", "cannot be one"),
    ],
)
def test_outputs_without_measurement_are_refused_with_the_reason(text, experiment, reason):
    with pytest.raises(NoMeasurementError, match=reason):
        read(text, experiment)


@given(
    sent=st.integers(1, 10**9),
    lost_share=st.floats(0, 1),
    rate=st.floats(0.1, 999).map(lambda r: float(f"{r:.3g}")),
    seconds=st.floats(0.01, 1000).map(lambda s: round(s, 2)),
)
def test_any_printed_totals_are_read_as_printed(sent, lost_share, rate, seconds):
    lost = int(sent * lost_share)
    size = scaled(rate * 1e6 / 8 * seconds, 1024, "Bytes")
    speed = scaled(rate * 1e6, 1000, "bits")
    text = (
        "Connecting to host 192.0.2.2, port 5201\n"
        f"[  5]   0.00-{seconds:<6.2f} sec  {size}  {speed}/sec  0.000 ms  "
        f"0/{sent} (0%)  sender\n"
        f"[  5]   0.00-{seconds:<6.2f} sec  {size}  {speed}/sec  0.006 ms  "
        f"{lost}/{sent} ({100 * lost / sent:.2g}%)  receiver\n"
    )
    found = known(text)
    assert (found["sent"], found["received"]) == (sent, sent - lost)
    assert found["offered_mbps"] == pytest.approx(rate)
    assert found["send_seconds"] == seconds


@given(st.text(max_size=300))
def test_any_other_text_is_refused_and_never_crashes(text):
    for experiment in ("loss", "tcp"):
        with pytest.raises(NoMeasurementError):
            read(text, experiment)
