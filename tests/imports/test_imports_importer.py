"""Imports from folder to raw store: what is written, refused and left unchanged."""

import hashlib
import json
import re
import textwrap
from pathlib import Path

import pytest
import tool_outputs as printed
from iperf3_writer import UdpTest

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.imports.importer import import_folder
from tsnrepro.imports.manifest import (
    imported_experiments,
    imported_manifest,
    imported_testbeds,
    imports_of,
    is_imported,
)
from tsnrepro.records.store import RawStore
from tsnrepro.records.tables import load_trials
from tsnrepro.runner import run as measuring

MAPPING = """
description: loss by load and latency, from two boards on a desk
testbed: {link_rate_mbps: 1000}
tables:
  loss:
    files: [sweep*.csv]
    format: csv
    experiment: loss
    failed:
      - where: {note: no connection}
        reason: the connection failed
    skip:
      - where: {note: warm-up}
        reason: a warm-up
    fields:
      configuration: {column: kind}
      payload_bytes: 1472
      target_mbps: {column: rate, unit: Mb/s}
      offered_mbps: {column: rate, unit: Mb/s}
      sent: {column: sent}
      lost: {column: lost}
  ping:
    files: [ping/*.txt]
    format: sockperf
    experiment: latency
    name_pattern: ping/(?P<kind>[a-z]+)-(?P<size>\\d+)-
    fields:
      configuration: {from_name: kind}
      payload_bytes: {from_name: size, unit: bytes}
      duration_s: 2
"""
LOSS = """\
kind,rate,sent,lost,note
control,100,16984,0,
control,200,33967,12,
frer,100,16984,0,warm-up
frer,100,16984,0,
frer,200,33967,0,
frer,300,NA,NA,no connection
"""


@pytest.fixture
def data_set(tmp_path):
    folder = tmp_path / "desk"
    (folder / "ping").mkdir(parents=True)
    (folder / "sweep.csv").write_text(LOSS, encoding="utf-8")
    (folder / "ping" / "control-64-1.txt").write_text(printed.SOCKPERF, encoding="utf-8")
    (folder / "ping" / "frer-64-1.txt").write_text(
        printed.sockperf_log([10.0, 12.0, 30.0]), encoding="utf-8"
    )
    (folder / "ping" / "frer-64-2.txt").write_text(printed.SOCKPERF_NO_ANSWER, encoding="utf-8")
    (folder / "README").write_text("two boards\n", encoding="utf-8")
    (tmp_path / "desk.yaml").write_text(MAPPING, encoding="utf-8")
    return folder


@pytest.fixture
def run_import(data_set, tmp_path):
    def run(name="desk", mapping="desk.yaml", folder=data_set, replace=False):
        return import_folder(folder, tmp_path / mapping, name, tmp_path / "raw", replace=replace)

    return run


def everything(root):
    return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def manifest_file(tmp_path, experiment, name="desk"):
    path = tmp_path / f"{experiment}.json"
    path.write_text(json.dumps(imported_manifest(tmp_path / "raw", name, experiment)))
    return path


def test_imported_refused_and_skipped(run_import):
    report = run_import()
    assert report.trials == {"loss": 4, "tcp": 0, "latency": 2}
    assert (report.written, report.failed) == (7, 1)
    assert [(r.file, "No messages" in r.reason) for r in report.refused] == [
        ("ping/frer-64-2.txt", True)
    ]
    assert [(s.row, s.reason) for s in report.skipped] == [("line 4", "a warm-up")]
    assert report.unnamed == ["README"]
    text = str(report)
    for words in (
        "imported: desk",
        "4 of loss, 2 of latency; 7 new",
        "ping/frer-64-2.txt",
        "README",
    ):
        assert words in text


def test_a_trial_names_its_file_row_and_checksum(run_import, data_set, tmp_path):
    run_import()
    trials = load_trials(manifest_file(tmp_path, "loss"))
    row = trials[(trials["configuration"] == "control") & (trials["target_mbps"] == 200)].iloc[0]
    assert (row["source_file"], row["source_row"]) == ("sweep.csv", "line 3")
    store = RawStore(tmp_path / "raw", "desk", "imported", "loss")
    document = store.read(store.folder / row["trial"])
    assert document["source"]["sha256"] == hashlib.sha256(LOSS.encode()).hexdigest()
    original = tmp_path / "raw" / "desk" / document["source"]["original"]
    assert original.read_text(encoding="utf-8") == LOSS
    assert document["status"] == "measured"


def test_missing_stays_missing(run_import, tmp_path):
    run_import()
    trials = load_trials(manifest_file(tmp_path, "loss"))
    for column in ("repetition", "order", "started", "delivered_mbps", "unaccounted", "copies"):
        assert trials[column].isna().all(), column
    assert trials["lost"].tolist() == [0, 12, 0, 0]
    assert trials["received"].tolist() == [16984, 33955, 16984, 33967]
    assert trials["loss_percent"].tolist() == [0, 100 * 12 / 33967, 0, 0]


def test_a_failed_trial_is_recorded_with_its_reason(run_import, tmp_path):
    run_import()
    (failed,) = imported_manifest(tmp_path / "raw", "desk", "loss")["failed_attempts"]
    assert failed["reason"] == "the connection failed"
    store = RawStore(tmp_path / "raw", "desk", "imported", "loss")
    document = store.read(store.folder / failed["trial"])
    assert (document["status"], document["factors"]["rate_mbps"]) == ("failed", 300)
    assert "values" not in document


def test_the_environment_has_files_checksums_mapping_and_time(run_import, data_set, tmp_path):
    report = run_import()
    path = tmp_path / "raw" / "desk" / "environments" / f"{report.environment}.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    assert (facts["testbed"], facts["name"], facts["generated"]) == ("imported", "desk", False)
    brought = facts["import"]
    assert brought["folder"] == "desk"
    assert brought["mapping"]["sha256"] == hashlib.sha256(MAPPING.encode()).hexdigest()
    sums = {item["file"]: item["sha256"] for item in brought["files"]}
    assert sums["sweep.csv"] == hashlib.sha256(LOSS.encode()).hexdigest()
    assert set(sums) == {"sweep.csv", *(f"ping/{n}-64-{i}.txt" for n, i in
                                        (("control", 1), ("frer", 1), ("frer", 2)))}  # fmt: skip
    assert brought["time"].startswith("20")
    assert str(data_set) not in path.read_text(encoding="utf-8")


def test_importing_twice_adds_nothing(run_import, tmp_path):
    first = run_import()
    before = everything(tmp_path / "raw")
    second = run_import()
    assert everything(tmp_path / "raw") == before
    assert (second.written, second.trials, second.environment) == (
        0,
        first.trials,
        first.environment,
    )


def test_a_moved_folder_is_the_same_data_set(run_import, data_set, tmp_path):
    run_import()
    before = everything(tmp_path / "raw")
    moved = data_set.rename(tmp_path / "elsewhere")
    assert run_import(folder=moved).written == 0
    assert everything(tmp_path / "raw") == before


def test_a_changed_file_adds_new_trials(run_import, data_set, tmp_path):
    run_import()
    before = everything(tmp_path / "raw")
    (data_set / "sweep.csv").write_text(LOSS.replace("33967,12,", "33967,13,"), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"another import, of desk.*--replace"):
        run_import()
    assert everything(tmp_path / "raw") == before
    report = run_import(replace=True)
    assert report.written == 5  # every trial of that file, for each names the file's checksum
    after = everything(tmp_path / "raw")
    marker = next(path for path in before if path.name == "import.json")
    assert {p: data for p, data in before.items() if p != marker}.items() <= after.items()
    assert 13 in load_trials(manifest_file(tmp_path, "loss"))["lost"].tolist()
    assert 12 not in load_trials(manifest_file(tmp_path, "loss"))["lost"].tolist()
    assert len(imports_of(tmp_path / "raw", "desk")) == 2


def test_a_changed_mapping_adds_new_trials(run_import, tmp_path):
    run_import()
    other = MAPPING.replace("payload_bytes: 1472", "payload_bytes: 1400")
    (tmp_path / "other.yaml").write_text(other, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="--replace"):
        run_import(mapping="other.yaml")
    run_import(mapping="other.yaml", replace=True)
    assert set(load_trials(manifest_file(tmp_path, "loss"))["payload_bytes"]) == {1400}


def test_a_row_that_contradicts_itself_stops_the_import_and_leaves_nothing(
    run_import, data_set, tmp_path
):
    (data_set / "sweep.csv").write_text(LOSS.replace("33967,12,", "12,33967,"), encoding="utf-8")
    with pytest.raises(RecordError, match="33967 of 12") as caught:
        run_import()
    assert caught.value.where == "sweep.csv, line 3"
    assert not (tmp_path / "raw").exists()


def test_an_altered_original_is_an_error(run_import, tmp_path):
    run_import()
    trial = imported_manifest(tmp_path / "raw", "desk", "loss")["trials"][0]["trial"]
    path = tmp_path / "raw" / "desk" / "imported" / "loss" / trial / "trial.json"
    path.write_text(path.read_text(encoding="utf-8").replace("16984", "16985"), encoding="utf-8")
    with pytest.raises(RecordError, match="altered"):
        load_trials(manifest_file(tmp_path, "loss"))


class InterruptionError(Exception):
    pass


@pytest.mark.parametrize("at", ["_sync_file_system", "_rename"])
def test_an_interrupted_import_is_completed_by_the_next(run_import, tmp_path, monkeypatch, at):
    def interrupt(*_):
        raise InterruptionError

    with monkeypatch.context() as patched:
        if at == "_rename":
            renamed = []

            def rename(source, target, original=Path.rename):
                if len(renamed) == 3:
                    interrupt()
                renamed.append(target)
                return original(source, target)

            patched.setattr(Path, "rename", rename)
        else:
            patched.setattr(f"tsnrepro.records.files.{at}", interrupt)
        with pytest.raises(InterruptionError):
            run_import()
    assert not is_imported(tmp_path / "raw", "desk")
    assert run_import().trials == {"loss": 4, "tcp": 0, "latency": 2}
    assert len(load_trials(manifest_file(tmp_path, "loss"))) == 4
    assert run_import().written == 0


@pytest.mark.parametrize(
    "name", ["emulated", "auto", "published", "De sk", "../desk", "", ".hidden"]
)
def test_names_that_are_reserved_or_invalid(run_import, name):
    with pytest.raises(ConfigurationError):
        run_import(name)


def test_an_import_does_not_replace_a_measured_testbed(run_import, tmp_path):
    (tmp_path / "raw" / "desk" / "quick").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="measured on"):
        run_import()


def test_another_data_set_needs_another_name(run_import, tmp_path):
    run_import()
    other = tmp_path / "other"
    other.mkdir()
    (other / "sweep-2.csv").write_text(LOSS, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="another import, of desk"):
        run_import(folder=other)
    assert run_import("second", folder=other).written == 5
    assert imported_testbeds(tmp_path / "raw") == ["desk", "second"]


def test_nothing_to_import(run_import, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(RecordError, match=r"no file is a measurement.*patterns"):
        run_import(folder=empty)
    (empty / "sweep.csv").write_text("iperf3: error - no route to host\n", encoding="utf-8")
    with pytest.raises(RecordError, match="no route to host"):
        run_import(folder=empty)
    with pytest.raises(ConfigurationError, match="no such folder"):
        run_import(folder=tmp_path / "nowhere")


# --- generated data -------------------------------------------------------------------------------

COMPUTED = """
description: statistics that a script made up
tables:
  ping:
    files: [latency.csv]
    format: csv
    experiment: latency
    latency_quantity: half round trip
    {generated}
    fields:
      configuration: frer
      payload_bytes: {{column: size, unit: bytes}}
      mean_us: {{column: mean, unit: us}}
      max_us: {{column: max, unit: us}}
"""
PLACEHOLDERS = "size,mean,max\n64,50,100\n256,60.5,121\n512,80.2,160.4\n1024,101,202\n"


def computed(tmp_path, generated, text=PLACEHOLDERS):
    folder = tmp_path / "made"
    folder.mkdir(exist_ok=True)
    (folder / "latency.csv").write_text(text, encoding="utf-8")
    mapping = tmp_path / "made.yaml"
    mapping.write_text(COMPUTED.format(generated=generated), encoding="utf-8")
    return import_folder(folder, mapping, "made", tmp_path / "raw")


def test_computed_statistics_are_accepted_only_as_generated(tmp_path):
    with pytest.raises(RecordError, match=r"max_us is 2 x mean_us in all 4 rows"):
        computed(tmp_path, "")
    report = computed(tmp_path, "generated: true")
    assert report.imported[0].generated
    assert "generated and not measured" in str(report)
    trials = load_trials(manifest_file(tmp_path, "latency", "made"))
    assert trials["generated"].all()
    assert imported_manifest(tmp_path / "raw", "made", "latency")["generated"]


def test_a_file_marked_as_simulated(tmp_path):
    text = "# simulated, not from a board\nsize,mean,max\n64,50,90\n"
    with pytest.raises(RecordError, match="declares that it was not measured: 'simulated'"):
        computed(tmp_path, "", text)
    assert computed(tmp_path, "generated: true", text).written == 1


# --- the campaign ---------------------------------------------------------------------------------


def test_an_imported_testbed_is_listed_and_never_measured(run_import, tmp_path, monkeypatch):
    run_import()
    monkeypatch.setattr(measuring, "raw_root", lambda: tmp_path / "raw")
    assert imported_experiments(tmp_path / "raw", "desk") == ["loss", "latency"]
    for experiment, count in (("loss", 4), ("latency", 2)):
        run = measuring.run_experiment(experiment, "desk", "imported")
        assert len(run["trials"]) == count
        assert run["experiment"] == experiment
    with pytest.raises(ConfigurationError, match=r"no trial of tcp.*trials of: loss, latency"):
        measuring.run_experiment("tcp", "desk", "imported")
    with pytest.raises(ConfigurationError, match=r"nothing can be measured.*campaign=imported"):
        measuring.run_experiment("loss", "desk", "quick")
    with pytest.raises(ConfigurationError, match="unknown experiment"):
        measuring.run_experiment("knitting", "desk", "imported")


def test_no_such_import(tmp_path):
    with pytest.raises(ConfigurationError, match=r"not an imported testbed.*There are: none"):
        imported_manifest(tmp_path, "desk", "loss")


# --- formats together -----------------------------------------------------------------------------


def test_tool_output_by_file_name(tmp_path):
    folder = tmp_path / "lab"
    for number, kind in enumerate(("control", "frer")):
        (folder / kind).mkdir(parents=True)
        udp = printed.IPERF3_UDP_VERBOSE.replace("68.8", f"68.{8 - number}")
        (folder / kind / "udp-64.txt").write_text(udp, encoding="utf-8")
        tcp = json.dumps(printed.IPERF3_TCP_JSON, indent=number)
        (folder / kind / "tcp.json").write_text(tcp)
        (folder / kind / "mz-1472.log").write_text(printed.MAUSEZAHN, encoding="utf-8")
        times = b"tx,rx\n10%d\0,510%d\n6000,8000\n9000,\n" % (number, number)
        (folder / kind / "times-200.csv").write_bytes(times)
    (folder / "frer" / "udp-65.txt").write_text(printed.IPERF3_USAGE, encoding="utf-8")
    (folder / "control" / "tcp-2.json").write_text('{"error": "busy"}', encoding="utf-8")
    mapping = tmp_path / "lab.yaml"
    mapping.write_text(
        textwrap.dedent(r"""
        description: a lab
        tables:
          udp:
            files: ["**/udp-*.txt"]
            format: iperf3
            experiment: loss
            name_pattern: (?P<kind>control|frer)/udp-(?P<size>\d+)
            fields: {configuration: {from_name: kind},
                     payload_bytes: {from_name: size, unit: bytes}}
          tcp:
            files: ["*/tcp*.json"]
            format: iperf3
            experiment: tcp
            name_pattern: ^(?P<kind>\w+)/
            fields: {configuration: {from_name: kind}}
          sent:
            files: ["*/mz-*.log"]
            format: mausezahn
            experiment: loss
            name_pattern: (?P<kind>control|frer)/mz-(?P<size>\d+)
            fields: {configuration: {from_name: kind},
                     payload_bytes: {from_name: size, unit: bytes}}
          oneway:
            files: ["*/times-*.csv"]
            format: times
            times: {sent: tx, received: rx, unit: ns}
            experiment: latency
            latency_quantity: one way
            name_pattern: (?P<kind>control|frer)/times-(?P<size>\d+)
            fields: {configuration: {from_name: kind},
                     payload_bytes: {from_name: size, unit: bytes}}
        """),
        encoding="utf-8",
    )
    report = import_folder(folder, mapping, "lab", tmp_path / "raw")
    assert report.trials == {"loss": 4, "tcp": 2, "latency": 2}
    assert report.nul_bytes == {"control/times-200.csv": 1, "frer/times-200.csv": 1}
    assert sorted(r.file for r in report.refused) == ["control/tcp-2.json", "frer/udp-65.txt"]
    sweep = load_trials(manifest_file(tmp_path, "loss", "lab"))
    only_sent = sweep[sweep["payload_bytes"] == 1472]
    assert only_sent["loss_percent"].isna().all()
    assert only_sent["offered_mbps"].tolist() == pytest.approx([18678 * 1472 * 8 / 1e6] * 2)
    latency = load_trials(manifest_file(tmp_path, "latency", "lab"))
    assert set(latency["quantity"]) == {"one way"}
    assert latency["mean_us"].tolist() == [3.5, 3.5]
    assert (latency["sent"].tolist(), latency["received"].tolist()) == ([3, 3], [2, 2])
    original = next((tmp_path / "raw" / "lab" / "originals").glob("*/times-200.csv"))
    assert b"\0" in original.read_bytes()


def test_the_shipped_mapping_of_tool_output(tmp_path):
    folder = tmp_path / "lab"
    for part in ("loss", "tcp", "latency"):
        (folder / part).mkdir(parents=True)
    (folder / "loss" / "frer-64B-900M-2.txt").write_text(printed.IPERF3_UDP_VERBOSE)
    (folder / "loss" / "frer-200B-5M-1.json").write_text(json.dumps(printed.IPERF3_UDP_JSON))
    (folder / "loss" / "notes.txt").write_text("a remark\n")
    (folder / "tcp" / "control-10s-1.json").write_text(json.dumps(printed.IPERF3_TCP_JSON))
    (folder / "latency" / "frer-64B-1.txt").write_text(printed.SOCKPERF)
    report = import_folder(folder, "tool-output", "lab", tmp_path / "raw")
    assert report.trials == {"loss": 2, "tcp": 1, "latency": 1}
    assert [(r.file, r.reason) for r in report.refused] == [
        ("loss/notes.txt", "its name does not fit the table's name_pattern")
    ]
    trials = load_trials(manifest_file(tmp_path, "loss", "lab"))
    assert sorted(trials["payload_bytes"]) == [64, 200]
    assert sorted(trials["repetition"]) == [1, 2]
    # A name that contradicts the content: the tool ran with another payload.
    (folder / "loss" / "frer-1472B-5M-3.json").write_text(json.dumps(printed.IPERF3_UDP_JSON))
    report = import_folder(folder, "tool-output", "lab2", tmp_path / "raw")
    assert report.trials == {"loss": 2, "tcp": 1, "latency": 1}
    assert "1472 in the mapping, 200 in the tool's output" in report.refused[0].reason


def test_what_limits_the_results_of_a_file_is_noted(tmp_path):
    folder = tmp_path / "lab"
    (folder / "loss").mkdir(parents=True)
    test = UdpTest(200, (500, 500), (0, 0), tail=5, version=7)
    (folder / "loss" / "frer-200B-5M-1.json").write_text(json.dumps(test.document()))
    report = import_folder(folder, "tool-output", "lab", tmp_path / "raw")
    assert "  notes:\n    loss/frer-200B-5M-1.json: at most 1000 of 1000 datagrams" in str(report)
    trials = load_trials(manifest_file(tmp_path, "loss", "lab"))
    assert (trials["sent"].item(), trials["loss_percent"].item()) == (1000, 0)
    assert "lost" not in trials or trials["lost"].isna().all()
    (facts,) = (tmp_path / "raw" / "lab").rglob("environments/*.json")
    (note,) = json.loads(facts.read_text())["import"]["notes"]
    assert note["file"] == "loss/frer-200B-5M-1.json"


def test_an_output_without_the_payload_is_named_without_advice_about_rows(tmp_path):
    table = {"files": ["*.txt"], "format": "iperf3", "experiment": "loss"}
    mapping = {"description": "x", "tables": {"t": table | {"fields": {"configuration": "frer"}}}}
    (tmp_path / "m.json.yaml").write_text(json.dumps(mapping))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.txt").write_text(printed.IPERF3_UDP_CLIENT)
    with pytest.raises(RecordError, match=r"it has no payload_bytes.*from_name") as error:
        import_folder(tmp_path / "set", tmp_path / "m.json.yaml", "some", tmp_path / "raw")
    assert "rows" not in str(error.value)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        # More lost than sent, which no counter of a tool can have.
        ({"lost_packets": 12000, "packets": 10000}, "it counts 12000 lost of 10000 datagrams"),
        ({"bytes": 40000 * 200, "packets": 10000}, "10000 datagrams, but 40000 by the bytes sent"),
        ({"seconds": 2.5}, "send_seconds is 2.5 s in a test of 10 s"),
    ],
)
def test_one_bad_output_of_a_tool_does_not_stop_the_import_of_the_others(tmp_path, changed, reason):
    folder = tmp_path / "lab"
    (folder / "loss").mkdir(parents=True)
    (folder / "loss" / "frer-200B-5M-1.json").write_text(json.dumps(printed.IPERF3_UDP_JSON))
    sums = {"seconds": 10.0, "bytes": 10000 * 200, "packets": 10000, "lost_packets": 400} | changed
    document = {
        "start": {
            "version": "iperf 3.9",
            "test_start": {"protocol": "UDP", "blksize": 200, "duration": 10},
        },
        "end": {"sum": sums},
    }
    (folder / "loss" / "control-200B-5M-1.json").write_text(json.dumps(document))
    report = import_folder(folder, "tool-output", "lab", tmp_path / "raw")
    assert report.trials["loss"] == 1
    (refused,) = report.refused
    assert re.search(reason, refused.reason)
    assert "column" not in str(refused)
    assert "rows" not in str(refused)
