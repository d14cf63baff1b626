"""Study files: valid keys, and their points."""

import math

import pytest
import yaml
from pydantic import ValidationError
from tracked_files import tracked

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.experiments.studies.study import Study, load_study

SMALL = {
    "description": "small",
    "duration_s": 0.01,
    "replications": 2,
    "points_per_job": 5,
    "measure": {"kind": "loss"},
    "base": {"rate_mbps": 100},
    "parts": {
        "first": {
            "factors": {
                "configuration": ["control", "frer"],
                "receive_buffer_bytes": [10_000, 20_000, 30_000],
            }
        },
        "second": {"base": {"payload_bytes": 64}, "factors": {"path_delay_us": [0.5]}},
    },
}


def changed(**changes):
    return Study.model_validate(SMALL | changes)


def test_points_are_numbered_by_part_and_replications_last():
    points = changed().points()
    assert [point.number for point in points] == list(range(2 * 3 * 2 + 1 * 2))
    first = [
        (p.parameters.configuration, p.parameters.receive_buffer_bytes, p.replication)
        for p in points[:4]
    ]
    assert first == [
        ("control", 10_000, 1),
        ("control", 10_000, 2),
        ("control", 20_000, 1),
        ("control", 20_000, 2),
    ]
    assert points[-1].part == "second"
    assert points[-1].parameters.payload_bytes == 64
    assert points[-1].parameters.rate_mbps == 100


def test_chunks_hold_every_point_once():
    study = changed()
    assert study.chunk_count() == 3
    chunks = [study.chunk(number) for number in range(3)]
    assert [len(chunk) for chunk in chunks] == [5, 5, 4]
    assert [point.number for chunk in chunks for point in chunk] == list(range(14))
    with pytest.raises(ConfigurationError, match="no chunk 3"):
        study.chunk(3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 3}, "seeds"),
        ({"base": {"rate_mbps": 100, "recieve_buffer": 1}}, "unknown parameter recieve_buffer"),
        ({"base": {}}, "measure loss needs rate_mbps"),
        ({"measure": {"kind": "threshold"}}, "measure threshold finds it"),
        ({"base": {"rate_mbps": -1}}, "rate_mbps"),
        ({"parts": {}}, "parts"),
        ({"parts": {"a": {"factors": {"payload_bytes": [64, 64]}}}}, "twice"),
        ({"parts": {"a": {"factors": {"payload_bytes": []}}}}, "payload_bytes"),
        ({"parts": {"a": {"factors": {"payload_bytes": [12]}}}}, "payload_bytes"),
        (
            {
                "parts": {
                    "a": {"base": {"payload_bytes": 64}, "factors": {"payload_bytes": [64, 128]}}
                }
            },
            "in base and in factors",
        ),
    ],
)
def test_invalid_studies_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        changed(**changes)


def test_the_checksum_is_of_the_keys_that_affect_results():
    study = changed()
    assert study.sha256 == changed(description="other words", points_per_job=1).sha256
    assert study.sha256 != changed(seed=2).sha256
    assert study.sha256 != changed(duration_s=0.02).sha256
    assert study.sha256 != changed(base={"rate_mbps": 101}).sha256


@pytest.mark.parametrize("path", tracked("config/studies/*.yaml"), ids=lambda p: p.stem)
def test_the_studies_of_the_repository_are_valid(path):
    study = load_study(path.stem)
    sizes = [
        math.prod(len(values) for values in part["factors"].values())
        for part in yaml.safe_load(path.read_text(encoding="utf-8"))["parts"].values()
    ]
    assert len(study.points()) == sum(sizes) * study.replications


def test_an_unknown_study_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ConfigurationError, match=r"buffers.*threshold"):
        load_study("treshold")
