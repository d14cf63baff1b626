"""The audit of a record as a whole, on the terminal and as data frames."""

import io
import json
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import synthetic_record
from rich.console import Console

from tsnrepro.audit import published
from tsnrepro.audit.checks import MEASURED_CHECKS, load_checks
from tsnrepro.audit.report import accept, print_audit, run_audit, summary
from tsnrepro.errors import RecordError

REPOSITORY = Path(__file__).resolve().parents[2]
PUBLIC_SET = REPOSITORY.parent / "shared" / "public-data" / "d10test"
needs_public_set = pytest.mark.skipif(
    not PUBLIC_SET.is_dir(), reason=f"public data set not at hand ({PUBLIC_SET})"
)


@pytest.fixture(scope="module")
def record():
    return run_audit("published", "", Path("results"))


@pytest.fixture
def campaign(tmp_path):
    """Write a sound record as a campaign leaves it, and return its results folder."""
    folder = tmp_path / "model" / "quick"
    (folder / "tables").mkdir(parents=True)
    (folder / "values").mkdir()
    tables = synthetic_record.tables()
    for name in ("sweep", "tcp", "latency"):
        pyarrow.parquet.write_table(
            pyarrow.table(tables[name]), folder / "tables" / f"{name}.parquet"
        )
    values = tables["values"]
    entries = [
        {
            "key": key,
            "value": values["value"][n],
            "unit": "",
            "low": values["low"][n],
            "high": values["high"][n],
            "method": "made up",
            "trials": [f"t{t}" for t in range(values["trials"][n])],
            "run": "r",
        }
        for n, key in enumerate(values["trial"])
    ]
    (folder / "values" / "all.json").write_text(json.dumps(entries), encoding="utf-8")
    return tmp_path


def printed(result, width):
    """Return what the terminal shows, line by line."""
    stream = io.StringIO()
    print_audit(result, Console(file=stream, width=width, force_terminal=False))
    return stream.getvalue().splitlines()


def columns_taken(line):
    """Return how many columns a line takes; Korean characters take two each."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def test_the_audit_of_the_record_covers_all_documents(record):
    assert {finding.source for finding in record.findings} == {
        "frer-fail-operational",
        "methodology",
        "frer-udp",
        "tas-i210-i225",
        "software-bridge",
    }
    assert record.name == "published"
    assert record.not_run == ()
    assert all(finding.place and finding.formula for finding in record.findings)


def test_findings_name_a_cell_that_exists(record):
    for finding in record.findings:
        cell = published.cell(finding.source, finding.table, finding.row, finding.column)
        assert cell.origin


def test_a_sound_campaign_has_no_findings(campaign):
    result = run_audit("model", "quick", campaign)
    assert result.findings == ()
    assert result.not_run == ()
    assert len(result.checks) == len(load_checks(MEASURED_CHECKS).checks)
    assert result.name == "model/quick"
    assert "0 findings of" in summary(result)


def test_a_defect_in_a_campaign_is_found_in_its_file(campaign):
    path = campaign / "model" / "quick" / "tables" / "latency.parquet"
    columns = pyarrow.parquet.read_table(path).to_pydict()
    columns["max_us"][4] = 1.0
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    result = run_audit("model", "quick", campaign)
    assert {finding.row for finding in result.findings} == {columns["trial"][4]}
    assert {finding.source for finding in result.findings} == {"model/quick"}


def test_tables_that_are_missing_are_checks_not_run(campaign):
    (campaign / "model" / "quick" / "tables" / "tcp.parquet").unlink()
    result = run_audit("model", "quick", campaign)
    assert {entry.check for entry in result.not_run} == {
        check.id for check in result.checks if check.id.startswith("tcp-")
    }


def test_a_campaign_that_was_not_run_is_refused(tmp_path):
    with pytest.raises(RecordError, match=r"nothing is measured.*testbed=emulated"):
        run_audit("emulated", "quick", tmp_path)


@needs_public_set
def test_the_public_set_adds_its_findings(record):
    both = run_audit("published", "", Path("results"), foreign=PUBLIC_SET)
    assert both.findings[: len(record.findings)] == record.findings
    assert {f.source for f in both.findings} > {f.source for f in record.findings}
    assert both.not_run == ()
    assert [j.verdict for j in both.judgements] == [j.verdict for j in record.judgements]


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_tables_fit_the_terminal(record, campaign, width):
    for result in (record, run_audit("model", "quick", campaign)):
        lines = printed(result, width)
        assert max(map(columns_taken, lines)) <= width


def test_the_terminal_shows_numbers_places_and_counts(record):
    text = " ".join(" ".join(printed(record, 160)).split())
    for shown in ("Table 8, row 64 bytes, Max (μs)", "121.18", "106.50", "(and 6 more)"):
        assert shown in text
    assert summary(record).split("\n")[0].split(":")[1].strip().split("(")[0] in text


def test_findings_and_claims_become_data_frames(record):
    findings, claims = record.findings_frame(), record.claims_frame()
    assert len(findings) == len(record.findings)
    assert len(claims) == len(record.judgements)
    assert set(claims["verdict"]) == {"supported", "contradicted", "cannot tell"}
    assert findings.loc[findings["check"] == "ffo-link-failure", "second_value"].tolist() == [50]


def test_verdicts_can_be_accepted_into_a_copy_of_the_record(record, tmp_path):
    changes = accept(record, tmp_path)
    assert len(changes) == len(record.judgements)
    assert accept(record, tmp_path) == []


def test_an_audit_takes_well_under_a_second_after_the_first(record):
    started = time.perf_counter()
    run_audit("published", "", Path("results"))
    assert time.perf_counter() - started < 0.5


def test_reading_the_record_needs_none_of_the_slow_libraries():
    code = (
        "import sys; from tsnrepro.audit import report, tables; "
        "data = tables.Catalog(tables.published_sources()); "
        "data.cell('frer-udp/table-4-2/single-path/zero_loss_threshold_mbps'); "
        "sys.exit(', '.join({'pandas', 'scipy', 'statsmodels', 'pyarrow'} & set(sys.modules)) or 0)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=REPOSITORY
    )
    assert found.returncode == 0, found.stderr
