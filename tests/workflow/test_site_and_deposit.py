"""``snakemake site`` and ``snakemake deposit`` on a short campaign of the model, then verified."""

import re
import shutil
import subprocess
import sys

import pytest
from repository_copy import copy_of_repository, environment_of, snakemake

CAMPAIGN = "description: A short experiment\ntcp: {repetitions: 3, durations_s: [1, 2]}\n"
NAME = "model-short"

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    copy = copy_of_repository(tmp_path_factory.mktemp("deposit"))
    (copy / "config/campaigns/short.yaml").write_text(CAMPAIGN, encoding="utf-8")
    done = snakemake(copy, "--", "deposit", campaign="short", testbed="model")
    assert done.returncode == 0, done.stdout[-6000:]
    return copy


def verify(repository, archive):
    return subprocess.run(
        [sys.executable, "-m", "tsnrepro.cli", "verify", str(archive)],
        cwd=repository,
        env=environment_of(repository),
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_site_is_made_on_the_way(repository):
    report = repository / "results" / "reports" / NAME
    for page in ("index", "tcp", "trials/tcp", "notebooks/tcp", "published", "provenance"):
        assert (report / f"{page}.html").is_file()
    done = snakemake(repository, "--", "site", campaign="short", testbed="model")
    assert done.returncode == 0, done.stdout[-6000:]
    assert "Nothing to be done" in done.stdout


def test_the_archive_is_verified_and_one_byte_refused(repository):
    archive = repository / "results" / "deposits" / f"tsnrepro-{NAME}.tar.gz"
    done = verify(repository, archive)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "record sound" in done.stdout
    assert "0 different" in done.stdout
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    archive.write_bytes(data)
    done = verify(repository, archive)
    assert done.returncode == 1
    assert "Download the archive again" in done.stderr


def test_a_dry_run_says_what_is_recorded_and_changes_no_file(repository):
    """Where results were copied: they are older than the files that they are made from."""

    def times():
        found = [path for name in ("results", "data") for path in (repository / name).rglob("*")]
        return {path: path.lstat().st_mtime_ns for path in found}

    for path in ("config/campaigns/short.yaml", "notebooks/analyse/tcp.ipynb"):
        (repository / path).touch()
    before = times()
    values = "results/model/short/tcp/values.json"
    done = snakemake(repository, "--dry-run", "--", values, campaign="short", testbed="model")
    assert done.returncode == 0, done.stdout[-6000:]
    assert re.search(r"^tcp +model +(\d+) +\1 +0 +0 s", done.stdout, re.MULTILINE), done.stdout
    assert "Nothing to be done" in done.stdout
    assert times() == before


def test_an_edited_page_is_refused_and_the_remedy_makes_it_again(repository):
    page = repository / "results" / "reports" / NAME / "ledger.html"
    page.write_text("edited", encoding="utf-8")
    done = snakemake(repository, "--dry-run", campaign="short", testbed="model")
    assert done.returncode != 0
    assert "the file is not what the workflow wrote" in done.stdout
    page.with_name("ledger.sha256").unlink()
    done = snakemake(repository, campaign="short", testbed="model")
    assert done.returncode == 0, done.stdout[-6000:]
    assert page.read_text(encoding="utf-8") != "edited"


def test_a_run_that_was_deleted_is_measured_again(repository):
    for folder in ("results", "data/raw"):
        shutil.rmtree(repository / folder / "model" / "short" / "tcp")
    done = snakemake(repository, "--dry-run", campaign="short", testbed="model")
    assert done.returncode == 0, done.stdout[-6000:]
    assert re.search(r"^measure +1$", done.stdout, re.MULTILINE), done.stdout
