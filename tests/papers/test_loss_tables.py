"""The generated tables of loss."""

import re

import pytest
from synthetic_results import write_by_payload, write_by_phase, write_summary

from tsnrepro.common.errors import PublishError
from tsnrepro.papers.loss_tables import (
    load_payloads,
    load_phases,
    load_summary,
    loss_rows,
    payload_rows,
    published_durations,
    published_loss,
    sweep_rows,
)
from tsnrepro.papers.manuscript import scan_text

SUMMARY = "tables/summary.csv"


@pytest.fixture
def rows(tmp_path):
    write_summary(tmp_path / SUMMARY, rates=(300, 400, 535, 900))
    text = loss_rows(load_summary(tmp_path), published_loss("frer-udp"))
    cells = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines()]
    return {row[0]: row[1:] for row in cells}


def test_every_row_has_all_columns_in_order_of_load(rows):
    assert {len(row) for row in rows.values()} == {12}
    assert list(rows) == sorted(rows, key=float)


def test_published_and_measured_loads_are_joined(rows):
    # 400 and 535 Mb/s are in both, 398 is published only, 900 measured only.
    assert rows["400"][2] == r"\pubto{4}{table-a-2/single-path-400/loss_percent}"
    assert rows["400"][4:7] == ["399.9", "0/3", "0.000"]
    assert rows["535"][3] == r"\pubto{4}{table-a-2/frer-535/loss_percent}"
    assert rows["398"][:2] == [""] * 2
    assert rows["398"][4:] == [""] * 8
    assert rows["900"][:4] == ["", r"\val{loss.duration_s}", "", ""]
    assert rows["900"][4:8] == ["899.9", "3/3", "4.500", "[3.150,~5.850]"]


def test_every_published_load_is_there(rows):
    assert {"390", "395", "398", "399", "400", "520", "525", "530", "535", "540"} <= set(rows)


def test_a_failed_connection_is_printed_as_such(rows):
    assert rows["540"][3] == r"\publink{table-a-2/frer-540/outcome}{failed}"


def test_unknown_limits_are_dashes(tmp_path):
    write_summary(tmp_path / SUMMARY, rates=(500,), known=False)
    text = loss_rows(load_summary(tmp_path), {})
    assert re.search(r"0\.500 &  & ", text)


def test_a_missing_file_or_column_is_an_error(tmp_path):
    with pytest.raises(PublishError, match=r"summary\.csv"):
        load_summary(tmp_path)
    write_summary(tmp_path / SUMMARY)
    path = tmp_path / SUMMARY
    path.write_text(path.read_text().replace("trials_with_loss", "losses"))
    with pytest.raises(PublishError, match="trials_with_loss"):
        load_summary(tmp_path)


# --- the sweep with FRER, beside Table 6 -------------------------------------------------------

FAIL_OPERATIONAL = "frer-fail-operational"


@pytest.fixture
def sweep(tmp_path):
    write_summary(tmp_path / SUMMARY, rates=(300, 400, 550, 900))
    return load_summary(tmp_path)


def by_load(text):
    cells = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines()]
    return {row[0]: row[1:] for row in cells}


def test_the_sweep_joins_published_measured_and_simulated(sweep):
    rows = by_load(sweep_rows(sweep, sweep[:-1], FAIL_OPERATIONAL))
    assert {len(row) for row in rows.values()} == {11}
    assert list(rows) == sorted(rows, key=float)
    assert (
        rows["550"][3] == r"\pubrange{table-6/550/loss_low_percent}{table-6/550/loss_high_percent}"
    )
    assert rows["550"][4] == r"\wordpub{table-6/550/zone}"
    assert rows["300"][2:5] == [""] * 3
    assert rows["520"][5:] == [""] * 6
    assert rows["900"][5:9] == ["899.9", "3/3", "4.500", "[3.150,~5.850]"]
    # The model has no trials at 900 Mb/s.
    assert rows["900"][9:] == [""] * 2
    assert rows["550"][9:] == rows["550"][7:9]


def test_a_model_alone_has_no_second_column(sweep):
    rows = by_load(sweep_rows(sweep, None, FAIL_OPERATIONAL))
    assert {len(row) for row in rows.values()} == {9}


def test_cells_of_a_range_are_scanned():
    used = scan_text(r"\pubrange{table-6/550/loss_low_percent}{table-6/550/loss_high_percent}", "a")
    assert set(used.published) == {
        "table-6/550/loss_low_percent",
        "table-6/550/loss_high_percent",
    }


# --- phases, and other payloads ----------------------------------------------------------------

PHASES = {
    (1, 1, 5): (400, 450, 550),
    (2, 1, 10): (530, 540),
    (3, 1, 30): (535, 540),
}


def phases_of(folder):
    write_by_phase(folder / "tables" / "by-phase.csv", PHASES)
    return load_phases(folder)


def rows_of(text):
    return [line.removesuffix(r" \\").split(" & ") for line in text.splitlines()]


def test_phases_stand_beside_published_loads_that_the_sweep_has_not(tmp_path):
    write_summary(tmp_path / SUMMARY, rates=(300, 400, 540))
    rows = rows_of(
        loss_rows(
            load_summary(tmp_path),
            published_loss("frer-udp"),
            phases_of(tmp_path),
            published_durations("frer-udp"),
        )
    )
    tried = [(load, phase, length) for load, phase, length, *_ in rows]
    sweep = ("", r"\val{loss.duration_s}")
    # The document's trials at 535 and 540 Mb/s lasted 30 s, as those of the third phase are to.
    assert tried[:6] == [
        *(("300", *sweep), ("390", "", ""), ("395", "", ""), ("398", "", "")),
        *(("399", "", ""), ("400", *sweep)),
    ]
    assert tried[-4:] == [
        *(("530", "2", "1"), ("535", "3", "1")),
        *(("540", *sweep), ("540", "3", "1")),
    ]
    assert [row[4] for row in rows[-2:]] == [
        "",
        r"\publink{table-a-2/frer-540/outcome}{failed}",
    ]
    assert rows[-1][5:9] == ["539.9", "1/1", "1.000", ""]
    # What is in neither the sweep nor the document has a table of its own.
    assert "450" not in [load for load, *_ in rows]


def test_a_sweep_has_the_phase_of_the_documents_length_beside_it(sweep, tmp_path):
    phases = phases_of(tmp_path)
    rows = rows_of(sweep_rows(sweep, sweep, FAIL_OPERATIONAL, phases, phases))
    assert {len(row) for row in rows} == {12}
    at = [(row[1], row[4]) for row in rows if row[0] == "400"]
    assert at == [
        ("", ""),
        ("1", r"\pubrange{table-6/400/loss_low_percent}{table-6/400/loss_high_percent}"),
    ]
    # Of two phases none is as long as the document's trials: either has a row.
    assert [row[1] for row in rows if row[0] == "540"] == ["2", "3"]
    assert [row[1] for row in rows if row[0] == "450"] == ["1"]


def test_without_phases_there_are_no_rows_of_them(tmp_path):
    assert load_phases(tmp_path) == []


def test_other_payloads_have_rows_where_several_loads_were_tried(tmp_path):
    loads = {(18, 64): (100, 200), (82, 128): (200,), (1472, 1518): (500, 600)}
    write_by_payload(tmp_path / "tables" / "by-payload.csv", loads)
    rows = rows_of(payload_rows(load_payloads(tmp_path)))
    assert [row[:2] for row in rows] == [["64", "100"], ["64", "200"]]
    assert rows[0][2:6] == ["99.9", "3/3", "2.000", "[1.500,~2.500]"]
    assert payload_rows([]) == ""
