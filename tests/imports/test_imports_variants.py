"""Outputs as people keep them: logs of other programs, other systems, other files by mistake."""

import bz2
import dataclasses
import gzip
import io
import json
import lzma
import random
import re
import tarfile
import zipfile

import pytest
import tool_outputs as printed
from hypothesis import example, given
from hypothesis import strategies as st
from iperf3_writer import TcpTest, UdpTest
from reader_files import source_file, table

from tsnrepro.common.errors import TsnreproError
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.importer import import_folder
from tsnrepro.imports.reading import DataFolder, read_file
from tsnrepro.imports.screening import NoMeasurementError

UDP = UdpTest(1472, (500, 500), (20, 0), tail=5)
TCP = TcpTest(received=1_170_000_000, sent=1_180_000_000, retransmits=7)
LOSS, GOODPUT = table("iperf3"), table("iperf3", "tcp")
LATENCY = table("sockperf", "latency")
ONE_WAY = {"latency_quantity": "one way"}
VERBOSE, LOG = UDP.text(verbose=True), printed.sockperf_log([10.0, 20.0, 40.0])
JSON = json.dumps(UDP.document(), indent="\t")


def result(content, layout):
    file = source_file(content)
    (trial,) = read_file(DataFolder(file.path.parent, []), file, "t", layout, None).trials
    return trial.result


def refusal(content, layout):
    with pytest.raises(NoMeasurementError) as error:
        result(content, layout)
    return error.value.what


# --- what logs put before each line ---------------------------------------------------------------

PREFIXES = {
    "ts": lambda i: f"Nov 28 14:00:{i % 60:02} ",
    "ts %.s": lambda i: f"1764338400.{i:06} ",
    "ts -i": lambda i: f"00:00:{i % 60:02} ",
    "ts -s %.s": lambda i: f"{1.5 * i:.6f} ",
    "journalctl": lambda i: f"Nov 28 14:00:{i % 60:02} talker iperf3[1234]: ",
    "journalctl -o short-iso": lambda i: f"2026-11-28T14:00:{i % 60:02}+0000 talker iperf3[1234]: ",
    "journalctl -o short-unix": lambda i: f"1764338400.{i:06} talker iperf3[1234]: ",
    "journalctl -o short-monotonic": lambda i: f"[{3.7 * i:12.6f}] talker iperf3[1234]: ",
    "docker logs -t": lambda i: f"2026-11-28T14:00:{i % 60:02}.{i:09}Z ",
    "docker logs -t, zeros left out": lambda i: f"2026-11-28T14:00:{i % 60:02}.{i + 1}Z ",
    "docker compose logs": lambda _: "iperf-1  | ",
    "kubectl logs --prefix": lambda _: "[pod/iperf3-client/iperf3] ",
    "logcat": lambda i: f"11-28 14:00:{i % 60:02}.000  1234  1234 I iperf3: ",
    "grep -n": lambda i: f"{i + 1}:",
    "grep -H": lambda _: "run1.txt:",
    "nl": lambda i: f"{i + 1:6}\t",
    "pssh": lambda _: "192.0.2.1: ",
    "a quotation": lambda _: "> ",
    "an indented block": lambda _: "    ",
}
FORMS = {
    "text": lambda test: test.text(),
    "text, verbose": lambda test: test.text(verbose=True),
    "JSON": lambda test: json.dumps(test.document(), indent="\t") + "\n",
    "JSON stream": lambda test: test.events() if isinstance(test, UdpTest) else test.text(),
}


def prefixed(text, prefix):
    lines = text.splitlines(keepends=True)
    return "".join(prefix(number) + line for number, line in enumerate(lines))


@given(
    st.sampled_from(sorted(PREFIXES)),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from([0, 1, 3, 7, 10, 12, 17, 19]),
    st.sampled_from([1, 1, 4]),
    st.booleans(),
)
@example("journalctl", "text, verbose", 0, 1, True)
def test_prefixes_change_nothing(prefix, form, version, streams, server):
    udp = dataclasses.replace(UDP, version=version, streams=streams, server=server)
    tcp = dataclasses.replace(TCP, version=version, streams=streams, server=server)
    for test, layout in ((udp, LOSS), (tcp, GOODPUT)):
        text = FORMS[form](test)
        assert result(prefixed(text, PREFIXES[prefix]), layout) == result(text, layout)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes_change_nothing_of_sockperf(prefix):
    text = prefixed(printed.SOCKPERF, PREFIXES[prefix])
    assert result(text, LATENCY) == result(printed.SOCKPERF, LATENCY)


# --- what editors, terminals and systems make of a file -------------------------------------------

SESSION = (
    'Script started on 2026-11-28 14:00:00+00:00 [TERM="xterm"]\r\n$ iperf3 -u -c 192.0.2.2 -V\r\n'
    "{}$ exit\r\nexit\r\nScript done on 2026-11-28 14:00:12+00:00\r\n"
)
KEPT = {
    "ends of lines of Windows": lambda text: text.replace("\n", "\r\n"),
    "a byte order mark": lambda text: "\ufeff" + text,
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, big endian, without a mark": lambda text: text.encode("utf-16-be"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "NUL bytes behind it": lambda text: text + "\0" * 512,
    "a prompt": lambda text: f"user@talker:~$ iperf3 -u -c 192.0.2.2 -V\n{text}user@talker:~$ \n",
    "script(1)": lambda text: SESSION.format(text.replace("\n", "\r\n")),
    "Markdown": lambda text: f"```\n{text}\n```\n",
    "a part of a web page": lambda text: f"<pre>\n{text}\n</pre>\n",
    "time(1) behind it": lambda text: text + "\nreal 10.02\nuser 0.10\nsys 0.32\n",
}


@pytest.mark.parametrize("way", KEPT)
@pytest.mark.parametrize(
    ("text", "layout"),
    [(VERBOSE, LOSS), (JSON, LOSS), (UDP.events(), LOSS), (TCP.text(), GOODPUT),
     (printed.SOCKPERF, LATENCY)],
)  # fmt: skip
def test_what_keeps_a_text_changes_nothing(way, text, layout):
    assert result(KEPT[way](text), layout) == result(text, layout)


@pytest.mark.parametrize("way", list(KEPT)[:3])
def test_what_keeps_a_log_changes_nothing(way):
    assert result(KEPT[way](LOG), LATENCY) == result(LOG, LATENCY)


# --- other files ----------------------------------------------------------------------------------


def zipped(name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, VERBOSE)
    return file.getvalue()


def archive(mode):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as tar:
        about = tarfile.TarInfo("a.txt")
        about.size = len(VERBOSE)
        tar.addfile(about, io.BytesIO(VERBOSE.encode()))
    return file.getvalue()


NOISE = random.Random(1).randbytes(500)
OTHER_FILES = {
    "empty": (b"", "it is empty"),
    "blank": (b"\r\n \n", "NUL and white space"),
    "a mark alone": (b"\xef\xbb\xbf", "NUL and white space"),
    "gzip": (gzip.compress(VERBOSE.encode()), r"compressed \(gzip\)"),
    "xz": (lzma.compress(VERBOSE.encode()), r"compressed \(xz\)"),
    "lzma": (lzma.compress(VERBOSE.encode(), lzma.FORMAT_ALONE), "binary data"),
    "bzip2": (bz2.compress(VERBOSE.encode()), r"compressed \(bzip2\)"),
    "zstd": (b"\x28\xb5\x2f\xfd" + NOISE, r"compressed \(zstd\)"),
    "lz4": (b"\x04\x22\x4d\x18" + NOISE, r"compressed \(lz4\)"),
    "compress": (b"\x1f\x9d\x90" + NOISE, r"compressed \(compress\)"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + NOISE, r"compressed \(p7zip\)"),
    "rar": (b"Rar!\x1a\x07\x01\0" + NOISE, r"compressed \(rar\)"),
    "zip": (zipped("a.txt"), r"compressed \(zip\)"),
    "an empty zip": (b"PK\x05\x06" + bytes(18), r"compressed \(zip\)"),
    "xlsx": (zipped("[Content_Types].xml"), "spreadsheet"),
    "tar": (archive("w"), r"archive \(tar\)"),
    "tgz": (archive("w:gz"), r"compressed \(gzip\)"),
    "SQLite": (b"SQLite format 3\0" + NOISE, "file of SQLite"),
    "MATLAB": (b"MATLAB 5.0 MAT-file" + NOISE, "file of MATLAB"),
    "Arrow": (b"ARROW1\0\0" + NOISE, "file of Arrow"),
    "Parquet": (b"PAR1" + NOISE, "file of Parquet"),
    "PDF": (b"%PDF-1.5\n%\xd0\xd4\xc5\xd8\n" + NOISE, "binary data"),
    "pcap": (b"\xd4\xc3\xb2\xa1" + bytes(20), r"packet capture \(pcap\)"),
    "pcapng": (b"\n\r\r\n\x1c\0\0\0M<+\x1a" + bytes(16), r"packet capture \(pcapng\)"),
    "a web page": (f"<html><pre>{VERBOSE}</pre></html>".encode(), "HTML page"),
    "a remark": (b"We measured with iperf3 at 10 Mb/s.\n", "not an output of"),
    "a table": (b"time,sent,received\n1,2,3\n", "not an output of"),
    "not found": (b"bash: iperf3: command not found\n", "error message"),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_other_files_are_named(name):
    content, reason = OTHER_FILES[name]
    for layout in (LOSS, GOODPUT, LATENCY):
        assert re.search(reason, refusal(content, layout))


PING = "--- 192.0.2.2 ping statistics ---\n1 packets transmitted, 1 {}received, 0% packet loss\n"
PROGRAMS = {
    "ping": [
        "PING 192.0.2.2 (192.0.2.2) 56(84) bytes of data.\n" + PING.format(""),
        "PING 192.0.2.2 (192.0.2.2): 56 data bytes\n" + PING.format("packets "),
        "PING 192.0.2.2 (192.0.2.2) 56(84) Bytes an Daten.\n",
        "\r\nPinging 192.0.2.2 with 32 bytes of data:\r\n",
        "Reply from 192.0.2.2: bytes=32 time<1ms TTL=64\r\n",
        "Antwort von 192.0.2.2: Bytes=32 Zeit<1ms TTL=64\r\n",
    ],
    "fping": ["192.0.2.2 : [0], 64 bytes, 0.251 ms (0.251 avg, 0% loss)\n"],
    "hping3": ["HPING 192.0.2.2 (eth0 192.0.2.2): S set, 40 headers + 0 data bytes\n"],
    "arping": ["ARPING 192.0.2.2 from 192.0.2.1 eth0\n"],
    "netperf": [
        "MIGRATED TCP STREAM TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.2 () port 0\n",
        "MIGRATED UDP REQUEST/RESPONSE TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.2\n",
        "THROUGHPUT=941.26\nTHROUGHPUT_UNITS=10^6bits/s\n",
    ],
    "nuttcp": [" 1121.1250 MB /  10.01 sec =  939.4123 Mbps 2 %TX 11 %RX 0 retrans\n"],
    "ntttcp": ["NTTTCP for Linux 1.4.0\n"],
    "uperf": ["Starting 1 processes running profile:stream ...  0.00 sec\n"],
    "qperf": ["tcp_bw:\n    bw  =  118 MB/sec\n"],
    "flent": ["Summary of tcp_download test run 'x' (at 2026-11-28 14:00:00.000000):\n"],
    "MoonGen": ["[Device: id=0] TX: 1.49 Mpps, 762 Mbit/s (1000 Mbit/s with framing)\n"],
    "TRex": [
        "-Per port stats table\n      ports |               0\n",
        " Total-Tx        :       1.00 Gbps\n",
        "Global Statistics\n\nconnection   : localhost, Port 4501\n",
    ],
    "pktgen": ["Params: count 1000\nResult: OK: 1234(c1200+d34) usec, 1000 (60byte,0frags)\n"],
    "tcpdump": [
        "14:00:00.123456 IP 192.0.2.1.5001 > 192.0.2.2.5001: UDP, length 1472\n",
        "1764338400.123456 IP 192.0.2.1.5001 > 192.0.2.2.5001: UDP, length 1472\n",
        "2026-11-28 14:00:00.123456 IP6 2001:db8::1.5001 > 2001:db8::2.5001: UDP, length 9\n",
    ],
    "tshark": [f"    1   0.000000    192.0.2.1 {arrow} 192.0.2.2    UDP 60 9 {arrow} 9 Len=18\n"
               for arrow in ("\u2192", "->")],
    "linuxptp": ["ptp4l[123.456]: master offset         12 s2 freq   +1234 path delay       500\n"],
    "cyclictest": ["T: 0 ( 1234) P:80 I:1000 C:  10000 Min:      2 Act:    3 Avg:    3\n"],
    "mausezahn": [printed.MAUSEZAHN],
    "iperf 2": ["Client connecting to 192.0.2.2, TCP port 5001\n"],
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_outputs_of_other_programs_are_named(name):
    times = table("times", "latency", times={"sent": 0, "received": 1, "unit": "s"}, **ONE_WAY)
    for text in PROGRAMS[name]:
        for layout in (LOSS, GOODPUT, LATENCY, times):
            assert f"output of {name}" in refusal(text, layout)


@pytest.mark.parametrize(
    ("content", "layout", "reason"),
    [
        (printed.SOCKPERF, LOSS, "output of sockperf"),
        (VERBOSE, LATENCY, "output of iperf3"),
        (VERBOSE, GOODPUT, "it is a UDP test"),
        (TCP.text(), LOSS, "it is a TCP test"),
        (VERBOSE + UdpTest(1472, (9,), (0,)).text(verbose=True), LOSS, "several tests"),
        (f"[{JSON},{json.dumps(UdpTest(1472, (9,), (0,)).document())}]", LOSS, "several tests"),
        (2 * printed.SOCKPERF, LATENCY, "several tests"),
        (2 * LOG, LATENCY, "several logs"),
        (VERBOSE[:-200], LOSS, "did not complete"),
        (JSON[:-40], LOSS, "damaged JSON"),
        (LOG[: LOG.rindex("2.4")], LATENCY, "last row of its log is broken off"),
        (LOG.replace(".", ","), LATENCY, "decimal comma"),
        (re.sub(r"(\d)\.(\d\d)(?=[- ])", r"\1,\2", TCP.text()), GOODPUT, "decimal comma"),
        ("mausezahn: socket: Operation not permitted\n", table("mausezahn"), "error message"),
        (json.dumps({"host": "a", "iperf": UDP.document()}), LOSS, "not iperf3's"),
        (json.dumps(JSON), LOSS, "not an output of iperf3"),
        (str(UDP.document()), LOSS, "not an output of iperf3"),
        ("".join(json.dumps({"log": line, "stream": "stdout"}) for line in VERBOSE.splitlines()),
         LOSS, "not iperf3's"),
    ],
)  # fmt: skip
def test_wrong_or_damaged_files(content, layout, reason):
    assert reason in refusal(content, layout)


def test_one_json_document_in_a_list():
    assert result(f"[{JSON}]", LOSS) == result(JSON, LOSS)


def test_a_folder_of_mixed_files(tmp_path):
    """What is a measurement is imported, whatever is beside it and whatever its name ends with."""
    folder = tmp_path / "mixed"
    (folder / "loss").mkdir(parents=True)
    for number, (content, _) in enumerate(OTHER_FILES.values(), start=1):
        (folder / "loss" / f"frer-1472B-1M-{number}.json").write_bytes(content)
    (folder / "loss" / "frer-1472B-1M-90.json").write_text(VERBOSE)
    (folder / "loss" / "frer-1472B-1M-91.txt").write_text(JSON)
    (folder / "loss" / "frer-1472B-1M-92.csv").write_text(UDP.events())
    report = import_folder(folder, "tool-output", "mixed", tmp_path / "raw")
    assert report.trials["loss"] == 3
    assert len(report.refused) == len(OTHER_FILES)


# --- times ----------------------------------------------------------------------------------------

PACKETS = [(1764338400_000000013 + i * 1000037, 1764338400_000050040 + i * 1000041)
           for i in range(5)]  # fmt: skip


def times_of(rows, header="tx,rx", delimiter=","):
    return "\n".join([header, *(f"{sent}{delimiter}{received}" for sent, received in rows)]) + "\n"


def seconds(nanoseconds):
    return f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09}"


TIMES = times_of(PACKETS)
IN_SECONDS = [(seconds(sent), seconds(received)) for sent, received in PACKETS]
QUOTED = [(f'"{sent}"', f'"{received}"') for sent, received in IN_SECONDS]
LIST = [(f"2026-11-28T14:00:00.{i:09}Z", f"2026-11-28T14:00:00.{i + 50:09}Z") for i in range(5)]


def read_times(content, unit="ns", **keys):
    times = {"sent": "tx", "received": "rx", "unit": unit} | keys
    return result(content, table("times", "latency", times=times, **ONE_WAY))


@pytest.mark.parametrize(
    ("content", "unit", "keys"),
    [
        (TIMES.replace("\n", "\r\n"), "ns", {}),
        ("\ufeff" + TIMES, "ns", {}),
        (TIMES.encode("utf-16"), "ns", {}),
        (TIMES.replace("\n", "\n\n"), "ns", {}),
        (TIMES.replace("\n", ",\n"), "ns", {}),
        (times_of(PACKETS, "tx;rx", ";"), "ns", {"delimiter": ";"}),
        (times_of(PACKETS, "tx rx", " "), "ns", {"delimiter": " "}),
        (times_of(IN_SECONDS), "s", {}),
        (times_of(QUOTED, '"tx","rx"'), "s", {}),
        (times_of(IN_SECONDS, "tx\trx", "\t"), "s", {"delimiter": "\t"}),
        (times_of(IN_SECONDS, "tx;rx", ";").replace(".", ","), "s",
         {"delimiter": ";", "decimal": ","}),
    ],
)  # fmt: skip
def test_times_as_other_programs_write_them(content, unit, keys):
    assert read_times(content, unit, **keys)["mean_us"] == pytest.approx(50.035)


@pytest.mark.parametrize(
    ("content", "unit", "reason"),
    [
        (TIMES, "us", "years in us, which no clock has run"),
        (TIMES, "s", "years in s|time of day"),
        (times_of([(rx, tx) for tx, rx in PACKETS]), "ns", "arrive when or before they are sent"),
        (times_of([(tx, rx + 37 * 10**9) for tx, rx in PACKETS]), "ns", "longer than the test"),
        (times_of([(f"{tx:.14e}", f"{rx:.14e}") for tx, rx in PACKETS]), "ns", "are rounded"),
        (times_of(LIST), "s", "not the times of a packet: 2026-11-28T14:00:00"),
        (json.dumps([{"tx": 1, "rx": 2}], indent=1), "ns", "it is JSON"),
        ("tx,rx\n", "ns", "no row with the times"),
    ],
)
def test_times_that_are_none(content, unit, reason):
    with pytest.raises(TsnreproError, match=reason):
        read_times(content, unit)


def test_two_captures_as_tshark_prints_their_fields(tmp_path):
    """Of one packet two copies arrived, of another none; the listener's are in another order."""
    folder = tmp_path / "captures"
    folder.mkdir()
    arrived = [(seq, received) for seq, (_, received) in enumerate(PACKETS) if seq != 3][::-1]
    arrived.append((2, PACKETS[2][1] + 10**6))
    files = {
        "talker.tsv": ("frame.time_epoch", [(seq, sent) for seq, (sent, _) in enumerate(PACKETS)]),
        "listener.tsv": ("received", arrived),
    }
    for name, (column, rows) in files.items():
        lines = [f"udp.seq\t{column}", *(f"{seq}\t{seconds(time)}" for seq, time in rows), ""]
        (folder / name).write_bytes("\r\n".join(lines).encode())
    keys = {"sent": "frame.time_epoch", "received": "received", "unit": "s", "delimiter": "\t"}
    joined = keys | {"sequence": "udp.seq", "listener": "listener.tsv"}
    file = SourceFile(folder / "talker.tsv", "talker.tsv")
    layout = table("times", "latency", times=joined, **ONE_WAY)
    (trial,) = read_file(DataFolder(folder, [*files]), file, "t", layout, None).trials
    delays = [rx - tx for seq, (tx, rx) in enumerate(PACKETS) if seq != 3]
    assert (trial.result["sent"], trial.result["received"]) == (5, 4)
    assert trial.result["max_us"] == max(delays) / 1000
