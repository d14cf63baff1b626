"""Shaping on a bench: what a port's queues can do is probed, and the talker's own port shapes."""

import json

import pytest
from benches import Pc, unchanged

from tsnrepro.config import BenchSettings, parse
from tsnrepro.config.registry import experiment
from tsnrepro.testbeds.bench.jobs import probe_chip
from tsnrepro.testbeds.choose import unsupported_reason
from tsnrepro.testbeds.hosts.host import Completed

PRELUDE_OF_JOBS = """\
from tsnrepro.experiments.shaping import on_hosts
from tsnrepro.experiments.shaping.plan import Factors
from tsnrepro.experiments.shaping.settings import ShapingPart
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.bench.jobs import BenchJobs
part = ShapingPart.model_validate({
    "name": "test", "kind": "end-station", "modes": ["fifo"], "payload_bytes": 256,
    "packets": 200, "interval_us": 500.0, "interval_spread_us": 0.0, "loads_mbps": [0.0],
    "link_rate_mbps": 1000.0, "testbeds": {"bench": {}},
})
jobs = BenchJobs(settings, sys.argv[2], "a test", Path(sys.argv[3]))
"""
SHAPE = """\
with jobs:
    found = Measurement()
    factors = Factors.one(part, "fifo", 0.0).stored()
    on_hosts.measure(jobs, Trial("shaping", "test", factors, 1), found)
    facts = jobs.describe()
values = found.values
print("RESULT" + json.dumps([values["result"], values["medium"], facts["queues"],
                             [row["kind"] for row in values["qdiscs"]]]))
"""
KILLED = """\
import os, signal
with jobs:
    os.kill(os.getpid(), signal.SIGKILL)
"""
GIVE_BACK = """\
from tsnrepro.testbeds.bench.ports import give_back
from tsnrepro.testbeds.hosts.rollback import Journal
print(give_back(Journal(sys.argv[2], Path(sys.argv[3]))))
"""


@pytest.mark.namespaces
@pytest.mark.slow
def test_the_talkers_port_shapes(tmp_path, alone):
    with Pc(tmp_path, "none") as pc, unchanged(pc):
        out, err = pc.python(PRELUDE_OF_JOBS + SHAPE)
    assert "RESULT" in out, err[-3000:]
    result, medium, queues, kinds = json.loads(out.partition("RESULT")[2])
    assert result["sent"] == result["received"] == 200
    assert (medium, queues) == ("network cards", "other")
    assert "bfifo" in kinds


@pytest.mark.namespaces
@pytest.mark.slow
def test_ports_of_killed_jobs_are_given_back(tmp_path, alone):
    with Pc(tmp_path, "none") as pc, unchanged(pc):
        pc.python(PRELUDE_OF_JOBS + KILLED)
        out, err = pc.python(GIVE_BACK)
        assert "True" in out, err


class Card:
    """A host whose tc accepts commands with a word."""

    def __init__(self, word):
        self.word, self.ran = word, []

    def run(self, argv, **_):
        self.ran.append(argv)
        good = self.word in argv or "mqprio" in argv
        return Completed("talker", tuple(argv), 0 if good else 2, "", "", 0.0, 0.0)


@pytest.mark.parametrize(("word", "chip"), [("taprio", "i225"), ("offload", "i210"), ("", "other")])
def test_queues_are_probed(word, chip):
    card = Card(word)
    assert probe_chip(card, "eth0") == chip
    assert card.ran[-1] == ["tc", "qdisc", "del", "dev", "eth0", "root"]


@pytest.mark.parametrize(
    ("talker", "listener", "says"), [(["a"], ["b"], ""), (["a", "c"], ["b", "d"], "one port each")]
)
def test_shaping_needs_one_port_each(talker, listener, says):
    ports = {"talker": talker, "listener": listener}
    settings = parse(BenchSettings, {"kind": "bench", "device": "none", "ports": ports}, "here")
    found = unsupported_reason(experiment("shaping"), settings)
    assert says in found if says else not found
