"""The audit of a record as a whole, on the terminal and as data frames."""

import io
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import synthetic_record
import yaml
from outside_files import PUBLIC_SET, needs_public_set
from rich.console import Console
from run_folders import result, write_run

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.common.repository import root
from tsnrepro.published import documents as published
from tsnrepro.published.audit import accept, audit_campaign, print_audit, run_audit, summary
from tsnrepro.published.checks import MEASURED_CHECKS, load_checks
from tsnrepro.published.claims import Verdict

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def record():
    return run_audit({})


@pytest.fixture
def campaign(tmp_path):
    """Write a sound record as a campaign leaves it, and return its runs."""
    tables = synthetic_record.tables()
    values = tables["values"]
    results = [
        result(key, *(values[c][n] for c in ("value", "low", "high")), trials=["t"] * count)
        for n, (key, count) in enumerate(zip(values["trial"], values["trials"], strict=True))
    ]
    return {
        name: write_run(tmp_path, name, results if name == "loss" else (), {name: tables[name]})
        for name in ("loss", "tcp", "latency")
    }


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
    tables = published.catalog()
    for finding in record.findings:
        cell = tables.cell(f"{finding.source}/{finding.table}/{finding.row}/{finding.column}")
        assert cell.origin


def test_a_sound_campaign_has_no_findings(campaign, tmp_path):
    result = audit_campaign("model", "quick", tmp_path)
    assert [run.experiment for run in result.runs] == ["latency", "loss", "tcp"]
    assert result.findings == ()
    assert result.missing == ()
    assert len(result.checks) == len(load_checks(MEASURED_CHECKS).checks)
    assert result.name == "model/quick"
    assert "0 findings of" in summary(result)


def test_a_defect_in_a_campaign_is_found_in_its_file(campaign):
    path = campaign["latency"] / "tables" / "latency.parquet"
    columns = pyarrow.parquet.read_table(path).to_pydict()
    columns["max_us"][4] = 1.0
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    result = run_audit(campaign)
    assert {finding.row for finding in result.findings} == {columns["trial"][4]}
    assert {finding.source for finding in result.findings} == {"model/quick"}


def test_checks_of_what_was_not_measured_had_nothing_to_look_at(campaign):
    result = run_audit({"tcp": campaign["tcp"]})
    compared = {check.id for check in result.checks} - {entry.check for entry in result.idle}
    assert compared == {check.id for check in result.checks if check.id.startswith("tcp-")}
    assert result.missing == ()
    assert f"{len(result.idle)} had no rows to compare" in summary(result)


def test_experiments_of_several_testbeds_are_one_audit(campaign, tmp_path):
    ratio = [result("shaping.long_cycle.tas.idle.mean.us", 20.0, 19.0, 21.0, "us")]
    shaping = write_run(tmp_path, "shaping", ratio, testbed="guest")
    audit = run_audit({**campaign, "shaping": shaping})
    assert audit.name == "model/quick and guest/quick"
    origins = {origin for judgement in audit.judgements for origin in judgement.origins}
    assert origins == {"simulated on model/quick", "measured on guest/quick"}


def test_a_campaign_that_was_not_run_is_refused(tmp_path):
    with pytest.raises(RecordError, match=r"no analysed experiments.*testbed=emulated"):
        audit_campaign("emulated", "quick", tmp_path)
    with pytest.raises(RecordError, match="no results of tcp"):
        run_audit({"tcp": tmp_path})


def test_a_data_set_that_is_not_there_is_refused(campaign, tmp_path):
    with pytest.raises(RecordError, match="no such folder"):
        run_audit({}, third_party=tmp_path / "nowhere")
    with pytest.raises(RecordError, match="not the data set 'public-set'"):
        run_audit({}, third_party=tmp_path)
    with pytest.raises(ConfigurationError, match="not with a testbed"):
        run_audit(campaign, third_party=tmp_path)


@needs_public_set
def test_the_public_set_adds_its_findings(record):
    both = run_audit({}, third_party=PUBLIC_SET)
    assert both.findings[: len(record.findings)] == record.findings
    assert {f.source for f in both.findings} > {f.source for f in record.findings}
    assert both.missing == ()
    assert [j.verdict for j in both.judgements] == [j.verdict for j in record.judgements]


def test_a_part_of_the_data_set_gives_an_exit_status_and_a_sentence(tmp_path):
    folder = tmp_path / "experimental_data"
    folder.mkdir()
    table = "Frame_Size_Bytes,Payload_Bytes,Zero_Loss_Mbps,PPS\n64,18,20.51,142430\n"
    (folder / "rfc2544_zero_loss.csv").write_text(table, encoding="utf-8")
    command = [sys.executable, "-m", "tsnrepro.cli", "audit", "--foreign", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 1
    assert "checks could not run" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_tables_fit_the_terminal(record, campaign, width):
    for audit in (record, run_audit(campaign)):
        lines = printed(audit, width)
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
    assert set(claims["verdict"]) == set(Verdict)
    assert findings.loc[findings["check"] == "ffo-link-failure", "second_value"].tolist() == [50]


def test_verdicts_can_be_accepted_into_a_copy_of_the_record(record, tmp_path):
    changes = accept(record, tmp_path)
    assert len(changes) == len(record.judgements)
    assert accept(record, tmp_path) == []


def test_an_audit_after_the_first_costs_less_than_reading_its_files_as_plain_yaml(record):
    started = time.process_time()
    run_audit({})
    audited = time.process_time()
    for file in root().glob("data/published/*.yaml"):
        yaml.load(file.read_bytes(), yaml.SafeLoader)
    assert audited - started < 1.5 * (time.process_time() - audited)


def test_reading_the_record_needs_none_of_the_slow_libraries():
    code = (
        "import sys; from tsnrepro.published import audit, documents; "
        "data = documents.catalog(); "
        "data.cell('frer-udp/table-4-2/single-path/zero_loss_threshold_mbps'); "
        "sys.exit(', '.join({'pandas', 'scipy', 'statsmodels', 'pyarrow'} & set(sys.modules)) or 0)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=REPOSITORY
    )
    assert found.returncode == 0, found.stderr
