"""Tests of FD.io CSIT: latencies of ndrpdr are read by a mapping, everything else is refused."""

import json

import pytest
from reader_files import source_file, table

from tsnrepro.imports.reading import DataFolder, read_file
from tsnrepro.imports.screening import NoMeasurementError

NDRPDR = {
    "version": "1.4.0", "message": "NDR_LOWER: 8,131,000.0 pps", "tags": ["NDRPDR", "64B", "1C"],
    "test_id": "tests.vpp.perf.l2.64b-1c-eth-l2bdbasemaclrn-ndrpdr", "test_type": "ndrpdr",
    "start_time": "2026-03-01T10:00:00.000000Z", "passed": True,
    "result": {
        "type": "ndrpdr",
        "ndr": {"lower": {"rate": {"value": 8131000.0, "unit": "pps"},
                          "bandwidth": {"value": 5464032000.0, "unit": "bps"}}},
        "latency_forward": {
            f"pdr_{load}": {"min": 4, "avg": 7 + load // 10, "max": 60, "unit": "us"}
            for load in (10, 50)
        },
    },
}  # fmt: skip
FIELDS = {"configuration": "control", "payload_bytes": 18}
LATENCY = table(
    "json",
    "latency",
    rows="result.latency_forward.{load}",
    latency_quantity="one way",
    fields=FIELDS | {f"{field}_us": {"column": column, "unit": "us"}
                     for field, column in {"min": "min", "mean": "avg", "max": "max"}.items()},
)  # fmt: skip
RATE = {"column": "result.ndr.lower.bandwidth.value", "unit": "b/s", "layer": "wire"}
LOSS = table("json", fields=FIELDS | {"offered_mbps": RATE, "loss_percent": 0})


def read(document, layout):
    file = source_file(json.dumps(document))
    return read_file(DataFolder(file.path.parent, []), file, "t", layout, None)


def test_latencies_of_ndrpdr_are_read():
    found = [trial.result for trial in read(NDRPDR, LATENCY).trials]
    assert [(one["min_us"], one["mean_us"], one["max_us"]) for one in found] == [
        (4, 8, 60),
        (4, 12, 60),
    ]


@pytest.mark.parametrize("layout", [LOSS, table("iperf3"), table("iperf3", "tcp")])
def test_rates_of_a_search_are_refused(layout):
    with pytest.raises(NoMeasurementError, match="test of CSIT of type ndrpdr, whose") as error:
        read(NDRPDR, layout)
    assert "rows result.latency_forward" in error.value.remedy


@pytest.mark.parametrize("kind", ["mrr", "soak", "hoststack", "hoststack_iperf3", "reconf"])
@pytest.mark.parametrize("layout", [LOSS, LATENCY])
def test_other_types_are_refused_by_name(kind, layout):
    with pytest.raises(NoMeasurementError, match=f"test of CSIT of type {kind}, whose"):
        read(NDRPDR | {"result": {"type": kind}}, layout)


def test_the_first_model_and_failed_tests():
    old = {key: value for key, value in NDRPDR.items() if key not in ("result", "passed")}
    old |= {"version": "0.2.0", "results": {"soak": {}}, "test_type": "soak", "status": "PASS"}
    with pytest.raises(NoMeasurementError, match="test of CSIT of type soak, whose"):
        read(old, LATENCY)
    for failed in (old | {"status": "FAIL"}, NDRPDR | {"passed": False}):
        with pytest.raises(NoMeasurementError, match=r"CSIT of type \w+ that failed"):
            read(failed, LATENCY)
    with pytest.raises(NoMeasurementError, match="CSIT of type without result"):
        read(NDRPDR | {"result": {}, "test_type": None}, LATENCY)
