"""Analyses of imported trials; measured trials give the same results after export and import."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from measured_trials import write_trials
from outside_files import PUBLIC_SET, needs_public_set
from sparse_sets import manifests, run_notebooks, sparse

from tsnrepro.common.repository import root
from tsnrepro.experiments.latency import analysis as latency
from tsnrepro.experiments.loss import analysis as loss
from tsnrepro.experiments.tcp import analysis as tcp
from tsnrepro.imports.importer import import_folder
from tsnrepro.records.store import RawStore
from tsnrepro.records.tables import MEASURED_LOSS, SCHEMAS, load_trials
from tsnrepro.results import testbed

EXPERIMENTS = ("loss", "tcp", "latency")
UNITS = {
    "mbps": "Mb/s",
    "us": "us",
    "s": "s",
    "seconds": "s",
    "bytes": "bytes",
    "percent": "percent",
}


def results(paths, link_rate_mbps=1000.0):
    """Return all results of the analyses of the given manifests, by key."""
    analyses = {
        "loss": loss.analyse,
        "tcp": lambda trials: tcp.analyse(trials, link_rate_mbps),
        "latency": lambda trials: latency.analyse(trials, latency.series(paths["latency"])),
    }
    analysed = [analyses[name](load_trials(path)) for name, path in paths.items()]
    return {key: item.model_dump() for one in analysed for key, item in one._items.items()}


# Columns that a mapping cannot fill: those of the accounting and of measured trials.
OWN = ("trial", "sha256", *MEASURED_LOSS)


# --- round trip -----------------------------------------------------------------------------------


def export(paths, folder):
    """Write measured trials as CSV tables, with a log of observations for each latency trial."""
    folder.mkdir()
    for experiment, path in paths.items():
        load_trials(path).to_csv(folder / f"{experiment}.csv", index=False)
    manifest = json.loads(paths["latency"].read_text(encoding="utf-8"))
    store = RawStore(paths["latency"].parent, "own", "test", "latency")
    (folder / "logs").mkdir()
    for entry in manifest["trials"]:
        log = store.output_bytes(entry["trial"], "sockperf-log.csv.gz")
        (folder / "logs" / f"{entry['trial']}.csv").write_bytes(log)


def mapping_of(columns):
    """Return a mapping of every column of exported tables, whose unit is in its name."""
    tables = {}
    for experiment, names in columns.items():
        fields = {}
        for name in names:
            if name not in OWN:
                fields[name] = {"column": name}
                unit = UNITS.get(name.rsplit("_", 1)[-1])
                if unit and name != "configuration":
                    fields[name]["unit"] = unit
        tables[experiment] = {
            "files": [f"{experiment}.csv"],
            "format": "csv",
            "experiment": experiment,
            "fields": fields,
        }
    tables["latency"]["latency_quantity"] = "half round trip"
    tables["latency"]["observations"] = {"file": "logs/{trial}.csv", "format": "sockperf"}
    return {"description": "our own trials, exported", "tables": tables}


@pytest.fixture(scope="module")
def round_trip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("round-trip")
    own = write_trials(folder)
    export(own, folder / "exported")
    columns = {experiment: list(load_trials(path).columns) for experiment, path in own.items()}
    mapping = folder / "own.yaml"
    mapping.write_text(yaml.safe_dump(mapping_of(columns)), encoding="utf-8")
    report = import_folder(folder / "exported", mapping, "again", folder / "raw")
    return own, manifests(folder / "raw", "again"), report


def test_every_trial_comes_back(round_trip):
    own, _, report = round_trip
    assert report.trials == {e: len(load_trials(path)) for e, path in own.items()}
    assert (report.refused, report.skipped, report.unmatched) == ([], [], [])


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_tables_are_equal(round_trip, experiment):
    own, again, _ = round_trip
    before, after = load_trials(own[experiment]), load_trials(again[experiment])
    columns = [name for name in before.columns if name not in OWN]
    pd.testing.assert_frame_equal(after[columns], before[columns], check_dtype=False, rtol=1e-13)


def test_all_results_are_equal(round_trip):
    own, again, _ = round_trip
    before, after = results(own), results(again)
    assert list(before) == list(after)
    for key, item in before.items():
        for part in ("value", "low", "high"):
            one, other = item[part], after[key][part]
            same = one == other or (
                isinstance(one, float) and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
            )
            assert same, (key, part, one, other)
        assert len(item["trials"]) == len(after[key]["trials"]), key
        assert item["method"] == after[key]["method"], key


def test_observations_come_back_in_order(round_trip):
    own, again, _ = round_trip
    before, after = (list(latency.series(paths["latency"]).values()) for paths in (own, again))
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert len(before[0]) == 600


def test_an_altered_original_is_detected(round_trip, tmp_path):
    _, again, _ = round_trip
    manifest = json.loads(again["latency"].read_text(encoding="utf-8"))
    testbed_folder = Path(manifest["folder"]).parents[1]
    original = next((testbed_folder / "originals").glob("*/*r1*.csv"))
    kept = original.read_bytes()
    try:
        original.write_bytes(kept.replace(b"5", b"6", 1))
        with pytest.raises(Exception, match="altered"):
            latency.series(again["latency"])
    finally:
        original.write_bytes(kept)


def test_the_notebooks_run_on_it(round_trip, tmp_path):
    _, again, _ = round_trip
    run_notebooks(again, tmp_path)
    names = {path.stem for path in tmp_path.glob("*/figures/*.png")}
    assert names == {
        "latency-by-size",
        "latency-distribution",
        "loss-against-load",
        "loss-over-time",
        "frame-size",
        "where-lost",
    }
    label = {i["key"]: i["value"] for i in json.loads((tmp_path / "loss/testbed.json").read_text())}
    assert label["testbed.label"] == "imported: again"
    assert label["testbed.link_rate_mbps"] == "unknown"


# --- what a data set may lack ---------------------------------------------------------------------


@pytest.mark.parametrize("experiments", [EXPERIMENTS, ("loss",), ("tcp",), ("latency",)])
@pytest.mark.parametrize("only", [("control", "frer"), ("frer",)])
def test_all_analyses_cope_with_what_is_missing(tmp_path, experiments, only):
    paths = sparse(tmp_path, experiments, only)
    found = results(paths, None)
    assert set(paths) == set(experiments)
    if "loss" in experiments:
        assert found["loss.trials.count"]["value"] == 2 * len(only)
    for key in ("loss.lost.total.count", "loss.unaccounted.total.count", "tcp.line_limit.frer.mbps",
                "loss.share.switches.percent", "latency.p50.frer.us"):  # fmt: skip
        if key.partition(".")[0] in experiments:
            assert found[key]["value"] is None, key
    for item in found.values():
        for part in ("value", "low", "high"):
            assert not isinstance(item[part], float) or math.isfinite(item[part]), item["key"]
    if len(only) == 1:
        run_notebooks(paths, tmp_path / "out")


def test_what_is_known_is_used(tmp_path):
    found = results(sparse(tmp_path, EXPERIMENTS))
    # At 300 the loss of the control is missing: 100 is the highest load to compare at.
    assert found["loss.frame_1046.target_mbps"]["value"] == 100
    assert found["loss.highest_clean.control.mbps"]["value"] == 100
    assert found["tcp.goodput.control.mbps"]["value"] == pytest.approx(941)
    assert found["latency.p99.frer.us"]["value"] == 120
    assert found["latency.mean.difference.percent"]["value"] == pytest.approx(10)
    assert found["latency.quantity"]["value"] == "one way"


def test_measured_trials_may_lack_nothing():
    for experiment, schema in SCHEMAS.items():
        needed = [column for column in schema.columns.values() if column.required]
        assert not any(column.nullable for column in needed), experiment


# --- the authors' public data set -----------------------------------------------------------------


@pytest.fixture(scope="module")
def public_set(tmp_path_factory):
    raw = tmp_path_factory.mktemp("public") / "raw"
    report = import_folder(PUBLIC_SET, "d10test", "d10test", raw)
    return raw, report, manifests(raw, "d10test")


@needs_public_set
def test_the_public_set_has_its_trials(public_set):
    _, report, _ = public_set
    assert report.trials == {"loss": 106, "tcp": 6, "latency": 10}
    assert (report.failed, report.written) == (1, 123)
    by_table = {item.table: item.trials for item in report.imported}
    assert by_table == {
        "search": 6,
        "loss-by-load": 33,
        "search-steps": 18,
        "threshold-frer": 17,
        "threshold-control": 32,
        "tcp-frer": 3,
        "tcp-control": 3,
        "latency-frer": 5,
        "latency-control": 5,
    }
    assert len(report.refused) == 5
    assert (report.unnamed, report.unmatched) == ([], [])


@needs_public_set
def test_payloads_of_the_public_set_follow_from_its_counts(public_set):
    trials = load_trials(public_set[2]["loss"])
    counted = trials[trials["sent"].notna() & trials["offered_mbps"].notna()]
    implied = counted["offered_mbps"] * 1e6 * counted["duration_s"] / 8 / counted["sent"]
    assert len(counted) == 39
    assert np.allclose(implied.astype(float), counted["payload_bytes"], rtol=2e-4)


@needs_public_set
def test_the_results_of_the_public_set(public_set):
    found = results(public_set[2])
    assert found["loss.highest_clean.control.mbps"]["value"] == 392
    assert found["loss.highest_clean.frer.mbps"]["value"] == 530
    assert found["tcp.goodput.frer.mbps"]["value"] == pytest.approx(941.376, abs=5e-4)
    assert found["tcp.equivalence.unadjusted.verdict"]["value"] == "cannot tell"  # one repetition
    assert found["latency.p99_9.difference.percent"]["value"] == pytest.approx(7.02, abs=5e-3)
    # One run each: a difference without an interval.
    assert found["latency.p99_9.unadjusted.verdict"]["value"] == "cannot tell"
    assert found["latency.max.frer.us"]["value"] is None  # twice the mean was not measured
    assert found["latency.observations.control.count"]["value"] == 270097


@needs_public_set
def test_the_notebooks_run_on_the_public_set(public_set, tmp_path):
    run_notebooks(public_set[2], tmp_path)
    facts = testbed.analyse(public_set[2]["loss"], load_trials(public_set[2]["loss"]))
    assert facts.of("testbed.label").value == "imported: d10test"
    assert facts.of("testbed.kernel").value == "unknown"
    assert facts.of("testbed.link_rate_mbps").value == 1000
    assert (tmp_path / "loss" / "figures" / "loss-against-load.pdf").is_file()


@needs_public_set
def test_importing_the_public_set_twice_adds_nothing(public_set):
    raw, _, _ = public_set
    before = {p: p.stat().st_mtime_ns for p in raw.rglob("*") if "runs" not in p.parts}
    assert import_folder(PUBLIC_SET, "d10test", "d10test", raw).written == 0
    assert {p: p.stat().st_mtime_ns for p in raw.rglob("*") if "runs" not in p.parts} == before


@needs_public_set
def test_the_computed_statistics_of_the_public_set_are_refused_if_mapped(tmp_path):
    content = yaml.safe_load((root() / "config/imports/d10test.yaml").read_text(encoding="utf-8"))
    table = content["tables"]["latency-frer"]
    del table["ignored_columns"]
    table["fields"]["max_us"] = {"column": "max_latency_us", "unit": "us"}
    table["fields"]["sd_us"] = {"column": "stddev_us", "unit": "us"}
    mapping = tmp_path / "all.yaml"
    mapping.write_text(yaml.safe_dump(content), encoding="utf-8")
    report = import_folder(PUBLIC_SET, mapping, "all", tmp_path / "raw")
    (refused,) = [item for item in report.refused if item.table == "latency-frer"]
    assert "max_us is 2 x mean_us in all 5 rows" in refused.reason
    assert "sd_us is 0.1 x mean_us" in refused.reason
    assert report.trials["latency"] == 5
