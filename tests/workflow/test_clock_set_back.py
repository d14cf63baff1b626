"""A clock that is set back by a day: nothing is measured twice, and an edit is not passed over."""

import json
import os

import pytest
from repository_copy import copy_of_repository, snakemake

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DAY_NS = 86_400_000_000_000
PRINTED = "tsnrepro: results/reports/"
CAMPAIGN = "description: Two trials\npapers: false\ntcp: {{repetitions: {0}, durations_s: [1]}}\n"


def test_the_next_run_goes_on(tmp_path):
    copy = copy_of_repository(tmp_path / "copy")
    campaign = copy / "config/campaigns/short.yaml"
    results = copy / "results/model/short/tcp"

    def run(*arguments):
        done = snakemake(copy, *arguments, campaign="short", testbed="model")
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    def trials():
        items = json.loads((results / "values.json").read_text(encoding="utf-8"))
        (found,) = [i for i in items if i["key"] == "tcp.goodput.control.mbps"]
        return found["trials"]

    campaign.write_text(CAMPAIGN.format(2), encoding="utf-8")
    assert PRINTED in run()
    assert len(trials()) == 2
    for folder in ("results", "data/raw", ".snakemake"):
        for path in (copy / folder).rglob("*"):
            stamp = path.lstat().st_mtime_ns + DAY_NS
            os.utime(path, ns=(stamp, stamp), follow_symlinks=False)
    recorded = sorted((copy / "data/raw/model/short/tcp").iterdir())

    assert "the clock was set back" in run()
    assert sorted((copy / "data/raw/model/short/tcp").iterdir()) == recorded
    campaign.write_text(CAMPAIGN.format(3), encoding="utf-8")
    # As one that ends before its analysis: it makes no report, and names none that is there.
    assert PRINTED not in run("--", "measurements")
    assert len(trials()) == 2
    assert "the clock was set back" not in run()
    assert len(trials()) == 3
