"""Entries of a data set's folder: copies, links, pipes, encodings, files without trials."""

import json
import os

import pytest
import tool_outputs as printed
import yaml
from reader_files import source_file

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.imports.importer import import_folder
from tsnrepro.imports.manifest import imported_manifest
from tsnrepro.records.tables import load_trials

ROWS = "kind,rate,loss\ncontrol,100,0.5\nfrer,100,0.25\n"
FIELDS = {
    "configuration": {"column": "kind"},
    "payload_bytes": 1472,
    "offered_mbps": {"column": "rate", "unit": "Mb/s"},
    "loss_percent": {"column": "loss", "unit": "percent"},
}


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "set"
    found.mkdir()
    (found / "a.csv").write_text(ROWS, encoding="utf-8")
    return found


@pytest.fixture
def run_import(folder, tmp_path):
    def run(table=None, fields=FIELDS, description="two boards", **keys):
        one = {"files": ["**/*.csv"], "format": "csv", "experiment": "loss", "fields": fields}
        content = {"description": description, "tables": {"t": one | (table or {})}}
        mapping = tmp_path / "m.yaml"
        mapping.write_text(yaml.safe_dump(content), encoding="utf-8")
        return import_folder(folder, mapping, "some", tmp_path / "raw", **keys)

    return run


def facts_of(report, tmp_path):
    path = tmp_path / f"raw/some/environments/{report.environment}.json"
    return json.loads(path.read_text(encoding="utf-8"))


# --- copies ---------------------------------------------------------------------------------------


def test_a_copied_file_counts_once_and_is_named(folder, run_import, tmp_path):
    (folder / "b.csv").write_text(ROWS, encoding="utf-8")
    report = run_import()
    assert report.trials["loss"] == 2
    assert [(c.file, c.row, c.reason) for c in report.copies] == [
        ("b.csv", "line 2", "repeats a.csv"), ("b.csv", "line 3", "repeats a.csv")
    ]  # fmt: skip
    assert "b.csv, line 2, line 3: repeats a.csv" in str(report)
    assert len(facts_of(report, tmp_path)["import"]["copies"]) == 2


def test_a_copied_row_counts_once_unless_the_mapping_sets_repeats(folder, run_import):
    (folder / "a.csv").write_text(ROWS + "frer,100,0.25\n", encoding="utf-8")
    report = run_import()
    assert (report.trials["loss"], report.copies[0].reason) == (2, "repeats line 3")
    assert run_import({"repeats": True}, replace=True).trials["loss"] == 3


def test_rows_that_differ_in_any_cell_are_repetitions(folder, run_import):
    text = "kind,rate,loss,run\nfrer,100,0,1\nfrer,100,0,2\n"
    (folder / "a.csv").write_text(text, encoding="utf-8")
    assert run_import().trials["loss"] == 2


def test_one_output_under_two_configurations_is_an_error(tmp_path):
    for name in ("control-64B-1", "control-64B-2", "frer-64B-1"):
        path = tmp_path / f"lab/latency/{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(printed.SOCKPERF, encoding="utf-8")
    with pytest.raises(
        RecordError, match=r"same content as latency/control-64B-1.txt.*frer-64B and"
    ):
        import_folder(tmp_path / "lab", "tool-output", "lab", tmp_path / "raw")
    (tmp_path / "lab/latency/frer-64B-1.txt").unlink()
    report = import_folder(tmp_path / "lab", "tool-output", "lab", tmp_path / "raw")
    assert (report.trials["latency"], report.copies[0].file) == (1, "latency/control-64B-2.txt")


# --- entries of the folder ------------------------------------------------------------------------


def test_links_pipes_and_unprintable_names(folder, run_import, tmp_path):
    outside = tmp_path / "outside.csv"
    outside.write_text(ROWS.replace("100", "200"), encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    os.mkfifo(folder / "pipe.csv")
    for name, target in (
        ("out.csv", outside), ("gone.csv", folder / "nowhere"),
        ("folder.csv", tmp_path / "elsewhere"), ("inner.csv", folder),
    ):  # fmt: skip
        (folder / name).symlink_to(target)
    with open(os.fsencode(folder) + b"/\xff.csv", "w", encoding="utf-8") as file:
        file.write(ROWS)
    (folder / "bell\a.csv").write_text(ROWS, encoding="utf-8")
    report = run_import()
    refused = {item.file: item.reason for item in report.refused}
    assert refused == {
        "pipe.csv": "it is not a regular file (a FIFO, socket or device)",
        "out.csv": "it is a link out of the data set's folder",
        "gone.csv": "it is a link to nothing that can be read",
        "folder.csv": "it is a link out of the data set's folder",
        "inner.csv": "it is a link to a folder",
        "\\xff.csv": "its name is not printable UTF-8",
        "bell\\x07.csv": "its name is not printable UTF-8",
    }
    assert report.trials["loss"] == 2


def test_a_link_to_a_file_inside_is_followed_and_counts_once(folder, run_import):
    (folder / ".git/objects").mkdir(parents=True)
    (folder / ".git/objects/x").write_text(ROWS.replace("100", "300"), encoding="utf-8")
    (folder / "annexed.csv").symlink_to(".git/objects/x")
    (folder / "again.csv").symlink_to("a.csv")
    report = run_import()
    assert report.trials["loss"] == 4
    assert {c.file for c in report.copies} == {"again.csv"}


def test_unmatched_and_unread_entries_are_listed(folder, run_import):
    os.mkfifo(folder / "pipe")
    report = run_import()
    assert report.unread == {"pipe": "it is not a regular file (a FIFO, socket or device)"}
    assert "pipe: it is not a regular file" in str(report)


def test_a_file_without_trials_is_reported(folder, run_import):
    (folder / "b.csv").write_text("kind,rate,loss\nwarm,100,1\nwarm,50,1\n", encoding="utf-8")
    keys = {"skip": [{"where": {"kind": "warm"}, "reason": "a warm-up"}]}
    (refused,) = run_import(keys).refused
    assert (refused.file, refused.reason) == ("b.csv", "no row of it is a trial: 2 rows skipped")
    (refused,) = run_import({"where": {"rate": 100}, **keys}, replace=True).refused
    assert "1 row skipped, 1 row excluded by where" in refused.reason


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "latin-1", "utf-32"])
def test_encodings(folder, run_import, encoding):
    (folder / "a.csv").write_text(ROWS.replace("kind", "kïnd"), encoding=encoding)
    fields = FIELDS | {"configuration": {"column": "kïnd"}}
    assert run_import({"csv": {"encoding": encoding}}, fields).trials["loss"] == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_byte_order_mark_is_the_encoding(folder, run_import, encoding):
    (folder / "a.csv").write_text(ROWS.replace("kind", "kïnd"), encoding=encoding)
    fields = FIELDS | {"configuration": {"column": "kïnd"}}
    assert run_import({}, fields).trials["loss"] == 2
    file = source_file(ROWS.encode(encoding))
    assert b"".join(file.blocks()).decode() == file.tool_output() == ROWS


def test_an_encoding_that_does_not_fit_is_named(folder, run_import):
    (folder / "a.csv").write_bytes(ROWS.replace("kind", "kïnd").encode("latin-1"))
    with pytest.raises(RecordError, match=r"not text in utf-8.*encoding: latin-1"):
        run_import()


def test_json_in_another_encoding_with_numbers_that_are_none(folder, run_import, tmp_path):
    text = '[{"kind": "frer", "ort": "München", "rate": 100, "loss": -nan}]'
    (folder / "a.json").write_bytes(text.encode("latin-1"))
    keys = {"files": ["*.json"], "format": "json"}
    with pytest.raises(RecordError, match=r"not text in utf-8.*encoding: latin-1"):
        run_import(keys)
    run_import(keys | {"csv": {"encoding": "latin-1"}})
    assert trials_of(tmp_path)["offered_mbps"].tolist() == [100]
    assert trials_of(tmp_path)["loss_percent"].isna().all()


def test_decimal_commas_and_percent_signs(folder, run_import, tmp_path):
    text = "kind;rate;loss\ncontrol;100,5;0,25%\nfrer;100,5;0 %\nfrer;-nan;-nan%\nfrer;7;1\n"
    (folder / "a.csv").write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=r"'0,25' has a decimal comma.*decimal: ','"):
        run_import({"csv": {"delimiter": ";"}})
    csv = {"delimiter": ";", "decimal": ","}
    run_import({"csv": csv, "row_range": [1, 2]})
    assert sorted(trials_of(tmp_path)["loss_percent"]) == [0, 0.25]
    assert set(trials_of(tmp_path)["offered_mbps"]) == {100.5}
    with pytest.raises(RecordError, match="has no measured value"):
        run_import({"csv": csv, "row_range": [3, 3]}, replace=True)
    (folder / "a.csv").write_text("kind;rate;loss\nfrer;1.000;0\n", encoding="utf-8")
    with pytest.raises(RecordError, match=r"'1\.000' has a point, and decimals are behind ','"):
        run_import({"csv": csv}, replace=True)


def test_a_percent_sign_contradicts_another_unit(folder, run_import):
    (folder / "a.csv").write_text(ROWS.replace("0.25", "0.25%"), encoding="utf-8")
    with pytest.raises(RecordError, match=r"'0\.25%' is in percent"):
        run_import(fields=FIELDS | {"loss_percent": {"column": "loss", "unit": "ratio"}})


def test_duplicate_keys_of_a_mapping_are_errors(folder, tmp_path):
    mapping = tmp_path / "twice.yaml"
    mapping.write_text("description: a\ndescription: b\ntables: {}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="description"):
        import_folder(folder, mapping, "some", tmp_path / "raw")


# --- facts ----------------------------------------------------------------------------------------


def test_facts_summarise_the_trials(folder, run_import, tmp_path):
    facts = facts_of(run_import({"tool": "iperf3 3.9"}), tmp_path)["experiments"]
    assert facts == {
        "loss": {
            "tools": ["iperf3 3.9"], "configurations": ["control", "frer"],
            "payload_bytes": [1472], "durations_s": [], "latency_is": [], "order_known": False,
            "counted": False, "intervals_of_tests": False,
        }
    }  # fmt: skip


def test_a_description_of_a_simulation_needs_a_decision(run_import):
    with pytest.raises(ConfigurationError, match=r"description says 'simulation'.*generated: true"):
        run_import(description="a simulation of two boards")
    assert run_import({"generated": False}, description="a simulation of two boards").written == 2


def test_an_implausible_unit_stops_the_import_unless_it_is_explained(folder, run_import):
    text = "kind,rate,loss,sent,seconds\nfrer,0.5,0,42459,1\n"
    (folder / "a.csv").write_text(text, encoding="utf-8")
    fields = FIELDS | {"sent": {"column": "sent"}, "duration_s": {"column": "seconds", "unit": "s"}}
    with pytest.raises(RecordError, match=r"but 42459 datagrams.*a.csv, line 2.*implausible"):
        run_import(fields=fields)
    assert run_import({"implausible": "bursts of a second in half an hour"}, fields).written == 1


# --- row selection --------------------------------------------------------------------------------


def trials_of(tmp_path, experiment="loss"):
    path = tmp_path / "manifest.json"
    manifest = imported_manifest(tmp_path / "raw", "some", experiment)
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return load_trials(path)


def test_a_range_of_rows_below_other_tables(folder, run_import, tmp_path):
    text = (
        "title\nx,y\n1,2\n" + "kind,rate,loss\n" + "".join(f"frer,{r},1\n" for r in range(10, 20))
    )
    (folder / "a.csv").write_text(text, encoding="utf-8")
    run_import({"row_range": [3, 5], "csv": {"skip_lines": 3}})
    assert trials_of(tmp_path)["offered_mbps"].tolist() == [12, 13, 14]


def test_keys_of_json_that_are_data(folder, run_import, tmp_path):
    rows = [{"rate": 10 * number, "loss": number} for number in (1, 2, 3)]
    content = {"sizes": {"64": rows, "512": rows}}
    (folder / "a.json").write_text(json.dumps(content), encoding="utf-8")
    fields = FIELDS | {
        "configuration": "frer",
        "payload_bytes": {"column": "size", "unit": "bytes"},
    }
    run_import({"files": ["*.json"], "format": "json", "rows": "sizes.{size}.0:2"}, fields)
    trials = trials_of(tmp_path)
    assert sorted(trials["payload_bytes"]) == [64, 64, 512, 512]
    assert set(trials["offered_mbps"]) == {10, 20}


def test_a_column_of_latencies_is_observations(folder, run_import, tmp_path):
    text = "n,rtt_ms\n" + "".join(f"{n},{n}\n" for n in range(1, 101)) + "101,\n"
    (folder / "a.csv").write_text(text, encoding="utf-8")
    table = {"format": "times", "experiment": "latency", "tool": "ping",
             "latency_quantity": "round trip",
             "times": {"latency": "rtt_ms", "unit": "ms"}}  # fmt: skip
    report = run_import(table, {"configuration": "control", "payload_bytes": 56})
    trials = trials_of(tmp_path, "latency")
    assert trials["p95_us"].tolist() == [95 * 1000 / 2]
    assert (trials["sent"].tolist(), trials["received"].tolist()) == ([101], [100])
    assert facts_of(report, tmp_path)["experiments"]["latency"]["tools"] == ["ping"]


def test_intervals_of_iperf3_are_rows(folder, run_import, tmp_path):
    (folder / "a.txt").write_text(printed.IPERF3_UDP_VERBOSE, encoding="utf-8")
    table = {"files": ["*.txt"], "format": "iperf3", "rows": "intervals"}
    report = run_import(table, {"configuration": "frer"})
    trials = trials_of(tmp_path)
    # The server's, and without the one of 10 ms at its end.
    assert trials["delivered_mbps"].tolist() == [68.8]
    assert trials["loss_percent"].tolist() == [pytest.approx(100 * 143383 / 278468)]
    assert report.skipped[0].row == "interval 2"
    assert facts_of(report, tmp_path)["experiments"]["loss"]["intervals_of_tests"]
