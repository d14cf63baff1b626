"""Tables as the audit sees them: published, foreign and measured, in one form."""

import json

import pytest
from run_folders import result, write_run

from tsnrepro.common.errors import RecordError
from tsnrepro.published import documents as published
from tsnrepro.published.measured_runs import load_measured_runs, measured_tables
from tsnrepro.published.tables import (
    Catalog,
    NotMeasuredError,
    UnknownNameError,
    exact_table,
    unit_of,
)
from tsnrepro.published.third_party import ThirdPartyTable, read_table, third_party_tables


@pytest.fixture(scope="module")
def documents():
    return published.catalog()


# --- published ---------------------------------------------------------------------------------


def test_a_published_cell_knows_its_digits_and_its_place(documents):
    cell = documents.cell("frer-fail-operational/table-8/64/max_latency_us")
    assert (cell.value, cell.printed, cell.unit) == (106.5, "106.50", "us")
    assert cell.place == "Table 8, row 64 bytes, Max (μs)"
    assert (cell.interval.low, cell.interval.high) == pytest.approx((106.495, 106.505))
    assert documents.table("frer-fail-operational/table-8").title == "Table 8"


def test_a_value_of_the_running_text_has_a_short_path(documents):
    number = documents.cell("frer-udp/model-rate")
    word = documents.cell("frer-udp/setup-switch-model")
    assert (number.column, number.value, number.unit) == ("value", 530, "Mb/s")
    assert (word.column, word.value) == ("text", "LAN9668")
    assert number.place == "Section 5.1, running text: UDP rate of the buffer model"


def test_a_sign_of_approximation_widens_a_number(documents):
    cell = documents.cell("frer-fail-operational/figure-1/r-tag/rate_mbps")
    assert cell.qualifier == "approximately"
    assert (cell.interval.low, cell.interval.high) == (65, 75)


def test_a_heading_that_is_ours_is_shown_as_words(documents):
    cell = documents.cell("methodology/section-2-3-results/phase-3-535/loss_low_percent")
    assert cell.title == "loss low"


def test_rows_are_selected_by_key_and_by_value():
    table = published.published_table("frer-udp", "table-a-2")
    assert table.select(["frer-540", "single-path-390"]) == [9, 0]
    assert len(table.select(where={"configuration": "Single-Path"})) == 5
    assert len(table.select(where={"rate_mbps": [390, 540], "outcome": "pass"})) == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("frer-ud/table-4-1/single-path/throughput_mbps", "no source 'frer-ud'"),
        ("frer-udp/table-4-9/single-path/throughput_mbps", "no table 'table-4-9'"),
        ("frer-udp/table-4-1/single/throughput_mbps", "no row 'single'"),
        ("frer-udp/table-4-1/single-path/througput_mbps", "no column 'througput_mbps'"),
        ("frer-udp/model-rat", "no row 'model-rat'"),
        ("frer-udp/table-4-1/single-path", "source/table/row/column"),
    ],
)
def test_an_unknown_name_is_refused_with_near_ones(documents, path, message):
    with pytest.raises(UnknownNameError, match=message):
        documents.cell(path)


def test_words_are_no_number(documents):
    with pytest.raises(UnknownNameError, match="a number is needed"):
        documents.cell("frer-udp/setup-switch-model").interval  # noqa: B018


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("goodput_mbps", "Mb/s"),
        ("loss_percent", "%"),
        ("mean_us", "us"),
        ("send_seconds", "s"),
        ("duration_s", "s"),
        ("target_packets_per_second", "1/s"),
        ("sent", ""),
    ],
)
def test_a_column_name_carries_its_unit(column, unit):
    assert unit_of(column) == unit


def test_numbers_of_a_program_are_taken_as_they_are():
    table = exact_table("model/quick", "loss", ["a"], {"rate_mbps": [530.0]})
    assert table.cell(0, "rate_mbps").interval.is_exact


# --- foreign -----------------------------------------------------------------------------------


@pytest.fixture
def foreign_folder(tmp_path):
    nested = {
        "date": "2025-10-20",
        "sizes": [
            {"size": 64, "limit": 627.45, "tests": [{"load": 50, "loss": 17.1950}]},
            {"size": 512, "limit": 930.91, "tests": [{"load": 50, "loss": 3.2}, {"load": 60}]},
        ],
        "rates": [{"size": 64, "tried": [100, 200]}],
    }
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "nested.json").write_text(json.dumps(nested), encoding="utf-8")
    (tmp_path / "sweep.csv").write_text(
        "Rate_Mbps,Loss_Pct,Status\n400,0.000,clean\n540,NA,failed\n540,0.0,clean\n",
        encoding="utf-8",
    )
    return tmp_path


def test_records_of_a_json_file_inherit_what_stands_above_them(foreign_folder):
    layout = ThirdPartyTable(file="*/nested.json", records="sizes.*.tests.*", key=["size", "load"])
    table = read_table("set", "loss", foreign_folder, layout)
    assert list(table.keys) == ["64-50", "512-50", "512-60"]
    assert [table.cell(n, "limit").value for n in range(3)] == [627.45, 930.91, 930.91]
    assert table.cell(0, "loss").interval.high == pytest.approx(17.1955, abs=1e-6)
    assert table.cell(2, "loss").value is None
    assert table.cell(0, "loss").place == "nested.json, sizes.tests 64-50, loss"


def test_a_list_in_a_record_can_become_rows(foreign_folder):
    layout = ThirdPartyTable(
        file="*/nested.json", records="rates.*", key=["size", "tried"], explode="tried"
    )
    table = read_table("set", "rates", foreign_folder, layout)
    assert [table.cell(n, "tried").value for n in range(2)] == [100, 200]


def test_a_csv_file_keeps_digits_and_numbers_repeated_keys(foreign_folder):
    table = read_table(
        "set", "loss", foreign_folder, ThirdPartyTable(file="sweep.csv", key=["Rate_Mbps"])
    )
    assert list(table.keys) == ["400", "540", "540-2"]
    assert table.cell(0, "Loss_Pct").printed == "0.000"
    assert table.cell(1, "Loss_Pct").value is None


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"file": "*.json", "key": ["a"]}, "no file matches"),
        ({"file": "sweep.csv", "key": ["rate"]}, "no column 'rate'"),
        ({"file": "*/nested.json", "records": "sizes.*.trials", "key": ["size"]}, "no trials"),
    ],
)
def test_what_is_not_in_the_data_set_is_named(foreign_folder, layout, message):
    source = third_party_tables("set", foreign_folder, {"table": ThirdPartyTable(**layout)})
    with pytest.raises(UnknownNameError, match=message):
        source("table")


def test_an_unusable_data_set_is_refused(foreign_folder, tmp_path):
    with pytest.raises(RecordError, match="no such folder"):
        third_party_tables("set", tmp_path / "nowhere", {})
    (foreign_folder / "broken.json").write_text("{", encoding="utf-8")
    with pytest.raises(RecordError, match="not JSON"):
        read_table("set", "x", foreign_folder, ThirdPartyTable(file="broken.json", key=["a"]))
    with pytest.raises(RecordError, match="2 files match"):
        read_table("set", "x", foreign_folder, ThirdPartyTable(file="**/*e*.json", key=["a"]))
    with pytest.raises(UnknownNameError, match="There are: a"):
        third_party_tables("set", foreign_folder, {"a": ThirdPartyTable(file="x", key=["a"])})("b")


# --- measured ----------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    columns = {"trial": ["t1", "t2"], "goodput_mbps": [930.5, float("nan")], "retransmits": [0, 3]}
    results = [
        result("loss.threshold.ratio", 1.02, 0.97, 1.08, trials=["t1", "t2"]),
        result("loss.frame_64.frer.percent", 3.0, 2.0, 4.0, "%"),
        result("tcp.equivalence.verdict", "equivalent"),
        result("latency.p99.control.us", None, unit="us"),
    ]
    folder = write_run(tmp_path, "tcp", results, {"tcp": columns}, "guest", processors=2)
    return load_measured_runs({"tcp": folder})[0]


def test_measured_tables_name_their_rows_by_trial(run):
    data = Catalog({"measured": measured_tables([run])})
    table = data.table("measured/tcp")
    assert list(table.keys) == ["t1", "t2"]
    assert table.cell(1, "goodput_mbps").value is None
    assert table.cell(0, "goodput_mbps").unit == "Mb/s"
    assert table.cell(0, "goodput_mbps").place == "tcp, trial t1, goodput_mbps"
    assert table.cell(0, "link_rate_mbps").value == 1000
    assert table.source == "guest/quick"


def test_tables_of_comma_separated_values_are_read_as_well(run):
    (run.folder / "tables" / "tcp-summary.csv").write_text("rate_mbps,of\n9.5,a\n", "utf-8")
    table = measured_tables([run])("tcp-summary")
    assert (table.cell(0, "rate_mbps").value, table.cell(0, "of").value) == (9.5, "a")


def test_named_results_are_a_table_of_their_numbers(run):
    table = measured_tables([run])("values")
    assert list(table.keys) == ["loss.threshold.ratio", "loss.frame_64.frer.percent"]
    columns = ("low", "value", "high", "trials", "frame_bytes", "link_rate_mbps")
    assert [table.cell(0, c).value for c in columns] == [0.97, 1.02, 1.08, 2, None, 1000]
    assert table.cell(1, "frame_bytes").value == 64


def test_one_way_latencies_are_not_set_against_half_round_trips(tmp_path):
    numbers = [result("latency.mean.frer.us", 101.8, unit="us"), result("tcp.trials.count", 3)]
    for quantity, keys in (
        ("half round trip", ["latency.mean.frer.us", "tcp.trials.count"]),
        ("one way", ["tcp.trials.count"]),
    ):
        folder = write_run(
            tmp_path / quantity, "latency", [*numbers, result("latency.quantity", quantity)]
        )
        table = measured_tables(load_measured_runs({"latency": folder}))("values")
        assert list(table.keys) == keys


@pytest.mark.parametrize(
    ("testbed", "origin", "caveat"),
    [
        ("model", "simulated on model/quick", "Simulated: what the model's queues do, not what X"),
        ("guest", "measured on guest/quick", "virtual machine with 2 processors"),
        ("emulated", "measured on emulated/quick", "one machine with 2 processors: what its"),
        ("imported", "imported as imported/quick", ""),
        ("rack", "measured on rack/quick", ""),
    ],
)
def test_a_run_says_whose_its_numbers_are(tmp_path, testbed, origin, caveat):
    folder = write_run(tmp_path, "tcp", testbed=testbed, processors=2)
    (run,) = load_measured_runs({"tcp": folder})
    assert run.origin == origin
    assert caveat in run.caveat("X")
    assert bool(caveat) == bool(run.caveat("X"))


def test_a_table_that_was_not_measured_is_unknown(run, tmp_path):
    with pytest.raises(NotMeasuredError, match="not measured here"):
        measured_tables([run])("latency")
    with pytest.raises(RecordError, match="no results of loss"):
        load_measured_runs({"loss": tmp_path / "nothing"})


@pytest.mark.parametrize(("text", "message"), [("{", "not JSON"), ('{"key": 1}', "valid list")])
def test_results_that_cannot_be_read_are_refused(run, text, message):
    (run.folder / "values.json").write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=message):
        load_measured_runs({"tcp": run.folder})


def test_a_result_of_two_experiments_is_refused(run, tmp_path):
    again = write_run(tmp_path, "loss", [result("tcp.equivalence.verdict", "different")])
    with pytest.raises(RecordError, match=r"duplicate result 'tcp\.equivalence\.verdict'"):
        load_measured_runs({"tcp": run.folder, "loss": again})


def test_a_file_that_is_no_parquet_is_refused(run):
    (run.folder / "tables" / "loss.parquet").write_text("trial,sent", encoding="utf-8")
    with pytest.raises(RecordError, match="not a Parquet file"):
        measured_tables([run])("loss")


def test_links_of_an_experiments_own_rate_are_what_its_numbers_are_held_against(tmp_path):
    own = result("rfc2544.link_rate.mbps", 10.0)
    folder = write_run(tmp_path, "rfc2544", [own], {"rfc2544": {"trial": ["t1"]}})
    (run,) = load_measured_runs({"rfc2544": folder})
    assert run.link_rate_mbps == 10
    assert measured_tables([run])("rfc2544").cell(0, "link_rate_mbps").value == 10
