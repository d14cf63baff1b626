"""Chunks and the table: the same bytes from every job, and no chunks of other studies."""

import json

import pandas as pd
import pytest

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.experiments.studies import chunks
from tsnrepro.experiments.studies.study import Study

TABLES = ("study.csv", "study.parquet")


def study(points_per_job=4, **changes):
    values = {
        "description": "test",
        "duration_s": 0.02,
        "replications": 3,
        "points_per_job": points_per_job,
        "measure": {"kind": "loss"},
        "base": {"rate_mbps": 400, "stall_length_ms": 2, "stall_interval_ms": 5},
        "parts": {
            "only": {
                "factors": {
                    "configuration": ["control", "frer"],
                    "receive_buffer_bytes": [50_000, 212_992],
                }
            }
        },
    }
    return Study.model_validate(values | changes)


def compute(made: Study, folder, order=None):
    for number in order or range(made.chunk_count()):
        chunks.write_chunk(made, number, chunks.chunk_path(folder, number))
    assert chunks.collect(made, folder) == len(made.points())
    return {name: (folder / name).read_bytes() for name in TABLES}


def test_tables_do_not_depend_on_the_jobs(tmp_path):
    whole = compute(study(points_per_job=100), tmp_path / "whole")
    single = compute(study(points_per_job=1), tmp_path / "single", order=reversed(range(12)))
    assert whole == single
    table = pd.read_parquet(tmp_path / "whole" / "study.parquet")
    assert table["point"].tolist() == list(range(12))
    assert table["lost"].sum() > 0
    pd.testing.assert_frame_equal(table, pd.read_csv(tmp_path / "whole" / "study.csv"))


def test_local_processes_give_the_same(tmp_path):
    made = study()
    expected = compute(made, tmp_path / "one")
    assert sum(chunks.run_locally(made, tmp_path / "pool", 2)) == 12
    chunks.collect(made, tmp_path / "pool")
    assert {name: (tmp_path / "pool" / name).read_bytes() for name in TABLES} == expected


def test_existing_chunks_are_not_computed_again(tmp_path, monkeypatch):
    made = study()
    compute(made, tmp_path)
    cut = chunks.chunk_path(tmp_path, 1)
    cut.write_text(cut.read_text(encoding="utf-8")[:-50], encoding="utf-8")
    assert [chunks.is_computed(made, tmp_path, number) for number in range(3)] == [
        True,
        False,
        True,
    ]
    other = made.model_copy(update={"seed": 9})
    assert not chunks.is_computed(other, tmp_path, 0)
    monkeypatch.setattr("tsnrepro.model.compiled.SOURCE_DIGEST", 1)
    assert not chunks.is_computed(made, tmp_path, 0)


def test_a_job_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "compute_chunk", lambda *_: {"rows": [float("nan")]})
    with pytest.raises(ValueError, match="nan"):
        chunks.write_chunk(study(), 0, tmp_path / "chunks" / "00000.json")
    assert list(tmp_path.rglob("*.json")) == []


def alter(path, change):
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda chunk: chunk.update(study_sha256="0" * 64), "another version of the study file"),
        (lambda chunk: chunk.update(code_sha256="0"), "different versions of the code"),
        (lambda chunk: chunk["rows"].pop(), "does not have points 4 to 7"),
        (lambda chunk: chunk.pop("rows"), "not a chunk"),
        (lambda chunk: chunk["rows"].reverse(), "does not have points 4 to 7"),
    ],
)
def test_a_chunk_of_another_study_is_refused(tmp_path, change, message):
    made = study()
    compute(made, tmp_path)
    alter(chunks.chunk_path(tmp_path, 1), change)
    with pytest.raises(RecordError, match=message) as refused:
        chunks.collect(made, tmp_path)
    assert "00001.json" in str(refused.value)


def test_a_missing_chunk_is_named(tmp_path):
    made = study()
    compute(made, tmp_path)
    chunks.chunk_path(tmp_path, 2).unlink()
    with pytest.raises(RecordError, match=r"missing.*00002\.json"):
        chunks.collect(made, tmp_path)


def test_less_than_one_process_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="--jobs"):
        list(chunks.run_locally(study(), tmp_path, 0))
