"""Chunks of a study, damaged in ten thousand ways: a clear error, or their rows."""

import json

import pytest
from damage import NUMBERS, damaged_json_file, read_each_file

from tsnrepro.experiments.studies.chunks import chunk_path, read_chunk
from tsnrepro.experiments.studies.study import Study

STUDY = Study.model_validate(
    {
        **{"description": "small", "duration_s": 0.01, "replications": 2, "points_per_job": 5},
        **{"measure": {"kind": "loss"}, "base": {"rate_mbps": 100}},
        "parts": {"all": {"factors": {"path_delay_us": [0.5, 1.0]}}},
    }
)


@pytest.mark.parametrize("number", NUMBERS)
def test_chunks(tmp_path, number):
    path = chunk_path(tmp_path, 0)
    path.parent.mkdir()
    rows = [point.factors() | {"loss_percent": 0.5} for point in STUDY.chunk(0)]
    chunk = {"study_sha256": STUDY.sha256, "code_sha256": "0" * 64, "chunk": 0, "rows": rows}
    path.write_text(json.dumps(chunk))
    assert read_chunk(STUDY, path, 0)["rows"] == rows
    inputs = damaged_json_file(path.read_bytes(), number)
    assert read_each_file(inputs, path, lambda: read_chunk(STUDY, path, 0))
