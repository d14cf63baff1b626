"""What sockperf prints and logs, with and without colours, and when the test failed."""

import io
import re
import shutil
import socket
import struct
import subprocess
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.common.errors import ToolError
from tsnrepro.native.programs import sockperf_wait
from tsnrepro.tools import sockperf

COLOURED = re.compile(r"\x1b\[[0-9;]*m")


def test_what_it_prints(ping_pong_output):
    printed, _ = ping_pong_output
    result = sockperf.parse(printed)
    assert result.observations > 1000
    assert result.sent >= result.received >= result.observations
    assert (result.dropped, result.duplicated) == (0, 0)
    assert 0 < result.min_us <= result.mean_us <= result.max_us
    assert result.sd_us > 0
    assert 0.3 < result.valid_seconds < 1.2


@pytest.mark.namespaces
def test_the_short_wait_is_all_that_changes(run_ping_pong, tmp_path):
    """Sockperf says and logs the same, two seconds sooner."""

    def run(*before: str) -> tuple[float, str, bytes]:
        began = time.monotonic()
        printed, log = run_ping_pong(tmp_path, before)
        return time.monotonic() - began, COLOURED.sub("", printed), log

    took_s, printed, log = run("env", f"LD_PRELOAD={sockperf_wait()}")
    own_s, of_its_own, _ = run()
    assert took_s + 1.5 < own_s
    words, own_words = ([w for w in said.split() if w.isalpha()] for said in (printed, of_its_own))
    assert words == own_words
    short, own = sockperf.parse(printed), sockperf.parse(of_its_own)
    # Of the test's time both leave out the same ends; a machine may stall for some of the rest.
    assert short.valid_seconds == pytest.approx(own.valid_seconds, abs=0.2)
    assert len(sockperf.parse_log(log)) == short.observations > 1000


def test_percentiles_are_in_order_and_by_their_printed_name(ping_pong_output):
    result = sockperf.parse(ping_pong_output[0])
    assert {"50.000", "90.000", "99.000", "99.900"} <= set(result.percentiles_us)
    ranked = sorted(result.percentiles_us.items(), key=lambda item: float(item[0]))
    values = [result.min_us, *(value for _, value in ranked), result.max_us]
    assert values == sorted(values)


def test_latencies_are_half_round_trips(ping_pong_output):
    """One request at a time: twice the mean for each observation fills the time of the test."""
    result = sockperf.parse(ping_pong_output[0])
    busy_s = 2 * result.mean_us * result.observations / 1e6
    assert 0.6 * result.valid_seconds < busy_s <= 1.01 * result.valid_seconds


def test_colours_change_nothing(ping_pong_output):
    printed, _ = ping_pong_output
    plain = COLOURED.sub("", printed)
    # In a file or a pipe older versions print the codes without their escape character.
    for text in (plain, plain.replace("sockperf:", "sockperf:\x1b[0m"), bare(printed)):
        assert sockperf.parse(text) == sockperf.parse(printed)


def bare(printed: str) -> str:
    return printed.replace("\x1b", "")


@given(st.data())
def test_colours_anywhere_between_words_change_nothing(ping_pong_output, data):
    plain = COLOURED.sub("", ping_pong_output[0])
    words = plain.split(" ")
    for _ in range(5):
        place = data.draw(st.integers(0, len(words) - 1))
        words[place] = data.draw(st.sampled_from(["\x1b[2;35m", "\x1b[0m", "[0m"])) + words[place]
    assert sockperf.parse(" ".join(words)) == sockperf.parse(plain)


def test_the_log_and_the_summary_say_the_same(ping_pong_output):
    """Every statistic that sockperf prints follows from its log."""
    printed, log = ping_pong_output
    result, table = sockperf.parse(printed), sockperf.parse_log(log)
    halves = table["half_round_trip_us"].to_numpy()
    assert len(table) == result.observations
    assert halves.mean() == pytest.approx(result.mean_us, abs=0.01)
    assert halves.std() == pytest.approx(result.sd_us, rel=0.01)
    assert halves.min() == pytest.approx(result.min_us, abs=0.002)
    assert halves.max() == pytest.approx(result.max_us, abs=0.002)
    ranked = np.sort(halves)
    for name, value in result.percentiles_us.items():
        # sockperf takes one of the observations next to the quantile.
        place = float(name) / 100 * len(ranked)
        low, high = max(0, int(place) - 2), min(len(ranked) - 1, int(place) + 2)
        assert ranked[low] - 0.002 <= value <= ranked[high] + 0.002, name


def test_times_of_sending_are_in_order(ping_pong_output):
    table = sockperf.parse_log(ping_pong_output[1])
    assert table["sent_s"].is_monotonic_increasing
    assert 0.3 < table["sent_s"].iloc[-1] - table["sent_s"].iloc[0] < 1.2


FAILURES = [
    ("", "total run; its output ends: nothing"),
    ("sockperf: ERROR: Can't connect socket\n", "ends: sockperf: ERROR: Can't connect"),
    ("sockperf: No valid observations found. Try tune parameters\n", "No valid observations"),
]


@pytest.mark.parametrize(("text", "said"), FAILURES)
def test_a_test_that_failed_is_said(text, said):
    with pytest.raises(ToolError, match=said):
        sockperf.parse(text)


@pytest.mark.parametrize(
    "line", ["[Total Run]", "[Valid Duration]", "avg-latency", "dropped messages", "<MIN>", "<MAX>"]
)
def test_every_value_is_needed(ping_pong_output, line):
    printed, _ = ping_pong_output
    kept = "\n".join(row for row in printed.splitlines() if line not in row)
    assert kept != printed
    with pytest.raises(ToolError, match="sockperf printed no"):
        sockperf.parse(kept)


@pytest.mark.parametrize("log", ["", "packet, txTime(sec)\n1, 2\n", "no log at all"])
def test_what_is_no_log_is_said(log):
    with pytest.raises(ToolError, match="header line is missing"):
        sockperf.parse_log(log)


def test_a_log_without_observations_is_no_empty_table(ping_pong_output):
    _, log = ping_pong_output
    header = sockperf.LOG_HEADER.search(log)
    with pytest.raises(ToolError, match="no observation"):
        sockperf.parse_log(log[: header.end()])


def test_a_log_with_a_row_that_is_none_is_said(ping_pong_output):
    _, log = ping_pong_output
    place = sockperf.LOG_HEADER.search(log).end()
    with pytest.raises(ToolError, match="invalid row"):
        sockperf.parse_log(log[:place] + b"1, two, 3.0, 4.0\n" + log[place:])


def test_round_trips_are_halved(ping_pong_output):
    _, log = ping_pong_output
    whole = log.replace(b"latency(usec)", b"rtt(usec)", 1)
    halves = sockperf.parse_log(whole)["half_round_trip_us"]
    assert (halves * 2).equals(sockperf.parse_log(log)["half_round_trip_us"])


def test_the_command_asks_for_every_observation():
    argv = sockperf.ping_pong("10.0.0.2", 1472, 60, "/tmp/log")
    assert argv[argv.index("--full-log") + 1] == "/tmp/log"
    assert argv[argv.index("-m") + 1] == "1472"
    assert argv[argv.index("-t") + 1] == "60"
    assert argv[1] == "ping-pong"


@pytest.mark.parametrize("piece_bytes", [5000, 6001, 7919, 8 << 20])
def test_a_log_in_pieces_is_the_log(ping_pong_output, piece_bytes):
    log = ping_pong_output[1]
    # Three times the rows, so that even the longest piece but one is no whole log.
    start, rule = sockperf.LOG_HEADER.search(log).end(), log.rfind(sockperf.LOG_RULE)
    log = log[:start] + 3 * log[start : rule + 1] + log[rule + 1 :]
    for text in (
        log,
        log[: log.rfind(sockperf.LOG_RULE) + 1],
        log.replace(b"latency(usec)", b"rtt(usec)", 1),
    ):
        pieces = list(sockperf.log_pieces(io.BytesIO(text), piece_bytes))
        whole = sockperf.parse_log(text)["half_round_trip_us"].to_numpy()
        assert np.concatenate(pieces).tolist() == whole.tolist()
        assert len(pieces) > 1 or piece_bytes > len(text)


def test_a_log_in_pieces_that_is_none_is_said(ping_pong_output):
    log = ping_pong_output[1]
    header = sockperf.LOG_HEADER.search(log)
    with pytest.raises(ToolError, match="header line is missing"):
        list(sockperf.log_pieces(io.BytesIO(log[header.end() :])))
    for rest in (b"", b"------\n"):
        with pytest.raises(ToolError, match="holds no observation"):
            list(sockperf.log_pieces(io.BytesIO(log[: header.end()] + rest)))
    bad = log[: header.end()] + b"1, 2.0, 3.0, -4.0\n"
    with pytest.raises(ToolError, match="negative or not a number"):
        list(sockperf.log_pieces(io.BytesIO(bad)))


class LossyServer(threading.Thread):
    """A server of sockperf that answers all requests but every twentieth."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.requests = self.lost = 0

    def run(self) -> None:
        while True:
            request, client = self.socket.recvfrom(2048)
            self.requests += 1
            if self.requests % 20 == 0:
                self.lost += 1
                continue
            sequence, flags = struct.unpack("!QH", request[:10])
            answer = struct.pack("!QH", sequence, flags & ~1) + request[10:]
            self.socket.sendto(answer, client)


@pytest.mark.skipif(not shutil.which("sockperf"), reason="sockperf is not installed")
def test_a_lost_answer_is_counted_and_the_test_goes_on(tmp_path):
    server = LossyServer()
    server.start()
    host, port = server.socket.getsockname()
    log = tmp_path / "log.csv"
    command = sockperf.ping_pong(host, 100, 1, str(log))
    command[command.index("-p") + 1] = str(port)
    library = ["env", f"LD_PRELOAD={sockperf_wait()}", "RESEND_MS=20"]
    done = subprocess.run([*library, *command], capture_output=True, text=True, check=True)
    resent = sockperf.resent(done.stderr)
    assert resent > 10
    assert server.lost - resent in (0, 1)  # the last may not have been missed yet
    half_us = sockperf.parse_log(log.read_bytes())["half_round_trip_us"].to_numpy()
    waited = half_us >= 10_000
    assert 0 < waited.sum() <= resent
    own = sockperf.parse(done.stdout)
    report = sockperf.with_lost(own, half_us[~waited], resent)
    assert report.dropped == resent
    assert report.sent == own.sent + resent
    assert report.max_us < 10_000 <= own.max_us
    assert list(report.percentiles_us) == list(own.percentiles_us)
    assert sockperf.resent("") is None
    with pytest.raises(ToolError, match="no request was answered"):
        sockperf.with_lost(own, half_us[:0], 1)
