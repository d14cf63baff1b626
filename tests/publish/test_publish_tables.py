import re

import pytest
from invented_results import write_summary

from tsnrepro.publish.errors import PublishError
from tsnrepro.publish.manuscript import scan_text
from tsnrepro.publish.tables import load_loss_summary, loss_rows, published_loss, sweep_rows

SUMMARY = "tables/summary.csv"


@pytest.fixture
def rows(tmp_path):
    write_summary(tmp_path / SUMMARY, rates=(300, 400, 535, 900))
    text = loss_rows(load_loss_summary(tmp_path), published_loss("frer-udp"))
    cells = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines()]
    return {row[0]: row[1:] for row in cells}


def test_every_row_has_all_columns_in_order_of_load(rows):
    assert {len(row) for row in rows.values()} == {10}
    assert list(rows) == sorted(rows, key=float)


def test_published_and_measured_loads_are_joined(rows):
    # 400 and 535 Mb/s are in both, 398 is published only, 900 measured only.
    assert rows["400"][0] == r"\pubto{4}{table-a-2/single-path-400/loss_percent}"
    assert rows["400"][2:5] == ["399.9", "0/3", "0.000"]
    assert rows["535"][1] == r"\pubto{4}{table-a-2/frer-535/loss_percent}"
    assert rows["398"][2:] == ["--"] * 8
    assert rows["900"][:2] == ["--", "--"]
    assert rows["900"][2:6] == ["899.9", "3/3", "4.500", "[3.150,~5.850]"]


def test_every_published_load_is_there(rows):
    assert {"390", "395", "398", "399", "400", "520", "525", "530", "535", "540"} <= set(rows)


def test_a_failed_connection_is_called_so(rows):
    assert rows["540"][1] == r"\publink{table-a-2/frer-540/outcome}{failed}"


def test_unknown_limits_print_as_such(tmp_path):
    write_summary(tmp_path / SUMMARY, rates=(500,), known=False)
    text = loss_rows(load_loss_summary(tmp_path), {})
    assert re.search(r"0\.500 & -- & ", text)


def test_a_missing_file_and_column_are_named(tmp_path):
    with pytest.raises(PublishError, match=r"summary\.csv"):
        load_loss_summary(tmp_path)
    write_summary(tmp_path / SUMMARY)
    path = tmp_path / SUMMARY
    path.write_text(path.read_text().replace("trials_with_loss", "losses"))
    with pytest.raises(PublishError, match="trials_with_loss"):
        load_loss_summary(tmp_path)


# --- the sweep with FRER, beside Table 6 -------------------------------------------------------

FAIL_OPERATIONAL = "frer-fail-operational"


@pytest.fixture
def sweep(tmp_path):
    write_summary(tmp_path / SUMMARY, rates=(300, 400, 550, 900))
    return load_loss_summary(tmp_path)


def by_load(text):
    cells = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines()]
    return {row[0]: row[1:] for row in cells}


def test_the_sweep_joins_published_measured_and_simulated(sweep):
    rows = by_load(sweep_rows(sweep, sweep[:-1], FAIL_OPERATIONAL))
    assert {len(row) for row in rows.values()} == {9}
    assert list(rows) == sorted(rows, key=float)
    assert (
        rows["550"][1] == r"\pubrange{table-6/550/loss_low_percent}{table-6/550/loss_high_percent}"
    )
    assert rows["550"][2] == r"\wordpub{table-6/550/zone}"
    assert rows["300"][:3] == ["--"] * 3
    assert rows["520"][3:] == ["--"] * 6
    assert rows["900"][3:7] == ["899.9", "3/3", "4.500", "[3.150,~5.850]"]
    # The model was not asked at 900 Mb/s.
    assert rows["900"][7:] == ["--"] * 2
    assert rows["550"][7:] == rows["550"][5:7]


def test_a_model_alone_has_no_second_column(sweep):
    rows = by_load(sweep_rows(sweep, None, FAIL_OPERATIONAL))
    assert {len(row) for row in rows.values()} == {7}


def test_cells_of_a_range_are_found_by_reading():
    used = scan_text(r"\pubrange{table-6/550/loss_low_percent}{table-6/550/loss_high_percent}", "a")
    assert set(used.published) == {
        "table-6/550/loss_low_percent",
        "table-6/550/loss_high_percent",
    }
