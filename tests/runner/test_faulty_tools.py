"""A tool that is missing, crashes, hangs, floods or lies: a record with its reason, then a trial.

In place of iperf3's client a script is run that does wrong what the real one does right.
"""

from contextlib import contextmanager

import pytest
from test_runner import left_running

from tsnrepro.common.errors import RecordError
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.records.store import RawStore, Trial
from tsnrepro.runner.design import Planned
from tsnrepro.runner.run import run_trials
from tsnrepro.tools import iperf3

pytestmark = pytest.mark.namespaces

DEADLINE_SECONDS = 3
# What happens to the client, and what the record of the trial has to say of it.
FAULTS = {
    "is missing": ("exec /no/such/iperf3", "exit status 127"),
    "crashes": ("kill -SEGV $$", "terminated by a signal"),
    "hangs": ("exec sleep 600", "deadline exceeded"),
    "floods": ("exec yes", "output exceeds"),
    "says nothing": ("exit 0", "no JSON"),
    "stops in the midst of its JSON": ('"$@" | head -c 700', "damaged JSON"),
    "sent less than nothing": (
        """ "$@" | sed -E 's/"packets":[[:space:]]+/"packets": -/' """,
        "datagrams sent is -",
    ),
    "received more than it sent": (
        """ "$@" | sed -E 's/"packets":[[:space:]]+[0-9]+/"packets": 1/' """,
        "received of 1 sent",
    ),
    "sends in no time": (
        """  "$@" | sed -E 's/"seconds":[[:space:]]+[0-9.]+/"seconds": 0/' """,
        "time",
    ),
}

# Those that go on for seconds before they are ended.
LASTING = ("hangs", "floods")


@contextmanager
def kept(testbed):
    """Stand for a testbed that is brought up: the shared one stays up."""
    yield testbed


@pytest.mark.parametrize(
    "fault",
    [pytest.param(each, marks=pytest.mark.slow if each in LASTING else ()) for each in FAULTS],
)
def test_a_faulty_tool_is_a_failed_trial_and_the_next_run_completes(
    testbed, tmp_path, monkeypatch, fault
):
    script, said = FAULTS[fault]
    factors = {"configuration": "frer", "payload_bytes": 200, "rate_mbps": 1.0, "duration_s": 1}
    planned = [Planned(Trial("loss", "faulty", factors, 1), 0, 2.0)]
    store = RawStore(tmp_path, "emulated", "test", "loss")

    def run():
        return run_trials(store, planned, 1, lambda: kept(testbed), loss.measure)

    client = iperf3.udp_client
    with monkeypatch.context() as broken:
        broken.setattr("tsnrepro.runner.backends.hosts.OVERHEAD_SECONDS", DEADLINE_SECONDS)
        broken.setattr(
            iperf3, "udp_client", lambda *a, **k: ["sh", "-c", script, "sh", *client(*a, **k)]
        )
        with pytest.raises(RecordError, match=said):
            run()
    (failed,) = store.attempts(planned[0].trial)
    document = store.read(failed)
    assert document["status"] == "failed"
    assert document["reason"]
    assert left_running(testbed) == ""
    (listed,) = run()["trials"]
    assert store.read(store.folder / listed["trial"])["status"] == "measured"
