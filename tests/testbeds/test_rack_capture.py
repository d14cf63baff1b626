"""Experiment ``capture`` on a rack of computers, whose owner lets frames be kept."""

import pytest
from racks import Rack

from tsnrepro.experiments.capture import measure as capture
from tsnrepro.experiments.capture.trial_report import recorded_report
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement

pytestmark = [pytest.mark.namespaces, pytest.mark.slow]

# Frames may change places on their way through a host of several processors.
ORDER = {"numbers out of order", "recovery: out_of_order"}


@pytest.fixture(scope="module")
def testbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captured")
    with (
        Rack(folder, ("ebpf", "ebpf")) as rack,
        rack.up("captured", record_addresses=True) as testbed,
    ):
        yield testbed


@pytest.mark.parametrize("configuration", ["frer", "control"])
def test_captures_agree_with_the_counters(testbed, configuration):
    factors = {"configuration": configuration, "payload_bytes": 600, "rate_mbps": 20.0}
    found = Measurement()
    capture.measure(testbed, Trial("capture", "once", factors | {"duration_s": 1}, 1), found)

    def output(_: str, name: str) -> bytes:
        data = found.outputs[name]
        return data.encode() if isinstance(data, str) else data

    report = recorded_report(output, {"trial": "once", "values": found.values})
    assert [f for f in report.disagreements() if f.name not in ORDER] == []
    sent = found.values["result"]["sent"]
    assert report.listener_stream_frames == sent > 0.9 * 20e6 / 8 / 600
    copies = [sent, sent] if configuration == "frer" else [sent, 0]
    assert [path.stream_frames for path in report.paths] == copies
    before, after = (found.values["capture"]["counters_read_ns"][k] for k in ("before", "after"))
    assert before[0] < before[1] < after[0] < after[1]
