"""The tables, verdicts and JSON of a device report."""

import json

import pandas as pd
import pytest
from synthetic_results import entry, latency, trials, write_run

from tsnrepro.common.errors import PublishError
from tsnrepro.common.repository import root
from tsnrepro.config.base import load
from tsnrepro.papers.data_sources import DataSource, DataSources
from tsnrepro.papers.device_report import BASELINE, TESTS, DeviceReport, Words
from tsnrepro.papers.macros import write_paper_inputs

ENGLISH, KOREAN = (root() / "paper" / name for name in ("device-report", "device-report-ko"))
RFC2544 = "rfc2544.throughput.binary_search.frame_{}.control"


def throughput(frame, pps, limited_by, spread=10.0):
    """Return a throughput of four searches."""
    kind = {"run": "rfc2544", "names": trials("rfc2544", f"control-{frame}")}
    key = RFC2544.format(frame)
    limits = (pps - spread, pps + spread) if spread else (None, None)
    method = "Student t over runs" if spread else "no interval: one run"
    return [
        entry(f"{key}.pps", pps, *limits, unit="1/s", method=method, **kind),
        entry(f"{key}.payload_mbps", pps / 100, unit="Mb/s", digits=1, **kind),
        entry(f"{key}.limited_by", limited_by, **kind),
    ]


def loss_at(frame, load, percent):
    key = f"rfc2544.frame_loss.frame_{frame}.control.load_{load}.percent"
    names = trials("rfc2544", f"loss-{frame}")
    return entry(key, percent, unit="%", digits=3, run="rfc2544", names=names)


def median(us, spread=1.0):
    key = "latency.payload_64.{}.control.us"
    kind = {"unit": "us", "digits": 1, "run": "latency", "names": trials("latency", "64")}
    method = "median over runs"
    return [
        entry(key.format("p50"), us, us - spread, us + spread, method=method, **kind),
        entry(key.format("p99"), us + 10, us + 8, us + 12, method=method, **kind),
    ]


def sweep(losses):
    """Return trials of ``loss`` as a run keeps them, by load the losses of its repetitions."""
    return pd.DataFrame(
        {
            **{"question": "sweep", "payload_bytes": 1472, "configuration": "control"},
            **{"target_mbps": float(rate), "offered_mbps": float(rate), "sent": 1000},
            **{"lost": lost, "loss_percent": lost / 10, "repetition": number, "duration_s": 1.0},
            "trial": f"{rate}-{number}",
        }
        for rate, repetitions in losses.items()
        for number, lost in enumerate(repetitions)
    )


def source(folder, name, facts=None, **runs):
    """Write runs, each of its results and perhaps trials of ``loss``, as a data source."""
    for run, items in runs.items():
        losses = items if run == "loss" else {}
        highest = max((rate for rate, lost in losses.items() if not sum(lost)), default=0)
        key, names = "loss.highest_clean.control.mbps", trials("loss", "control")
        clean = [entry(key, highest, unit="Mb/s", run="loss", names=names)]
        write_run(folder / name / run, clean if losses else items, facts)
        if losses:
            (folder / name / run / "tables").mkdir()
            sweep(losses).to_parquet(folder / name / run / "tables" / "loss.parquet")
    return DataSource(name, {run: folder / name / run for run in runs})


def report_of(*sources):
    found = DataSources(list(sources))
    return DeviceReport(ENGLISH / "words.yaml", found, found.values())


def limits(report, test):
    (rows,) = (rows for name, rows in report.rows.items() if name.name == test)
    return [row.limited_by for row in rows]


def test_a_test_that_was_not_made_has_no_table(tmp_path):
    report = report_of(source(tmp_path, "selected", rfc2544=throughput(64, 5000.0, "network")))
    assert [*report.tables()] == ["tables/device/throughput.tex"]
    (table,) = report.tables().values()
    assert f"\\interval{{{RFC2544.format(64)}.pps}}" in table
    # Without a baseline there is no column of it, and the record's own word.
    assert "Cable" not in table
    assert f"\\wordval{{{RFC2544.format(64)}.limited_by}}" in table
    assert "Share" not in table  # of which the record has nothing


def test_what_the_cable_does_not_carry_is_no_limit_of_the_device(tmp_path):
    own = [
        *throughput(64, 5000.0, "network"),
        *throughput(128, 5000.0, "network"),
        *throughput(256, 5000.0, "network"),
        *throughput(512, 5000.0, "line"),
        *throughput(1024, 5000.0, "host, generator"),
        *throughput(1518, 5000.0, "network"),
    ]
    cable = [
        *throughput(64, 9000.0, "line"),
        *throughput(128, 4900.0, "line"),
        *throughput(256, 5015.0, "line"),  # the limits overlap
        *throughput(512, 5000.0, "line"),
        *throughput(1024, 9000.0, "line"),
    ]
    report = report_of(
        source(tmp_path, "selected", rfc2544=own), source(tmp_path, BASELINE, rfc2544=cable)
    )
    expected = ["device", "bench", "cannot tell", "none", "bench", "network"]
    assert limits(report, "throughput") == expected
    (table,) = report.tables().values()
    assert f"\\val{{{BASELINE}.{RFC2544.format(64)}.pps}} " in table


def test_loss_over_the_cable_is_no_loss_of_the_device(tmp_path):
    own = [loss_at(64, load, percent) for load, percent in ((50, 0), (90, 2.5), (100, 5), (110, 9))]
    cable = [loss_at(64, load, percent) for load, percent in ((50, 0), (90, 0), (100, 0.1))]
    report = report_of(
        source(tmp_path, "selected", rfc2544=own), source(tmp_path, BASELINE, rfc2544=cable)
    )
    assert limits(report, "frame-loss") == ["none", "device", "bench", ""]


def test_the_table_of_loss_begins_with_the_last_load_without(tmp_path):
    own = [
        *(loss_at(64, load, percent) for load, percent in ((50, 0), (60, 0), (90, 2), (100, 3))),
        *(loss_at(512, load, 0) for load in (50, 100)),
    ]
    report = report_of(source(tmp_path, "selected", rfc2544=own))
    table = report.tables()["tables/device/frame-loss.tex"]
    rows = [line.split(" & ")[::2] for line in table.splitlines() if "interval" in line]
    assert rows == [["64", "60"], ["64", "90"], ["64", "100"], ["512", "100"]]
    # JSON has them all.
    (found,) = json.loads(report.as_json())["tests"]
    assert len(found["rows"]) == 6


@pytest.mark.parametrize(
    ("cable", "limited_by"),
    [
        ({100: [0, 0], 500: [0, 0], 900: [0, 1]}, "device"),
        ({100: [0, 0], 500: [0, 2], 900: [0, 1]}, "bench"),
        ({100: [0, 0]}, "cannot tell"),
        (None, ""),
    ],
)
def test_the_first_load_with_loss_is_held_against_the_cable(tmp_path, cable, limited_by):
    own = source(tmp_path, "selected", loss={100: [0, 0], 500: [0, 3], 900: [50, 60]})
    report = report_of(own, *([source(tmp_path, BASELINE, loss=cable)] if cable else []))
    assert limits(report, "loss") == [limited_by]
    (*figures,) = report.write_figures(tmp_path)
    assert [path.name for path in figures] == ["loss.pdf"]
    assert figures[0].is_file()


def test_a_loss_at_every_load_has_its_threshold(tmp_path):
    """There is no highest load without loss, and the test was made."""
    method = "range: below the loads tried: every trial of 3 repetitions lost"
    keys = {name: f"loss.{name}.control.mbps" for name in ("threshold", "line_limit")}
    kind = {"unit": "Mb/s", "run": "loss", "names": trials("loss", "control")}
    items = [
        entry("loss.highest_clean.control.mbps", None, **kind),
        entry(keys["threshold"], None, None, 170.7, method=method, **kind),
        entry(keys["line_limit"], 957.1, **kind),
    ]
    write_run(tmp_path / "loss", items)
    (tmp_path / "loss" / "tables").mkdir()
    sweep({100: [3, 4]}).to_parquet(tmp_path / "loss" / "tables" / "loss.parquet")
    runs = {"loss": tmp_path / "loss"}
    report = report_of(DataSource("selected", runs), DataSource(BASELINE, runs))
    (table,) = report.tables().values()
    assert f"\\interval{{{keys['threshold']}}} & \\interval{{{BASELINE}." in table
    assert "highest" not in table


def test_a_latency_is_also_given_without_the_median_of_the_cable(tmp_path):
    report = report_of(
        source(tmp_path, "selected", latency=median(50.0)),
        source(tmp_path, BASELINE, latency=median(20.0, 0.5)),
    )
    found = report.derived
    assert {key.removeprefix("latency.payload_64."): item.value for key, item in found.items()} == {
        "p50.control.us.less_baseline": 30.0,
        "p99.control.us.less_baseline": 40.0,
    }
    p99 = found["latency.payload_64.p99.control.us.less_baseline"]
    assert (p99.low, p99.high) == (58.0 - 20.5, 62.0 - 19.5)
    assert p99.method.startswith("bound: interval arithmetic")
    (table,) = report.tables().values()
    assert f"\\val{{{p99.key}}}" in table


def test_one_search_of_several_is_printed(tmp_path):
    items = throughput(64, 5000.0, "network")
    other = [item | {"key": item["key"].replace("binary_search", "zero_loss")} for item in items]
    for found, expected in ((items + other, "binary_search"), (other, "zero_loss")):
        report = report_of(source(tmp_path / expected, "selected", rfc2544=found))
        (rows,) = filter(None, report.rows.values())
        assert [row.factors["search"] for row in rows] == [expected]


@pytest.mark.parametrize("manuscript", [ENGLISH, KOREAN], ids=lambda path: path.name)
def test_json_has_the_numbers_units_limits_and_conditions(tmp_path, manuscript):
    own = source(
        tmp_path,
        "selected",
        rfc2544=throughput(64, 5000.0, "network"),
        latency=[*latency("higher"), *median(50.0)],
    )
    cable = source(tmp_path, BASELINE, latency=median(20.0))
    write_paper_inputs(manuscript, tmp_path / "out", DataSources([own, cable]))
    path = tmp_path / "out" / f"{manuscript.name}.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["conditions"]["link_rate_mbps"] == 1000
    assert found["conditions"]["campaign"] == "synthetic"
    assert found[BASELINE]["kind"] == "emulated"
    first, second = found["tests"]
    assert (first["test"], first["standard"]) == ("throughput", "RFC 2544, 26.1")
    (row,) = first["rows"]
    assert (row["frame"], row["configuration"], row["limited_by"]) == ("64", "control", "network")
    pps = row["results"]["pps"]
    shown = [pps[name] for name in ("value", "low", "high", "unit", "trials")]
    assert shown == [5000.0, 4990.0, 5010.0, "1/s", 4]
    (row,) = second["rows"]
    assert row["less_baseline"]["p50"]["value"] == 30.0
    assert row[BASELINE]["p50"]["value"] == 20.0
    printed = set((tmp_path / "out/provenance.json").read_text(encoding="utf-8").split('"'))
    for part in row.values():
        if isinstance(part, dict):
            assert {item["key"] for column, item in part.items() if column != "p99"} <= printed


def test_tables_of_an_earlier_record_are_not_left(tmp_path):
    own = source(tmp_path, "selected", rfc2544=throughput(64, 5000.0, "network"))
    stale = tmp_path / "out/tables/device/tcp.tex"
    stale.parent.mkdir(parents=True)
    stale.write_text("of another record", encoding="utf-8")
    write_paper_inputs(ENGLISH, tmp_path / "out", DataSources([own]))
    assert not stale.exists()


def test_a_scenario_with_a_delay_has_its_word_and_its_number():
    words = [load(Words, folder / "words.yaml") for folder in (ENGLISH, KOREAN)]
    shown = [[each.value(text) for each in words] for text in ("delay_10_ms", "delay_0_5_ms")]
    assert shown == [["delay 10 ms", "경로 지연 10 ms"], ["delay 0.5 ms", "경로 지연 0.5 ms"]]


def test_both_languages_have_words_for_all_that_can_be_printed():
    words = [load(Words, folder / "words.yaml") for folder in (ENGLISH, KOREAN)]
    for name in ("heads", "axes"):
        assert getattr(words[0], name).keys() == getattr(words[1], name).keys()
    for found in words:
        for test in TESTS:
            for name in (*test.factors, *test.columns, *(f"less_{one}" for one in test.less)):
                assert name in test.first or found.head(test.name, name)
            assert not test.figure or found.axes[f"{test.name}.y"]
    with pytest.raises(PublishError, match="no head 'weight'"):
        words[0].head("tcp", "weight")


@pytest.mark.parametrize("folder", [ENGLISH, KOREAN], ids=lambda path: path.name)
def test_every_test_has_a_section(folder):
    main = (folder / "main.tex").read_text(encoding="utf-8")
    for test in TESTS:
        table = f"tables/device/{test.name}.tex"
        assert f"\\IfFileExists{{{table}}}{{\\input{{sections/{test.name}.tex}}}}{{}}" in main
        section = (folder / f"sections/{test.name}.tex").read_text(encoding="utf-8")
        assert f"\\tablerows{{{table}}}" in section
