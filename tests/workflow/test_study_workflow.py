"""Studies through Snakemake on this machine."""

import pandas as pd
import pytest
from repository_copy import run_snakemake
from study_repository import copy_for_studies

STUDY = """\
description: As small as can be
duration_s: 0.01
replications: 2
points_per_job: 3
measure: {kind: loss}
base: {rate_mbps: 900, stall_length_ms: 2, stall_interval_ms: 2, receive_buffer_bytes: 20000}
parts:
  only:
    factors: {configuration: [control, frer]}
"""
TABLE = "results/studies/small/study.csv"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    copy = copy_for_studies(tmp_path_factory.mktemp("repository"))
    (copy / "config" / "studies" / "small.yaml").write_text(STUDY, encoding="utf-8")
    done = snakemake(copy)
    assert done.returncode == 0, done.stdout[-4000:]
    return copy


def snakemake(repository, *arguments, study="small"):
    rules = ["--snakefile", "workflow/rules/study.smk", "--cores", "2"]
    chosen = ["study", "--config", f"study={study}"]
    return run_snakemake(repository, *rules, *chosen, *arguments, seconds=600)


def test_every_point_is_in_the_table(repository):
    table = pd.read_csv(repository / TABLE)
    assert table["point"].tolist() == [0, 1, 2, 3]
    assert table["configuration"].tolist() == ["control"] * 2 + ["frer"] * 2


def test_a_second_run_does_nothing_and_a_changed_study_is_computed_again(repository):
    assert "Nothing to be done" in snakemake(repository).stdout
    before = (repository / TABLE).read_bytes()
    path = repository / "config" / "studies" / "small.yaml"
    path.write_text(STUDY.replace("rate_mbps: 900", "rate_mbps: 800"), encoding="utf-8")
    done = snakemake(repository)
    assert done.returncode == 0, done.stdout[-4000:]
    assert (repository / TABLE).read_bytes() != before


def test_a_study_that_is_not_there_is_named(repository):
    done = snakemake(repository, study="smal")
    assert done.returncode != 0
    assert "config/studies/smal.yaml" in done.stdout
    assert "small" in done.stdout
