"""The raw store: trials are read as written, whole or not at all, and never change."""

import builtins
import errno
import gzip
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsnrepro.common.errors import RecordError
from tsnrepro.records.files import PARTIAL_PREFIX, Batch, canonical_json, write_and_sync
from tsnrepro.records.store import SUMS, RawStore, Trial, trial_files

TRIAL = Trial("loss", "frer-1472B-500M", {"configuration": "frer", "rate_mbps": 500.0}, 2)
DOCUMENT = {"status": "measured", "values": {"sent": 10, "lost": 0}, "label": "frer-1472B-500M"}
OUTPUTS = {"iperf3.json": '{"end": {}}\n', "counters-after.json.gz": "측정 " * 1000}

any_text = st.text(st.characters(exclude_categories=("Cs",)), max_size=200)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)
file_names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}(\.gz)?", fullmatch=True).filter(
    lambda name: name not in ("trial.json", SUMS)
)


@pytest.fixture
def store(tmp_path):
    return RawStore(tmp_path / "raw", "emulated", "quick", "loss")


def visible(store: RawStore) -> list[Path]:
    """Return the folders that look like trials."""
    if not store.folder.is_dir():
        return []
    return sorted(p for p in store.folder.iterdir() if not p.name.startswith("."))


# --- reading and writing ------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    document=st.dictionaries(any_text, json_values, max_size=5),
    outputs=st.dictionaries(file_names, any_text, max_size=4),
)
def test_round_trip(tmp_path_factory, document, outputs):
    store = RawStore(tmp_path_factory.mktemp("raw"), "emulated", "quick", "loss")
    folder = store.put(TRIAL, 1, document, outputs)
    back = store.read(folder)
    assert {key: back[key] for key in document if key not in ("trial", "sha256")} == {
        key: value for key, value in document.items() if key not in ("trial", "sha256")
    }
    assert back["trial"] == folder.name
    assert back["sha256"] == store.sha256(folder)
    assert {name: store.output(folder.name, name) for name in outputs} == outputs
    assert store.attempts(TRIAL) == [folder]


def test_the_checksums_can_be_checked_with_sha256sum(store):
    folder = store.put(TRIAL, 1, DOCUMENT, OUTPUTS)
    assert os.system(f"cd '{folder}' && sha256sum --check --strict --quiet {SUMS}") == 0


def test_equal_content_is_equal_bytes(tmp_path):
    digests = set()
    for name in ("one", "other"):
        store = RawStore(tmp_path / name, "emulated", "quick", "loss")
        digests.add(store.sha256(store.put(TRIAL, 1, DOCUMENT, OUTPUTS)))
    assert len(digests) == 1


def test_a_compressed_output_is_what_gzip_reads(store):
    folder = store.put(TRIAL, 1, DOCUMENT, OUTPUTS)
    data = (folder / "counters-after.json.gz").read_bytes()
    assert gzip.decompress(data).decode() == OUTPUTS["counters-after.json.gz"]
    assert len(data) < len(OUTPUTS["counters-after.json.gz"]) / 10


# --- a trial's name -----------------------------------------------------------------------------


@given(st.dictionaries(any_text, json_values, min_size=1, max_size=5))
def test_the_digest_is_of_the_factors_not_of_their_order(factors):
    backwards = dict(reversed(factors.items()))
    assert Trial("e", "l", factors, 1).digest == Trial("e", "other", backwards, 1).digest


@given(json_values, json_values)
def test_other_factors_other_digest(one, other):
    digests = {Trial("e", "l", {"f": value}, 1).digest for value in (one, other)}
    assert (len(digests) == 1) == (canonical_json(one) == canonical_json(other))


def test_every_part_of_the_identity_counts():
    factors = {"rate_mbps": 500.0}
    trials = [
        Trial("loss", "l", factors, 1),
        Trial("tcp", "l", factors, 1),
        Trial("loss", "l", {"rate_mbps": 500.1}, 1),
        Trial("loss", "l", factors | {"payload_bytes": 64}, 1),
        Trial("loss", "l", factors, 2),
    ]
    assert len({trial.digest for trial in trials}) == len(trials)
    assert trials[0].name(1) != trials[0].name(2)


# --- whole or not at all -----------------------------------------------------------------------


class Interrupter:
    """Raises at the n-th of the calls that write a trial to the disk."""

    CALLS = (
        (os, "fsync"),
        (os, "open"),
        (os, "close"),
        (Path, "rename"),
        (Path, "mkdir"),
        (Path, "open"),
        (Path, "exists"),
        (Path, "write_bytes"),
        (shutil, "rmtree"),
        (builtins, "open"),
    )

    def __init__(self, monkeypatch, at: int, error: BaseException) -> None:
        self.calls, self._at, self._error = 0, at, error
        for owner, name in self.CALLS:
            monkeypatch.setattr(owner, name, self._counting(getattr(owner, name)))

    def _counting(self, function):
        def call(*arguments, **options):
            self.calls += 1
            if self.calls == self._at:
                raise self._error
            return function(*arguments, **options)

        return call


def calls_of(monkeypatch, action) -> int:
    with monkeypatch.context() as accepted_attempt:
        interrupter = Interrupter(accepted_attempt, 0, RuntimeError())
        action()
    return interrupter.calls


def interrupted(monkeypatch, at: int, action, error: BaseException | None = None) -> None:
    """Do ``action`` until its ``at``-th call, which raises."""
    error = error or KeyboardInterrupt()
    with monkeypatch.context() as interrupting:
        Interrupter(interrupting, at, error)
        # The store says where it cannot write.
        with pytest.raises((type(error), RecordError)):
            action()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_interrupted_at_any_call_a_trial_is_there_whole_or_not_at_all(tmp_path, monkeypatch, error):
    def new_store(name: object) -> RawStore:
        return RawStore(tmp_path / str(name), "emulated", "quick", "loss")

    calls = calls_of(monkeypatch, lambda: new_store("count").put(TRIAL, 1, DOCUMENT, OUTPUTS))
    assert calls > 15, "what is interrupted below is not what writes a trial"
    outcomes = set()
    for at in range(1, calls + 1):
        store = new_store(at)
        interrupted(monkeypatch, at, partial(store.put, TRIAL, 1, DOCUMENT, OUTPUTS), error)
        recorded = store.attempts(TRIAL)
        assert visible(store) == recorded
        outcomes.add(len(recorded))
        if not recorded:
            # The next run is not disturbed by what was left, and writes the trial.
            recorded = [store.put(TRIAL, 1, DOCUMENT, OUTPUTS)]
        back = store.read(recorded[0])
        assert {key: back[key] for key in DOCUMENT} == DOCUMENT
        assert {name: store.output(recorded[0].name, name) for name in OUTPUTS} == OUTPUTS
        assert visible(store) == recorded
    assert outcomes == {0, 1}, "the rename is not among the calls that were interrupted"


def test_a_batch_interrupted_at_any_call_holds_whole_trials_only(tmp_path, monkeypatch):
    trials = [Trial("loss", "l", {"rate_mbps": float(rate)}, 1) for rate in (100, 200, 300)]

    def write(store: RawStore) -> None:
        batch = Batch(store.folder)
        for trial in trials:
            batch.folder(store.folder / trial.name(1), trial_files(DOCUMENT, OUTPUTS))
        batch.file(store.root / "original.csv", b"1,2,3\n")
        batch.commit()

    calls = calls_of(
        monkeypatch, lambda: write(RawStore(tmp_path / "count", "emulated", "quick", "loss"))
    )
    for at in range(1, calls + 1):
        store = RawStore(tmp_path / str(at), "emulated", "quick", "loss")
        interrupted(monkeypatch, at, partial(write, store))
        for folder in visible(store):
            assert store.read(folder)["status"] == "measured"
            assert {name: store.output(folder.name, name) for name in OUTPUTS} == OUTPUTS


def test_environments_are_whole_or_not_there(tmp_path, monkeypatch):
    facts = {"kernel": "6.1", "hosts": {"talker": {}}}
    count = RawStore(tmp_path / "count", "emulated", "quick", "loss")
    calls = calls_of(monkeypatch, lambda: count.put_environment(facts))
    for at in range(1, calls + 1):
        store = RawStore(tmp_path / str(at), "emulated", "quick", "loss")
        interrupted(monkeypatch, at, partial(store.put_environment, facts))
        digest = store.put_environment(facts)
        folder = store.root / "emulated" / "environments"
        assert [p.name for p in folder.iterdir()] == [f"{digest}.json"]
        assert digest == count.put_environment(facts)


# --- nothing is overwritten, nothing changes unseen --------------------------------------------


def test_a_recorded_trial_is_not_overwritten(store):
    folder = store.put(TRIAL, 1, DOCUMENT, OUTPUTS)
    before = store.read(folder)
    with pytest.raises(RecordError, match=r"recorded already.*-r2-.*-a1"):
        store.put(TRIAL, 1, DOCUMENT | {"values": {}}, {})
    assert store.read(folder) == before


def test_a_failed_attempt_stays_beside_the_next(store):
    folders = [
        store.put(TRIAL, 1, {"status": "failed", "reason": "no answer"}, {}),
        store.put(TRIAL, 2, DOCUMENT, OUTPUTS),
    ]
    assert store.attempts(TRIAL) == folders
    assert [store.read(folder)["status"] for folder in folders] == ["failed", "measured"]


def test_campaigns_and_experiments_are_separate(tmp_path):
    stores = [
        RawStore(tmp_path, *names)
        for names in (
            ("emulated", "quick", "loss"),
            ("emulated", "quick", "tcp"),
            ("emulated", "documents", "loss"),
            ("guest", "quick", "loss"),
        )
    ]
    stores[0].put(TRIAL, 1, DOCUMENT, {})
    assert [len(store.attempts(TRIAL)) for store in stores] == [1, 0, 0, 0]


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_altered_byte_is_found(tmp_path, data):
    store = RawStore(tmp_path, "emulated", "quick", "loss")
    recorded = store.attempts(TRIAL)
    folder = recorded[0] if recorded else store.put(TRIAL, 1, DOCUMENT, OUTPUTS)
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    original = path.read_bytes()
    place = data.draw(st.integers(0, len(original) - 1))
    change = data.draw(st.integers(1, 255))
    altered = bytearray(original)
    altered[place] ^= change
    path.write_bytes(altered)
    try:
        with pytest.raises(RecordError):
            store.read(folder)
    finally:
        path.write_bytes(original)
    assert store.read(folder)["status"] == "measured"


@pytest.mark.parametrize("name", ["trial.json", SUMS, *OUTPUTS])
def test_a_missing_file_is_named(store, name):
    folder = store.put(TRIAL, 1, DOCUMENT, OUTPUTS)
    (folder / name).unlink()
    with pytest.raises(RecordError, match=rf"missing \(.*/{name}\)"):
        store.read(folder)


@pytest.mark.parametrize("name", ["trial.json", SUMS, *OUTPUTS])
@pytest.mark.parametrize("kept", [0, 20])
def test_a_shortened_file_is_found(store, name, kept):
    folder = store.put(TRIAL, 1, DOCUMENT, OUTPUTS)
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: min(kept, len(data) - 1)])
    with pytest.raises(RecordError):
        store.read(folder)


def test_an_altered_file_is_named_with_what_to_do(store):
    folder = store.put(TRIAL, 1, DOCUMENT, OUTPUTS)
    (folder / "iperf3.json").write_text("{}")
    with pytest.raises(RecordError, match=r"iperf3\.json") as altered:
        store.read(folder)
    assert "Restore it from a copy" in str(altered.value)


def test_what_an_interruption_left_is_not_an_attempt(store):
    left = store.folder / f"{PARTIAL_PREFIX}{TRIAL.name(1)}"
    left.mkdir(parents=True)
    (left / "trial.json").write_text("{")
    assert store.attempts(TRIAL) == []
    folder = store.put(TRIAL, 1, DOCUMENT, OUTPUTS)
    assert sorted(p.name for p in folder.iterdir()) == sorted([*OUTPUTS, "trial.json", SUMS])
    assert not left.exists()


# --- records that are no records ------------------------------------------------------------------


def test_a_document_of_gigabytes_is_refused_before_it_is_read(store):
    folder = store.put(TRIAL, 1, DOCUMENT, OUTPUTS)
    with (folder / "trial.json").open("r+b") as file:
        file.truncate(8 << 30)
    with pytest.raises(RecordError, match=r"over 64 MiB .*trial\.json"):
        store.attempt_statuses(TRIAL)


def test_an_output_of_zeros_is_refused(store):
    zeros = bytes(80 << 20)
    folder = store.put(TRIAL, 1, DOCUMENT, {"zeros.csv.gz": zeros})
    with pytest.raises(RecordError, match="over a hundred times its size"):
        store.output_bytes(folder.name, "zeros.csv.gz")


def test_a_full_disk_is_said_with_the_place_and_the_remedy(store, monkeypatch):
    def full(path, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tsnrepro.records.store.write_and_sync", full)
    told = rf"No space left on device \({store.folder}/frer.*\)\. Free space"
    with pytest.raises(RecordError, match=told):
        store.put(TRIAL, 1, DOCUMENT, OUTPUTS)


def test_a_full_disk_is_named_with_the_file():
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_and_sync(Path("/dev/full"), bytes(100))
