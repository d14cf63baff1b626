"""Round trips over a path that loses frames, in namespaces."""

import pytest

from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.faults import Fault
from tsnrepro.runner.measurement import Measurement

pytestmark = pytest.mark.namespaces
LOSSY = (Fault(5.0, "impair", path=0, loss_percent=2.0),)


def test_frer_answers_every_request_over_a_lossy_path(testbed):
    trial = Trial("examples", "one", {"configuration": "frer"}, 1)
    found = backend(testbed, trial, Measurement()).round_trips("frer", 100, 2, faults=LOSSY)
    assert found.report.received / found.report.sent > 0.999
    assert len(found.half_us) > 50


def test_without_frer_lost_requests_are_counted(testbed):
    """Of 4 %, there and back: the rest are answered, and none has the wait in its round trip."""
    trial = Trial("examples", "one", {"configuration": "control"}, 1)
    measured = Measurement()
    found = backend(testbed, trial, measured).round_trips("control", 100, 3, faults=LOSSY)
    report = found.report
    assert report.dropped > 0
    assert report.sent - report.received - report.dropped <= 1  # the last one is under way
    assert len(found.half_us) == report.observations > 50
    assert report.max_us == found.half_us.max() < 50_000
    assert "requests sent again" in measured.outputs["sockperf.stderr.txt"]
