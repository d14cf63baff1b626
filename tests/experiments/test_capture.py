"""A real trial on the emulated testbed: captured, recorded, and reported on from the record."""

import json
import subprocess

import pytest

from tsnrepro.common.errors import ToolError
from tsnrepro.experiments.capture import analysis, figures
from tsnrepro.experiments.capture import measure as capture
from tsnrepro.experiments.capture.capture_file import read_capture
from tsnrepro.experiments.capture.dissect import dissect
from tsnrepro.experiments.capture.trial_report import capture_name, recorded_report
from tsnrepro.records.store import RawStore, Trial
from tsnrepro.runner.design import Planned
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.run import manifest
from tsnrepro.tools import dumpcap, iperf3


def planned(configuration: str, **factors) -> Planned:
    chosen = {"payload_bytes": 600, "rate_mbps": 20.0, "duration_s": 1} | factors
    return Planned(
        Trial("capture", configuration, {"configuration": configuration} | chosen, 1), 0, 5.0
    )


def measured(testbed, item: Planned) -> Measurement:
    found = Measurement()
    capture.measure(testbed, item.trial, found)
    json.dumps(found.values)  # what a record takes
    return found


def tshark_numbers(path) -> list[int]:
    argv = ["tshark", "-r", str(path), "-T", "fields", "-e", "ieee8021cb.seq"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return [int(line, 16) if line else -1 for line in said.splitlines()]


# Hosts of several processors may reorder frames, also between a capture and the recovery function
# after it.
ORDER = {"numbers out of order", "recovery: out_of_order"}


@pytest.fixture(scope="module")
def run(testbed, tmp_path_factory):
    """Return the store and the manifest's path of a run of two trials."""
    root = tmp_path_factory.mktemp("raw")
    store = RawStore(root, "emulated", "test", "capture")
    items = [planned("frer"), planned("control")]
    environment = store.put_environment(testbed.describe())
    for item in items:
        found = measured(testbed, item)
        document = {"values": found.values, "factors": item.trial.factors, "repetition": 1}
        document |= {"status": "measured", "environment": environment}
        store.put(item.trial, 1, document, found.outputs)
    path = root / "run.json"
    path.write_text(json.dumps(manifest(store, items)), encoding="utf-8")
    return store, path


@pytest.mark.namespaces
def test_a_real_trial_agrees_with_its_counters(run):
    _, path = run
    (_, frer), (_, control) = analysis.reports(path)
    for report in (frer, control):
        # Hosts of several processors may reorder frames, which is no fault of a capture or counter.
        others = [f for f in report.disagreements() if f.name not in ORDER]
        assert others == []
    assert frer.frer
    assert not control.frer
    expected = 20e6 / 8 / 600
    assert frer.listener_stream_frames == pytest.approx(expected, rel=0.1)
    assert [p.stream_frames for p in frer.paths] == [frer.listener_stream_frames] * 2
    assert frer.paths[0].tagged == frer.paths[0].frames
    assert sum(p.won for p in frer.paths) + frer.ties == frer.delayed_numbers
    assert frer.replayed["passed"] == frer.replayed["discarded"] == frer.delayed_numbers
    assert [p.tagged for p in control.paths] == [0, 0]
    assert [p.stream_frames for p in control.paths] == [control.listener_stream_frames, 0]


@pytest.mark.namespaces
def test_tshark_reads_the_same_numbers_from_the_recorded_captures(run, tmp_path):
    store, path = run
    trial = json.loads(path.read_text())["trials"][0]["trial"]
    for port in ("m0", "m1"):
        data = store.output_bytes(trial, capture_name("sw1", port))
        kept = tmp_path / f"{port}.pcapng"
        kept.write_bytes(data)
        capture = read_capture(kept)
        assert capture.dropped == 0
        assert dissect(capture)["sequence"].tolist() == tshark_numbers(kept)


@pytest.mark.namespaces
def test_an_altered_record_is_found_by_its_report(run):
    store, path = run
    document = store.read(store.folder / json.loads(path.read_text())["trials"][0]["trial"])
    document["values"]["result"]["received"] -= 1
    found = recorded_report(store.output_bytes, document).disagreements("counters")
    (finding,) = (f for f in found if f.name not in ORDER)
    assert finding.name == "datagrams the program received"


@pytest.mark.namespaces
def test_the_analysis_of_a_real_run(run, tmp_path):
    _, path = run
    reported = list(analysis.reports(path))
    trials = analysis.trials_of(reported)
    delays = analysis.delays(reported)
    results = analysis.analyse(trials, delays)
    assert results.of("capture.trials.count").value == 2
    found = [f.name for _, report in reported for f in report.disagreements("counters")]
    assert {*found} <= ORDER
    assert results.of("capture.disagreements.counters.count").value == len(found)
    won = [results.of(f"capture.won.m{p}.b600.m20.percent").value for p in (0, 1)]
    assert sum(won) == pytest.approx(100, abs=0.5)
    assert results.of("capture.path_delay.p50.b600.m20.us").value == pytest.approx(
        reported[0][1].delay_us["p50"]
    )
    assert len(analysis.findings(reported)) == sum(len(r.findings) for _, r in reported)
    figures.path_delay(trials, delays, "emulated").savefig(tmp_path / "figure.png")
    assert figures.path_delay(trials, {}, "emulated").axes[0].texts
    results.write(tmp_path / "capture.json")


@pytest.mark.namespaces
def test_drops_of_a_queue_are_missing_on_that_path_only(testbed):
    """One member link at a tenth of the load: its queue drops, the other path carries all."""
    host = testbed.hosts["sw1"]
    queue = ["tc", "qdisc", "change", "dev", "m1", "root", "handle", "1:"]
    settings = testbed.settings
    burst, limit = ["burst", str(settings.burst_bytes)], str(settings.queue_bytes)
    # A short queue, which is empty again before the counters are read.
    narrow = [*queue, "tbf", "rate", "2mbit", *burst, "limit", "10000"]
    wide = [*queue, "tbf", "rate", f"{settings.link_rate_mbps}mbit", *burst, "limit", limit]
    host.run(narrow, deadline_s=5).check()
    try:
        found = measured(testbed, planned("frer"))
    finally:
        host.run(wide, deadline_s=5).check()
    report = found.values["wire"]
    first, second = report["paths"]
    assert first["order"]["missing"] == 0
    assert second["order"]["missing"] > 1000
    assert report["single_copies"] == second["order"]["missing"]
    unlike = [f for f in report["findings"] if not f["agrees"]]
    assert [f for f in unlike if f["name"] != "numbers out of order"] == []


@pytest.mark.namespaces
def test_a_failed_client_leaves_no_capture_and_no_file(testbed, monkeypatch):
    monkeypatch.setattr(
        iperf3, "udp_client", lambda *_, **__: ["iperf3", "--client", "10.0.100.99", "-u"]
    )
    host = testbed.hosts["talker"]
    host.run(["sysctl", "-qw", "net.ipv4.neigh.eth0.retrans_time_ms=20"], deadline_s=5).check()
    try:
        with pytest.raises(Exception, match=r"No route to host|exit status|iperf3"):
            measured(testbed, planned("frer"))
    finally:
        host.run(["sysctl", "-qw", "net.ipv4.neigh.eth0.retrans_time_ms=1000"], deadline_s=5)
    for name in ("sw1", "listener"):
        script = "pgrep dumpcap; ls /run/tmp.* 2>/dev/null"
        assert testbed.hosts[name].run(["sh", "-c", script], deadline_s=5).stdout == ""


def test_dumpcap_reports_missed_frames():
    said = "Packets received/dropped on interface 'm0': 33984/12 (pcap:12/dumpcap:0)"
    assert dumpcap.parse_totals(said) == dumpcap.Totals(33984, 12)
    with pytest.raises(ToolError, match="printed no totals: You don't have permission"):
        dumpcap.parse_totals("You don't have permission")
