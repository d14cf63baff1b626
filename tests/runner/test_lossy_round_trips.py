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
