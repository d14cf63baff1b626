"""What a record consists of, damaged in ten thousand ways: a clear error, or a right result.

A damaged document of a trial goes with checksums that fit it: a deposit may come from anywhere.
"""

import hashlib
import json

import pytest
from analysed_run import Run
from damage import NUMBERS, damaged_bytes, damaged_json_file, read_each, read_each_file

from tsnrepro.imports.manifest import imported_experiments, imported_manifest, imports_of
from tsnrepro.records.integrity import changed_files, raise_first, verify_run
from tsnrepro.records.store import DOCUMENT, SUMS, open_run, recorded_trials
from tsnrepro.records.values import load_file


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def sums_of(folder):
    """Return the list of checksums of a trial's files."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    digests = [(hashlib.sha256(path.read_bytes()).hexdigest(), path.name) for path in files]
    return "".join(f"{digest}  {name}\n" for digest, name in digests).encode()


@pytest.mark.parametrize("number", NUMBERS)
def test_documents_of_trials(run, number):
    folder = run.trials[0]
    document = folder / DOCUMENT
    sound = document.read_bytes()

    def read(content):
        document.write_bytes(content)
        (folder / SUMS).write_bytes(sums_of(folder))
        problems = list(verify_run(run.folder))
        assert all(isinstance(str(problem), str) for problem in problems)
        assert problems or content == sound
        run.store.read(folder)

    assert read_each(damaged_json_file(sound, number), read, names=folder.name)


@pytest.mark.parametrize("number", NUMBERS)
def test_lists_of_checksums(run, number):
    folder = run.trials[0]
    sound = (folder / SUMS).read_bytes()
    inputs = damaged_bytes(sound, number)
    assert read_each_file(inputs, folder / SUMS, lambda: run.store.read(folder), folder.name)


@pytest.mark.parametrize("name", ["/dev/zero", "../../../../../../../../dev/zero", "..", "", "\0"])
def test_a_checksum_of_a_file_elsewhere_is_refused(run, name):
    sums = run.trials[0] / SUMS
    sums.write_text(f"{sums.read_text()}{'0' * 64}  {name}\n")
    with pytest.raises(Exception, match="the list of checksums was altered"):
        run.store.read(run.trials[0])


@pytest.mark.parametrize("number", NUMBERS)
def test_facts_of_testbeds(run, number):
    digest = run.environment.stem
    inputs = damaged_json_file(run.environment.read_bytes(), number)
    assert read_each_file(inputs, run.environment, lambda: run.store.environment(digest))


@pytest.mark.parametrize("number", NUMBERS)
def test_manifests_of_runs(run, number):
    path = run.folder / "run.json"

    def read():
        problems = list(verify_run(run.folder))
        raise_first([one for one in changed_files(run.folder) if "run.json" in one.where])
        if not problems:
            list(recorded_trials(path))

    def opened():
        open_run(path)
        read()

    assert read_each_file(damaged_json_file(path.read_bytes(), number), path, opened)


@pytest.mark.parametrize("number", NUMBERS)
def test_seals(run, number):
    path = run.folder / "seal.json"

    def read():
        for look in (changed_files, verify_run):
            problems = list(look(run.folder))
            assert all(isinstance(str(problem), str) for problem in problems)

    assert read_each_file(damaged_json_file(path.read_bytes(), number), path, read)


RESULT = {
    **{"key": "loss.frer.mean", "value": 0.5, "low": 0.25, "high": 0.75, "unit": "%", "digits": 2},
    **{"method": "bootstrap", "run": "loss", "trials": ["a-r1", "b-r1"], "sha256": "0" * 64},
}


@pytest.mark.parametrize("number", NUMBERS)
def test_values(tmp_path, number):
    path = tmp_path / "values.json"
    sound = json.dumps([RESULT, RESULT | {"key": "loss.trials.count", "value": 3}]).encode()
    assert read_each_file(damaged_json_file(sound, number), path, lambda: load_file(path))


ENTRY = {"trial": "frer-r1-0123456789-a1", "sha256": "0" * 64}
MARK = {
    "testbed": "desk",
    "imports": [
        {
            **{"time": "2026-01-01T00:00:00", "folder": "data", "mapping": {"name": "m"}},
            **{"files": {}, "environment": "0123456789abcdef", "generated": False},
            **{"trials": {"loss": [ENTRY]}, "failed": {"loss": [ENTRY | {"reason": "none"}]}},
        }
    ],
}


@pytest.mark.parametrize("number", NUMBERS)
def test_manifests_of_imports(tmp_path, number):
    path = tmp_path / "desk" / "import.json"
    path.parent.mkdir()

    def read():
        if imports_of(tmp_path, "desk") and "loss" in imported_experiments(tmp_path, "desk"):
            imported_manifest(tmp_path, "desk", "loss")

    inputs = damaged_json_file(json.dumps(MARK).encode(), number)
    assert read_each_file(inputs, path, read)
