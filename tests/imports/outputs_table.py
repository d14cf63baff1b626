"""The table of docs/outputs.md: each output is written, and what reading it gives is its row.

python tests/imports/outputs_table.py > docs/outputs.md
"""

import dataclasses
import gzip
import json
import re
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

import tool_outputs as printed
from iperf3_writer import TcpTest, UdpTest, debugged, events
from reader_files import source_file, table
from test_imports_csit import LATENCY as CSIT_LATENCY
from test_imports_csit import LOSS as CSIT_LOSS
from test_imports_csit import NDRPDR
from test_imports_isochron import FOUR, SUMMARY, times
from test_imports_isochron import printed as printed_packets

from tsnrepro.common.errors import TsnreproError
from tsnrepro.common.repository import root
from tsnrepro.imports.reading import DataFolder, read_file

PAGE = root() / "docs" / "outputs.md"
ALL = range(20)
UDP = UdpTest(1472, (500, 500), (20, 0), tail=5)
TCP = TcpTest(received=1_170_000_000, sent=1_180_000_000, retransmits=7)
ONE_WAY = {"latency_quantity": "one way"}
LOSS, GOODPUT = table("iperf3"), table("iperf3", "tcp")
INTERVALS = table("iperf3", rows="intervals")
LATENCY = table("sockperf", "latency")
ISOCHRON = table("times", "latency", times=times().model_dump(exclude_none=True), **ONE_WAY)
TIMES = table("times", "latency", times={"sent": "tx", "received": "rx", "unit": "ns"}, **ONE_WAY)
# In the order of a row, by the names of the page.
FIELDS = {
    "sent": "sent",
    "received": "received",
    "loss_percent": "loss",
    "offered_mbps": "offered rate",
    "delivered_mbps": "delivered rate",
    "goodput_mbps": "goodput",
    "retransmits": "retransmits",
    "observations": "number of latencies",
    "mean_us": "mean",
    "sd_us": "standard deviation",
    "p99_us": "quantiles",
    "max_us": "extremes",
}
_MOST = 110


def outcome(content, layout, name="some.txt") -> str:
    """Return "read" with what a file of a content has, or "refused" with the reason."""
    file = source_file(content, name)
    try:
        found = read_file(DataFolder(file.path.parent, []), file, "t", layout, None)
    except TsnreproError as error:
        return f"refused: {error.what if len(error.what) <= _MOST else error.what[:_MOST] + ' ...'}"
    known = {name for trial in found.trials for name in trial.result}
    names = [shown for name, shown in FIELDS.items() if name in known]
    if "loss" in names and "lost" not in known:
        names[names.index("loss")] = "loss by gaps"
    note = "; losses behind the last arrival are unknown, which is noted" if found.notes else ""
    return f"read: {', '.join(names)}{note}"


def versions(numbers: Iterable[int]) -> str:
    numbers = list(numbers)
    first, last = numbers[0], numbers[-1]
    return f"3.{first}" if first == last else f"3.{first} to 3.{last}"


def by_version(
    mode: str, layout, write: Callable, numbers: Iterable[int], test: UdpTest | TcpTest = UDP
) -> list[tuple[str, str, str]]:
    """Return a row per run of versions whose outputs are read alike."""
    found = [(n, outcome(write(dataclasses.replace(test, version=n)), layout)) for n in numbers]
    return [
        (versions(n for n, _ in group), mode, how)
        for how, group in groupby(found, key=lambda item: item[1])
    ]


def text(test):
    return test.text()


def document(test):
    return json.dumps(test.document())


def of(**changes):
    """Return the writers of a test that is changed."""
    return (
        lambda test: dataclasses.replace(test, **changes).text(),
        lambda test: document(dataclasses.replace(test, **changes)),
    )


def with_server_output(test):
    server = dataclasses.replace(test, server=True).document()
    server["end"]["streams"] = [{"udp": {}}]
    return json.dumps(test.document() | {"server_output_json": server})


def with_server_text(test):
    server = dataclasses.replace(test, server=True)
    if isinstance(test, UdpTest):
        return json.dumps(test.document() | {"server_output_text": server.text()})
    return test.text()


def both(test):
    printed_ = test.document()
    printed_["start"]["test_start"]["bidir"] = 1
    return json.dumps(printed_)


def both_text(test):
    lines = test.text().replace("[  5]", "[  5][TX-C]")
    return lines + test.text().replace("[  5]", "[  7][RX-C]").partition("\n")[2]


def titled(test):
    return test.text(prefix="Nov 28 14:00:00 talker iperf3[1234]: ")


FAILED = "error - unable to receive results: Connection reset by peer"


def with_error(test):
    return json.dumps(test.document() | {"error": FAILED})


def with_error_text(test):
    return f"{test.text().partition('- - -')[0]}iperf3: {FAILED}\n"


def iperf3() -> list[tuple[str, str, str]]:
    udp = [
        ("client, text", LOSS, text, ALL),
        ("client, `--json`", LOSS, document, ALL),
        ("client, `--json --get-server-output`", LOSS, with_server_output, ALL),
        ("the same, server's output as text", LOSS, with_server_text, ALL),
        ("client, `--json-stream`", LOSS, lambda test: test.events(), range(17, 20)),
        ("client, text in a journal", LOSS, titled, ALL),
        ("client, `--debug`, text", LOSS, lambda test: debugged(test.text()), ALL),
        ("client, `--json`, printed twice", LOSS, lambda test: 2 * document(test), range(16, 20)),
        ("server, text", LOSS, of(server=True)[0], ALL),
        ("server, `--json`", LOSS, of(server=True)[1], ALL),
        ("client, `--reverse`, text", LOSS, of(reverse=True)[0], ALL),
        ("client, `--reverse --json`", LOSS, of(reverse=True)[1], ALL),
        ("server, `--reverse --json`", LOSS, of(server=True, reverse=True)[1], ALL),
        ("client, `--parallel 4`, text", LOSS, of(streams=4)[0], ALL),
        ("client, `--parallel 4 --json`", LOSS, of(streams=4)[1], ALL),
        ("`--bidir`, text", LOSS, both_text, range(7, 20)),
        ("`--bidir --json`", LOSS, both, range(7, 20)),
        ("interrupted, text", LOSS, of(interrupted=True)[0], ALL),
        ("interrupted, `--json`", LOSS, of(interrupted=True)[1], ALL),
        ("with an error, text", LOSS, with_error_text, ALL),
        ("with an error, `--json`", LOSS, with_error, ALL),
        ("client, `rows: intervals`", INTERVALS, text, ALL),
        ("server, `rows: intervals`", INTERVALS, of(server=True)[0], ALL),
        ("duplicates arrived, text", LOSS, of(lost=(-500, -490), tail=0)[0], ALL),
    ]
    tcp = [
        ("client, text", text, ALL),
        ("client, `--json`", document, ALL),
        ("client, `--json-stream`", lambda test: events(test.document()), range(17, 20)),
        ("client, text in a journal", titled, ALL),
        ("server, text", of(server=True)[0], ALL),
        ("server, `--json`", of(server=True)[1], ALL),
        ("client, `--reverse`, text", of(reverse=True)[0], ALL),
        ("client, `--reverse --json`", of(reverse=True)[1], ALL),
        ("server, `--reverse`, text", of(server=True, reverse=True)[0], ALL),
        ("server, `--reverse --json`", of(server=True, reverse=True)[1], ALL),
        ("client, `--parallel 4`, text", of(streams=4)[0], ALL),
        ("client, `--parallel 4 --json`", of(streams=4)[1], ALL),
        ("with an error, text", with_error_text, ALL),
        ("with an error, `--json`", with_error, ALL),
        ("`--bidir`, text", both_text, range(7, 20)),
        ("`--bidir --json`", both, range(7, 20)),
        ("`--sctp --json`", of(protocol="SCTP")[1], range(1, 20)),
        ("`--sctp --verbose`, text",
         lambda test: dataclasses.replace(test, protocol="SCTP").text(verbose=True), range(1, 20)),
    ]  # fmt: skip
    rows = [row for mode in udp for row in by_version(f"UDP, {mode[0]}", *mode[1:])]
    for mode, write, numbers in tcp:
        rows += by_version(f"TCP, {mode}", GOODPUT, write, numbers, TCP)
    return [(f"iperf3 {numbers}", mode, how) for numbers, mode, how in rows]


def sockperf() -> list[tuple[str, str, str]]:
    newest = re.sub(
        r"\(std-dev=([\d.]+)\)", r"(std-dev=\1, mean-ad=3.1, std-error=0.042)", printed.SOCKPERF
    )
    log = printed.sockperf_log([10.0, 20.0, 40.0])
    many = re.sub(
        r"(\[Valid.*SentMessages=)(\d+)", lambda m: f"{m[1]}{100 * int(m[2])}", printed.SOCKPERF
    )
    second_thread, stopped, server = (
        printed.SOCKPERF.replace(*change)
        for change in (
            ("by timer)", "by timer)\nsockperf: Test end (interrupted by signal 2)"),
            ("by timer)", "by user)"),
            ("[CLIENT] send on", ": [SERVER] listen on"),
        )
    )
    rate = "sockperf: Summary: Message Rate is 5503883 [msg/sec]\n"
    burst = printed.SOCKPERF.replace("Latency is", "Latency of burst of 10 messages is")
    several = printed.SOCKPERF.replace(
        "sockperf: # dropped",
        "sockperf: [Valid Duration] RunTime="
        "1.550 sec; SentMessages=9; ReceivedMessages=9\n# dropped",
    )
    return [
        ("sockperf 3.3 to 3.7", "ping-pong, summary", outcome(printed.SOCKPERF, LATENCY)),
        ("sockperf 3.8 to 3.10", "ping-pong, summary", outcome(newest, LATENCY)),
        ("sockperf 3.3 to 3.10", "ping-pong, `--full-log`", outcome(log, LATENCY)),
        ("sockperf 3.8 to 3.10", "ping-pong, `--full-log --histogram`",
         outcome(log + "------------------------------\nbin,count\n10,1\n", LATENCY)),
        ("sockperf 3.7 to 3.10", "ping-pong, `--full-rtt`, half of it",
         outcome(printed.SOCKPERF.replace("avg-latency", "avg-rtt"), LATENCY)),
        ("sockperf", "ping-pong, `--burst`", outcome(burst, LATENCY)),
        ("sockperf", "ping-pong with several servers", outcome(several, LATENCY)),
        ("sockperf", "under-load", outcome(many, LATENCY)),
        ("sockperf", "under-load, `--reply-every 1`", outcome(second_thread, LATENCY)),
        ("sockperf", "throughput", outcome(rate, LATENCY)),
        ("sockperf", "interrupted", outcome(stopped, LATENCY)),
        ("sockperf", "server", outcome(server, LATENCY)),
    ]  # fmt: skip


def others() -> list[tuple[str, str, str]]:
    csit = [
        ("`ndrpdr`, latencies", NDRPDR, CSIT_LATENCY),
        ("`ndrpdr`, rates", NDRPDR, CSIT_LOSS),
        *((f"`{kind}`", NDRPDR | {"result": {"type": kind}}, CSIT_LOSS)
          for kind in ("mrr", "soak", "hoststack")),
        ("a test that failed", NDRPDR | {"passed": False}, CSIT_LATENCY),
    ]  # fmt: skip
    flent = {"metadata": {"NAME": "rrul"}, "results": {}, "version": 4, "x_values": []}
    ping = "PING 192.0.2.2 (192.0.2.2) 56(84) bytes of data.\n"
    rows = [
        ("isochron", "`report` with `--printf-format`", printed_packets(FOUR), ISOCHRON),
        ("isochron", "`report --summary` alone", SUMMARY, ISOCHRON),
        ("isochron", "`isochron.dat`", b"ISOCHRON\0" + bytes(20), ISOCHRON),
        *(("CSIT", mode, json.dumps(content), layout) for mode, content, layout in csit),
        ("mausezahn", "UDP", printed.MAUSEZAHN, table("mausezahn")),
        ("iperf 2", "TCP, text", "Client connecting to 192.0.2.2, TCP port 5001\n", GOODPUT),
        ("iperf 2", "UDP, text", "Client connecting to 192.0.2.2, UDP port 5001\n", LOSS),
        ("iperf 2", "`--reportstyle C`",
         "20261128140000,192.0.2.1,40000,192.0.2.2,5001,3,0.0-10.0,624951296,499961036\n", GOODPUT),
        ("flent", "`*.flent`", json.dumps(flent), GOODPUT),
        ("flent", "summary", "Summary of rrul test run 'x' (at 2026-11-28 14:00:00):\n", GOODPUT),
        ("ping, iputils", "text", ping, LATENCY),
        ("ping, BusyBox, macOS", "text", "PING 192.0.2.2 (192.0.2.2): 56 data bytes\n", LATENCY),
        ("ping, Windows", "text", "Pinging 192.0.2.2 with 32 bytes of data:\n", LATENCY),
        ("netperf", "text", "MIGRATED TCP STREAM TEST from 0.0.0.0 () to 192.0.2.2\n", GOODPUT),
        ("MoonGen", "text", "[Device: id=0] TX: 1.49 Mpps, 762 Mbit/s\n", LOSS),
        ("TRex", "text", "-Per port stats table\n", LOSS),
        ("tcpdump", "text", "14:00:00.123456 IP 192.0.2.1.1 > 192.0.2.2.2: UDP, length 9\n", TIMES),
        ("tshark", "text", "    1   0.000000    192.0.2.1 -> 192.0.2.2    UDP 60 Len=18\n", TIMES),
        ("tshark", "`-T json`", '[\n  {"_source": {}}\n]\n', TIMES),
        ("tcpdump, dumpcap", "pcap", b"\xd4\xc3\xb2\xa1" + bytes(20), TIMES),
        ("tcpdump, dumpcap", "pcapng", b"\n\r\r\n\x1c\0\0\0M<+\x1a" + bytes(16), TIMES),
        ("tables of times", "CSV with times of sending and receipt",
         "tx,rx\n1764338400000000013,1764338400000050040\n1764338400001000050,1764338400001050081\n",
         TIMES),
    ]  # fmt: skip
    compressed = outcome(gzip.compress(json.dumps(flent).encode()), GOODPUT, "rrul.flent.gz")
    found = [(tool, mode, outcome(content, layout)) for tool, mode, content, layout in rows]
    return [*found, ("flent", "`*.flent.gz`", compressed)]


def page() -> str:
    """Return the page."""
    lines = [
        "# Outputs that are imported",
        "",
        "What [imports](published.md#third-party-data) read of tools' outputs, and why they refuse",
        "others. Each row is an output of a known test, as its version writes it, and what its",
        "reader gave. Options that change only how a test sends, such as `--zerocopy`, change no",
        "output.",
        "",
        "| tool and version | mode | outcome |",
        "| --- | --- | --- |",
    ]
    rows = [*iperf3(), *sockperf(), *others()]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


if __name__ == "__main__":
    Path("/dev/stdout").write_text(page(), encoding="utf-8")
