"""What a campaign says on the terminal: the experiments, how long still, and every error."""

import io
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path

from pseudo_terminal import said_to

from tsnrepro.workflow import campaign_output
from tsnrepro.workflow.campaign_output import EXPECTED, STOPPING, CampaignOutput

SNAKEFILE = """
rule all:
    input: "results/model/quick/loss/run.json", "results/papers/one/one.pdf",

rule measure:
    output: "results/{testbed}/{campaign}/{experiment}/run.json"
    log: "results/{testbed}/{campaign}/{experiment}/measure.ipynb"
    shell: "touch {output}"

rule paper:
    output: "results/papers/{paper}/{paper}.pdf"
    log: "results/papers/{paper}/latexmk.log"
    shell: "echo the reason it failed >&2; test ! -e broken && touch {output}"
"""


def snakemake(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "Snakefile").write_text(SNAKEFILE, encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--keep-going", *options]
    return subprocess.run(
        [*command, "--logger", "tsnrepro"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_a_run_says_what_was_measured_and_printed_and_nothing_of_its_jobs(tmp_path):
    done = snakemake(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "loss on model: measured in" in done.stdout
    assert "(1 of 1)" in done.stdout
    assert "paper one: built" in done.stdout
    assert "Select jobs" not in done.stdout
    assert "\x1b" not in done.stdout
    assert len(done.stdout.splitlines()) < 15, done.stdout
    assert "Nothing to be done" in snakemake(tmp_path).stdout


def test_what_fails_is_named_with_its_log_and_its_own_words(tmp_path):
    (tmp_path / "broken").touch()
    done = snakemake(tmp_path)
    assert done.returncode != 0
    assert "paper one: FAILED; see results/papers/one/latexmk.log" in done.stdout
    assert "the reason it failed" in done.stdout
    assert "loss on model: measured" in done.stdout


def test_an_error_in_the_rules_is_shown(tmp_path):
    done = snakemake(tmp_path, "no-such-target")
    assert done.returncode != 0
    assert "no-such-target" in done.stdout


def test_who_asks_for_details_gets_snakemakes_own(tmp_path):
    done = snakemake(tmp_path, "--dry-run", "--printshellcmds")
    assert "touch results/model/quick/loss/run.json" in done.stdout


def record(event=None, level=logging.INFO, said="", **attributes):
    made = logging.LogRecord("snakemake", level, "", 0, said, None, None)
    made.__dict__.update({"event": event, **attributes})
    return made


def begun(number, experiment, testbed="emulated", rule="measure"):
    wildcards = {"testbed": testbed, "campaign": "quick", "experiment": experiment}
    return record("job_info", jobid=number, rule_name=rule, wildcards=wildcards, log=[])


def test_what_is_left_is_the_nominal_rest_scaled_by_what_was(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(campaign_output.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    output = CampaignOutput(stream)
    names = [("emulated", "quick", name) for name in ("loss", "tcp", "latency")]
    expected = dict(zip(names, (60.0, 120.0, 240.0), strict=True))
    output.handle_event(record("run_info", stats={"measure": 3, "total": 9}))
    output.handle_event(record(**{EXPECTED: expected}))
    output.handle_event(begun(1, "loss"))
    now[0] += 90
    output.handle_event(record("job_finished", job_id=1))
    output.handle_event(begun(2, "tcp"))
    now[0] += 180
    output.handle_event(record("job_finished", job_id=2))
    said = stream.getvalue().splitlines()
    assert said[0] == "tsnrepro: experiments to measure: 3, steps: 3"
    assert said[-2:] == [
        "loss on emulated: measured in 1 min 30 s (1 of 3, about 8 min 0 s of measuring left)",
        "tcp on emulated: measured in 3 min 0 s (2 of 3, about 5 min 43 s of measuring left)",
    ]


def test_a_grid_is_measured_from_its_first_part_on(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(campaign_output.time, "monotonic", lambda: now[0])
    output = CampaignOutput(stream := io.StringIO())
    output.handle_event(record("run_info", stats={"measure": 1, "measure_part": 2, "total": 3}))
    for number, rule in enumerate(("measure_part", "measure_part", "measure")):
        output.handle_event(begun(number, "loss", "model", rule))
        now[0] += 30
        output.handle_event(record("job_finished", job_id=number))
    assert stream.getvalue().splitlines() == [
        "tsnrepro: experiments to measure: 1, parts of grids: 2, steps: 3",
        "loss on model: measured in 1 min 30 s (1 of 1)",
    ]


def test_one_testbed_says_nothing_of_another(monkeypatch):
    """A model that takes ten times its few seconds does not make the rest ten times as long."""
    now = [0.0]
    monkeypatch.setattr(campaign_output.time, "monotonic", lambda: now[0])
    output = CampaignOutput(stream := io.StringIO())
    runs = {("model", "quick", "loss"): 1.0, ("emulated", "quick", "loss"): 60.0}
    output.handle_event(record("run_info", stats={"measure": 2, "total": 4}))
    output.handle_event(record(**{EXPECTED: runs}))
    output.handle_event(begun(1, "loss", "model"))
    now[0] += 10
    output.handle_event(record("job_finished", job_id=1))
    last = stream.getvalue().splitlines()[-1]
    assert last.endswith("(1 of 2, about 1 min 0 s of measuring left)")


def test_what_is_measured_at_once_takes_its_time_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(campaign_output.time, "monotonic", lambda: now[0])
    output = CampaignOutput(stream := io.StringIO())
    names = [("model", "quick", name) for name in ("loss", "tcp", "latency")]
    output.handle_event(record("run_info", stats={"measure": 3, "total": 9}))
    output.handle_event(record(**{EXPECTED: dict.fromkeys(names, 60.0)}))
    output.handle_event(begun(1, "loss", "model"))
    now[0] += 10
    output.handle_event(begun(2, "tcp", "model"))
    now[0] += 30
    for number in (1, 2):
        output.handle_event(record("job_finished", job_id=number))
    last = stream.getvalue().splitlines()[-1]
    # Two took 40 s together in place of 120.
    assert last == "tcp on model: measured in 30 s (2 of 3, about 28 s of measuring left)"


def test_warnings_and_unknown_sentences_are_passed_on():
    stream = io.StringIO()
    output = CampaignOutput(stream)
    output.handle_event(record(said="Building DAG of jobs..."))
    output.handle_event(record(said="something new"))
    output.handle_event(record(level=logging.WARNING, said="a warning"))
    output.handle_event(record("error", level=logging.ERROR, said="an error"))
    assert stream.getvalue().splitlines() == ["something new", "a warning", "an error"]


def test_on_a_terminal_one_line_is_written_over():
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as stream:
        output = CampaignOutput(stream)
        output.handle_event(begun(1, "loss"))
        output.handle_event(record("job_finished", job_id=1))
        said = said_to(ours, until="measured")
    os.close(ours)
    assert said.startswith("\r\x1b[Kloss on emulated: preparing\r\x1b[Kloss on emulated: measured")


def test_what_was_stopped_is_not_said_to_have_failed():
    stream = io.StringIO()
    output = CampaignOutput(stream)
    run = {"testbed": "model", "campaign": "short", "experiment": "tcp"}
    for fields in (
        {"event": "job_info", "jobid": 1, "rule_name": "measure", "wildcards": run},
        {"levelno": logging.INFO, "msg": "tsnrepro: stopping", STOPPING: True},
        {"levelno": logging.ERROR, "msg": "RuleException: exit status 1"},
        {"event": "job_error", "jobid": 1, "log": ["measure.ipynb"]},
    ):
        output.handle_event(logging.makeLogRecord(fields))
    assert stream.getvalue() == "tsnrepro: stopping\ntcp on model: stopped\n"
