"""iperf3's versions and modes: what is read back of a known test, and what is refused and why."""

import dataclasses
import json
import re
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from iperf3_writer import TcpTest, UdpTest, debugged, scaled
from reader_files import source_file, table

from tsnrepro.imports.readers import iperf3
from tsnrepro.imports.screening import NoMeasurementError

UDP = UdpTest(1448, (500, 500), (20, 0), tail=5)
TCP = TcpTest(received=1_170_000_000, sent=1_180_000_000, retransmits=7)
# Those whose output differs.
VERSIONS = (0, 1, 2, 3, 6, 7, 9, 10, 12, 13, 16, 17, 19)


def known(content, experiment="loss", rows=""):
    file = source_file(content if isinstance(content, str) else json.dumps(content))
    return [row.known for row in iperf3.read(file, table("iperf3", experiment, rows=rows)).rows]


def refusal(content, experiment="loss", rows=""):
    with pytest.raises(NoMeasurementError) as error:
        known(content, experiment, rows)
    return error.value.what


# --- a known test is read back --------------------------------------------------------------------


@st.composite
def udp_tests(draw):
    sent = draw(st.lists(st.integers(10, 10**6), min_size=1, max_size=4))
    lost = [draw(st.integers(0, count - 1)) for count in sent]
    left = sent[-1] - lost[-1] - 1
    return UdpTest(
        payload=draw(st.integers(16, 65507)),
        sent=tuple(sent),
        lost=tuple(lost),
        tail=draw(st.integers(0, min(left, 50))),
        streams=draw(st.sampled_from([1, 1, 2, 4])),
        version=draw(st.sampled_from(VERSIONS)),
        server=draw(st.booleans()),
    )


FORMS = {
    "text": lambda test: test.text(),
    "text, verbose": lambda test: test.text(verbose=True),
    "text, --title": lambda test: test.text(prefix="path 1:  "),
    "text, --timestamps": lambda test: test.text(prefix="Sat Nov 28 14:00:00 2026 "),
    "text, syslog": lambda test: test.text(prefix="Nov 28 14:00:00 talker iperf3[1234]: "),
    "text, for a terminal": lambda test: test.text(prefix="\x1b[?2004h\x1b[1m").replace(
        "\n", "\x1b[0m\n"
    ),
    "text, copied from a web page": lambda test: test.text().replace("  ", " \u00a0"),
    "text, copied from a table": lambda test: test.text().replace("  ", "\t"),
    "text, ends of lines of an old terminal": lambda test: test.text(verbose=True).replace(
        "\n", "\r"
    ),
    "text, every line twice": lambda test: "".join(
        2 * line for line in test.text(verbose=True).splitlines(keepends=True)
    ),
    "text, twice": lambda test: 2 * test.text(),
    "text, --debug": lambda test: debugged(test.text()),
    "JSON": lambda test: json.dumps(test.document()),
    "JSON, indented": lambda test: json.dumps(test.document(), indent="\t"),
    "JSON, a host before each line": lambda test: "".join(
        f"talker | {line}"
        for line in json.dumps(test.document(), indent="\t").splitlines(keepends=True)
    ),
    "JSON, twice": lambda test: 2 * json.dumps(test.document()),
    "JSON, --verbose": lambda test: (
        f"iperf 3.{test.version}\n{json.dumps(test.document())}\nDone.\n"
    ),
    "JSON, --debug": lambda test: debugged(json.dumps(test.document(), indent="\t")),
    "JSON, --json-stream": lambda test: test.events(),
    "JSON, --json-stream-full-output": lambda test: test.events() + json.dumps(test.document()),
}


@given(udp_tests(), st.sampled_from(sorted(FORMS)))
def test_a_udp_test_is_read_back_from_each_output(test, form):
    (found,) = known(FORMS[form](test))
    is_json = form.startswith("JSON")
    if is_json and not test.server and 2 <= test.version < 10:
        # These versions do not print what the receiver counted.
        assert not found.keys() & {"received", "lost"}
        assert found["loss_percent"] == pytest.approx(100 * sum(test.lost) / test.all_sent)
    else:
        assert found["received"] == test.received
    if test.server:
        assert not found.keys() & {"sent", "offered_mbps", "send_seconds"}
        assert found["loss_percent"] == pytest.approx(100 * sum(test.lost) / test.counted)
    else:
        assert found["sent"] == test.all_sent
        rate = test.all_sent * test.payload * 8 / test.seconds / 1e6
        assert found["offered_mbps"] == pytest.approx(rate, rel=1e-9 if is_json else 0.006)
    if is_json or "verbose" in form:
        assert (found["payload_bytes"], found["duration_s"]) == (test.payload, test.seconds)
        # A target is that of each stream.
        assert found.get("target_mbps") == (test.streams if test.version >= 9 else None)


@given(
    udp_tests(),
    st.sampled_from(["text", "text, verbose", "text, --debug", "JSON", "JSON, --json-stream"]),
)
def test_the_intervals_of_a_udp_test_are_read_back(test, form):
    found = known(FORMS[form](test), rows="intervals")
    if test.server:
        counted = [*test.sent[:-1], test.sent[-1] - test.tail]
        shares = [100 * lost / count for lost, count in zip(test.lost, counted, strict=True)]
        assert [row["loss_percent"] for row in found] == pytest.approx(shares)
    else:
        assert [row["sent"] for row in found] == list(test.sent)


@given(
    sent=st.integers(10**6, 10**12),
    share=st.floats(0.5, 1),
    retransmits=st.integers(0, 1000),
    streams=st.sampled_from([1, 2, 8]),
    server=st.booleans(),
    version=st.sampled_from(VERSIONS),
    form=st.sampled_from(
        ["text", "text, verbose", "text, --title", "text, --debug", "JSON", "JSON, twice"]
    ),
)
def test_a_tcp_test_is_read_back_from_each_output(
    sent, share, retransmits, streams, server, version, form
):
    test = TcpTest(int(sent * share), sent, retransmits, streams, server, version)
    (found,) = known(FORMS[form](test), "tcp")
    accuracy = 1e-9 if form.startswith("JSON") else 0.006
    assert found["goodput_mbps"] == pytest.approx(test.received * 0.8e-6, rel=accuracy)
    if server:
        assert not found.keys() & {"sent_mbps", "retransmits"}
    else:
        assert found["sent_mbps"] == pytest.approx(test.sent * 0.8e-6, rel=accuracy)
        assert found["retransmits"] == retransmits


@pytest.mark.parametrize("version", VERSIONS)
def test_in_reverse_the_client_reports_what_arrived(version):
    test = dataclasses.replace(UDP, reverse=True, version=version)
    (found,) = known(test.document())
    arrived = None if 2 <= version < 10 else test.received
    assert (found["sent"], found.get("received")) == (test.all_sent, arrived)
    (found,) = known(test.text())
    assert found["received"] == test.received
    # The one total of old versions has the receiver's count.
    assert found.get("sent") == (test.all_sent if version >= 3 else None)
    for row in known(test.document(), rows="intervals") + known(test.text(), rows="intervals"):
        assert "loss_percent" in row


@pytest.mark.parametrize("unit", ["Kbits", "Mbits", "Gbits", "Tbits", "KBytes", "MBytes", "TBytes"])
def test_rates_in_every_unit_of_the_format_option(unit):
    size = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[unit[0]]
    if unit.endswith("Bytes"):
        size = 8 * 1024 ** ("KMGT".index(unit[0]) + 1)
    text = TCP.text().replace("936 Mbits/sec", f"2.50 {unit}/sec")
    text = text.replace("1.09 GBytes", scaled(10 * 2.5 * size / 8, 1024, "Bytes"))
    assert known(text, "tcp")[0]["goodput_mbps"] == pytest.approx(2.5 * size / 1e6)


@pytest.mark.parametrize("shown", ["0.01 Gbits", "0.00 Gbits", "0.00 Tbits"])
def test_rates_in_a_unit_that_leaves_no_digits_are_those_of_the_bytes(shown):
    text = TcpTest(12_500_000, 12_500_000).text()
    coarse = text.replace("10.0 Mbits", shown)
    assert coarse != text
    assert known(coarse, "tcp")[0]["goodput_mbps"] == pytest.approx(10, rel=0.005)


@pytest.mark.parametrize("server", [False, True])
def test_intervals_in_reverse_are_the_receiver_s(server):
    """Who sends is told by the client's line, and by a server's columns."""
    lines = TCP.text().splitlines(keepends=True)
    lines.insert(1, "Reverse mode, remote host 192.0.2.2 is sending\n")
    client = "".join(lines).replace("         Retr", "")
    sends = TCP.text().replace("Connecting to host 192.0.2.2", "Accepted connection from 192.0.2.1")
    if server:
        assert "do not show what arrived" in refusal(sends, "tcp", "intervals")
    else:
        for text in (client, f"{client}\nServer output:\n{sends}"):
            (found,) = known(text, "tcp", "intervals")
            assert found["goodput_mbps"] == pytest.approx(944, rel=0.006)


def test_a_sum_of_streams_sent_again_is_no_count_of_datagrams():
    text = dataclasses.replace(TCP, streams=2).text()
    total = next(line for line in text.splitlines() if line.startswith("[SUM]"))
    text = text.replace(total, total + "   7             ", 1)
    assert "do not show what arrived" in refusal(text, "tcp", "intervals")


@pytest.mark.parametrize("unit", ["Gbits", "Kbits", "MBytes"])
def test_rates_in_another_unit_than_the_bytes_are_refused(unit):
    assert f" {unit}/sec" in refusal(TCP.text().replace("Mbits", unit), "tcp")


def test_a_total_that_is_broken_off_is_refused():
    """Its count may lack digits, and its name shows whose count it is."""
    text = UDP.text()
    end = text.index("sender\n")
    for cut in range(end - len("(0%)  0"), end):
        assert "broken off" in refusal(text[:cut])


@pytest.mark.parametrize("width", [60, 70, 78, 80, 84])
@pytest.mark.parametrize(("test", "experiment"), [(UDP, "loss"), (TCP, "tcp")])
def test_wrapped_lines_are_refused(test, experiment, width):
    lines = test.text().splitlines()
    by_words = [part for line in lines for part in textwrap.wrap(line, width) or [""]]
    parts = [range(0, max(len(line), 1), width) for line in lines]
    cut = [line[i : i + width] for line, found in zip(lines, parts, strict=True) for i in found]
    for wrapped in (by_words, cut):
        if len(wrapped) > len(lines):
            assert "wrapped" in refusal("\n".join(wrapped), experiment)


def test_lines_of_two_tests_are_refused():
    lines = zip(TCP.text().splitlines(), TcpTest(10**9, 10**9, 2).text().splitlines(), strict=True)
    assert "several tests" in refusal("".join(f"{a}\n{b}\n" for a, b in lines), "tcp")


def test_a_server_s_json_behind_a_client_s_text():
    server = dataclasses.replace(UDP, server=True)
    text = f"{UDP.text()}\nServer JSON output:\n{json.dumps(server.document(), indent=1)}\n"
    assert known(text) == known(UDP.text())
    assert known(text, rows="intervals") == known(server.document(), rows="intervals")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("lost", [0, 20])
def test_what_was_lost_behind_the_last_arrival(version, lost):
    """Where a client's JSON does not show it, its server's output does, and a note says so."""
    test = UdpTest(1448, (500, 500), (lost, 0), tail=5, version=version)
    document = test.document()
    read = iperf3.read(source_file(json.dumps(document)), table("iperf3"))
    (row,) = read.rows
    if 2 <= version < 10:
        assert read.notes[0].startswith(f"at most {1000 - lost} of 1000 datagrams arrived")
        assert "--get-server-output" in read.notes[0]
        assert row.known["loss_percent"] == lost / 10
        assert not row.known.keys() & {"received", "lost", "note"}
    else:
        assert not read.notes
        assert row.known["received"] == test.received
    server = dataclasses.replace(test, server=True)
    outputs = {"server_output_text": server.text(), "server_output_json": server.document()}
    outputs["server_output_json"]["end"]["streams"] = [{"udp": {}}]
    for name, output in outputs.items():
        read = iperf3.read(source_file(json.dumps(document | {name: output})), table("iperf3"))
        assert (read.rows[0].known["received"], read.notes) == (test.received, [])


def test_a_server_that_was_stopped_after_its_test():
    rule = "-----------------------------------------------------------\n"
    test = dataclasses.replace(UDP, server=True)
    stopped = "iperf3: interrupt - the server has terminated\n"
    idle = f"{rule}Server listening on 5201 (test #2)\n{rule}"
    assert known(test.text() + idle + stopped) == known(test.text())
    assert "iperf3 was interrupted" in refusal(test.text() + stopped)
    error = json.dumps({"start": {}, "intervals": [], "end": {}, "error": stopped[8:]})
    assert known(json.dumps(test.document()) + error) == known(test.document())


# --- outputs that are refused ---------------------------------------------------------------------


def both_directions(document, key):
    """Return the JSON text of a test in both directions; until 3.10 the sums have one name."""
    ends = {
        name: dict(part, bytes=1) for name, part in document["end"].items() if name != "streams"
    }
    reverse = json.dumps(ends)[1:-1]
    for name in ends:
        reverse = reverse.replace(f'"{name}":', f'"{name}{key}":')
    return json.dumps(document).removesuffix("}}") + ", " + reverse + "}}"


@pytest.mark.parametrize("key", ["", "_bidir_reverse"])
@pytest.mark.parametrize(("test", "experiment"), [(UDP, "loss"), (TCP, "tcp")])
def test_tests_in_both_directions(test, experiment, key):
    text = both_directions(test.document(), key)
    assert len(text) > len(json.dumps(test.document())) + 50
    assert "both directions" in refusal(text, experiment)
    lines = test.text().replace("[  5]", "[  5][TX-C]") + test.text().replace(
        "[  5]", "[  7][RX-C]"
    )
    assert "both directions" in refusal(lines.split("Connecting")[1], experiment)
    document = test.document()
    document["start"]["test_start"]["bidir"] = 1
    assert "both directions" in refusal(document, experiment)


@pytest.mark.parametrize("streams", [1, 3])
def test_interrupted_tests(streams):
    test = dataclasses.replace(UDP, interrupted=True, version=17, streams=streams)
    assert "iperf3 was interrupted: interrupt" in refusal(test.text())
    assert "iperf3 was interrupted: interrupt" in refusal(test.document())
    assert "iperf3 was interrupted: interrupt" in refusal(test.events())
    # The message is on stderr, and the receiver's total of 0/0 remains.
    without = "\n".join(test.text().splitlines()[:-1])
    assert "iperf3 was interrupted" in refusal(without)
    assert "no end" in refusal("".join(UDP.events().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize(
    "failed",
    [
        "unable to connect to server: Connection refused",
        "the server is busy running a test. try again later",
    ],
)
def test_attempts_that_did_not_begin(failed):
    assert known(f"iperf3: error - {failed}\n{UDP.text()}") == known(UDP.text())
    assert failed.split(":")[0].split(".")[0] in refusal(f"iperf3: error - {failed}\n")


@pytest.mark.parametrize("write", [lambda test: test.text(), lambda test: test.document()])
def test_negative_losses(write):
    test = dataclasses.replace(UDP, lost=(0, -8), tail=0)
    assert "more datagrams arrived" in refusal(write(test))


def test_errors_after_the_totals():
    error = "iperf3: error - control socket has closed unexpectedly\n"
    assert "control socket has closed" in refusal(UDP.text() + error)
    assert "control socket has closed" in refusal(error + UDP.text())


@pytest.mark.parametrize("streams", [1, 4])
def test_more_arrived_than_was_sent(streams):
    doubled = dataclasses.replace(UDP, lost=(-500, -490), tail=0, streams=streams)
    for server in (False, True):
        test = dataclasses.replace(doubled, server=server)
        for content in (test.document(), test.text()):
            assert "duplicates reached the listener (no elimination)" in refusal(content)


@pytest.mark.parametrize("lost", [10, 100, 400])
def test_a_receiver_that_reports_no_loss_although_fewer_bytes_arrived(lost):
    test = UdpTest(1448, (4300, 4333), (lost, 0), version=13)
    true = f"{lost}/{test.all_sent} ({100 * lost / test.all_sent:.2g}%)"
    text = test.text().replace(true, f"0/{test.all_sent} (0%)")
    if lost == 10:  # as much as rounding may be
        assert known(test.text())[0]["received"] == test.received
    else:
        assert text != test.text()
        assert f"reports 0 lost of {test.all_sent} datagrams, but" in refusal(text)
        # Rates of fewer digits do not differ by more than rounding, but the bytes differ.
        coarse = re.sub(r"[\d.]+ Mbits/sec", "50 Mbits/sec", text)
        assert f"reports 0 lost of {test.all_sent} datagrams, but" in refusal(coarse)
    document = test.document()
    document["end"]["sum_received"]["lost_packets"] = 0
    assert known(document)[0]["received"] == test.received


def test_a_receiver_that_does_not_report_the_loss():
    text = UDP.text().replace("20/995 (2%)", "Unknown/995")
    assert "does not report how many datagrams were lost" in refusal(text)


@pytest.mark.parametrize("end", [2**31 - 1, 2**32 - 1])
@pytest.mark.parametrize("server", [False, True])
def test_counters_at_their_end(end, server):
    test = UdpTest(1448, (2**32, 2**32), (0, 0), server=server)
    for content in (test.text(), json.dumps(test.document())):
        printed = content.replace(str(test.counted), str(end))
        assert printed != content
        assert "counter overflowed" in refusal(printed)


@pytest.mark.parametrize("server", [False, True])
def test_counters_that_began_again(server):
    test = UdpTest(1448, (2**32 - 5000, 2**32 - 5000), (0, 0), server=server)
    for content in (test.text(), json.dumps(test.document())):
        printed = content.replace(str(test.counted), str(test.counted - 2**32))
        assert "counter overflowed" in refusal(printed)


def test_intervals_that_lack_some_do_not_show_what_was_sent():
    old = UdpTest(1448, (500, 500, 500), (0, 0, 0), version=1).text().splitlines(keepends=True)
    for missing in range(2, 5):
        (found,) = known("".join(old[:missing] + old[missing + 1 :]))
        assert "sent" not in found
        assert found["received"] == 1500


def test_a_tcp_test_of_which_nothing_arrived():
    test = dataclasses.replace(TCP, received=0)
    assert "interrupted, or nothing was received" in refusal(test.text(), "tcp")
    assert "interrupted, or nothing was received" in refusal(test.document(), "tcp")


def test_what_does_not_show_what_arrived():
    sender = [line for line in UDP.text().splitlines() if not line.endswith("receiver")]
    assert "do not show what arrived" in refusal("\n".join(sender))
    assert "do not show what arrived" in refusal(
        dataclasses.replace(UDP, server=True, reverse=True).document()
    )
    server = dataclasses.replace(TCP, server=True, reverse=True)
    for content in (server.text(), server.document()):
        assert "do not show what arrived" in refusal(content, "tcp")


def test_streams_without_their_sum():
    text = dataclasses.replace(UDP, streams=2).text()
    lines = [line for line in text.splitlines() if not line.startswith("[SUM]")]
    assert "several streams and no sum of them" in refusal("\n".join(lines))
    totals = [line for line in text.splitlines() if "[SUM]   0.00-2.00" in line]
    assert known("\n".join(lines[:6] + totals)) == known(text)
    assert "several streams" in refusal("\n".join(lines[:6] + totals), rows="intervals")


def test_datagrams_out_of_order_are_those_of_all_streams():
    late = "[SUM]  0.0-2.0 sec  {} datagrams received out-of-order"
    lines = dataclasses.replace(UDP, streams=2).text().splitlines()
    lines[-2:-2] = [late.format(3), lines[-6], late.format(4)]
    assert known("\n".join(lines))[0]["out_of_order"] == 7
    # Until 3.1.1 the number is that of the datagrams lost.
    old = dataclasses.replace(UDP, version=1).text()
    assert "out_of_order" not in known(old + late.format(sum(UDP.lost)))[0]
    assert known(old + late.format(5))[0]["out_of_order"] == 5


def test_one_stream_without_sums_and_several():
    """The first versions print sums for several streams only."""
    for test, experiment in ((dataclasses.replace(UDP, version=0), "loss"), (TCP, "tcp")):
        document = test.document()
        names = {"sum": "udp", "sum_sent": "sender", "sum_received": "receiver"}
        end = document["end"]
        stream = {names[name]: end[name] for name in end if name != "streams"}
        alone = document | {
            "intervals": [{"streams": [one["sum"]]} for one in document["intervals"]],
            "end": {"streams": [stream]},
        }
        assert known(alone, experiment) == known(document, experiment)
        alone["end"]["streams"] *= 2
        assert "several streams and no sum" in refusal(alone, experiment)


def test_sctp_is_not_tcp():
    test = dataclasses.replace(TCP, protocol="SCTP")
    assert "it is a SCTP test" in refusal(test.text(verbose=True), "tcp")
    assert "it is a SCTP test" in refusal(test.document(), "tcp")


IPERF_2 = """\
------------------------------------------------------------
Client connecting to 192.0.2.2, {protocol} port 5001
------------------------------------------------------------
[  3] local 192.0.2.1 port 40000 connected with 192.0.2.2 port 5001
[ ID] Interval       Transfer     Bandwidth
[  3]  0.0-10.0 sec   596 MBytes   500 Mbits/sec
"""


@pytest.mark.parametrize(
    "text",
    [
        IPERF_2.format(protocol="TCP"),
        IPERF_2.format(protocol="UDP")
        + "[  3] Sent 425170 datagrams\n[  3] Server Report:\n"
        "[  3]  0.0-10.0 sec   536 MBytes   450 Mbits/sec   0.020 ms 42517/425170 (10%)\n",
        IPERF_2.format(protocol="UDP").replace("Client connecting to 192.0.2.2, UDP", "Server "
                                               "listening on UDP"),
        "20261128140000,192.0.2.1,40000,192.0.2.2,5001,3,0.0-10.0,624951296,499961036\n",
        "[  1] 0.0000-10.0051 sec  1.09 GBytes   938 Mbits/sec\n",
        "[  3] 0.00-9.99 sec  1.25 MBytes  1.05 Mbits/sec   0.020 ms    0/  893 (0%)\n",
        "[  1] 0.00-1.00 sec   131 KBytes  1.07 Mbits/sec  91/0       91 pps\n",
    ],
)  # fmt: skip
def test_iperf_2_is_another_program(text):
    for experiment in ("loss", "tcp"):
        assert "iperf 2" in refusal(text, experiment)


def test_flent_is_another_program():
    document = {"metadata": {"NAME": "tcp_download"}, "results": {}, "version": 4, "x_values": []}
    assert "data file of flent" in refusal(document, "tcp")


def test_different_tests_in_a_file():
    other = dataclasses.replace(UDP, tail=6)
    assert "several tests" in refusal(UDP.text() + other.text())
    assert "several tests" in refusal(json.dumps(UDP.document()) + json.dumps(other.document()))
    assert "several tests" in refusal(UDP.events() + other.events())


def test_numbers_that_are_none():
    old = dataclasses.replace(UDP, version=1)
    text = json.dumps(old.document()).replace('"jitter_ms": 0.01', '"jitter_ms": -nan')
    assert "nan" in text
    assert known(text) == known(old.document())
    nan = UDP.text().replace("(0%)", "(-nan%)").replace("0.010 ms", "-nan ms")
    assert known(nan) == known(UDP.text())


@pytest.mark.parametrize("value", ["7", True, [7], {"a": 7}])
def test_values_of_another_type(value):
    printed = TCP.document()
    printed["end"]["sum_sent"]["retransmits"] = value
    assert f"cannot be one: retransmits is {value!r}" in refusal(printed, "tcp")
