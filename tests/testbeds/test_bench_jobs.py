"""Shaping on a bench: what a port's queues can do is probed, and the talker's own port shapes."""

import json

import pytest
from benches import Pc, unchanged

from tsnrepro.config import BenchSettings, parse
from tsnrepro.config.registry import experiment
from tsnrepro.testbeds.bench.clocks import one_port_each, stamping_clocks
from tsnrepro.testbeds.bench.jobs import probe_chip, probe_clocks
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


# --- clocks -----------------------------------------------------------------------------------

# As ethtool prints igb's i210 before 6.14, and igc's i225 since.
_CAPABLE = """\
Time stamping parameters for eth0:
Capabilities:
\thardware-transmit
\tsoftware-transmit
\thardware-receive
\tsoftware-receive
\tsoftware-system-clock
\thardware-raw-clock
{clock}
Hardware Transmit Timestamp Modes:
\toff
\ton
Hardware Receive Filter Modes:
\tnone
\t{filters}
"""
_PROVIDER = """\
Hardware timestamp provider index: {}
Hardware timestamp provider qualifier: Precise (IEEE 1588 quality)"""
I210 = _CAPABLE.format(clock="PTP Hardware Clock: 0", filters="all")
I225 = _CAPABLE.format(clock=_PROVIDER.format(1), filters="all")
SHARED = _CAPABLE.format(clock=_PROVIDER.format(0), filters="all")
# A receive filter for PTP's frames alone, as e1000e's older cards have.
PTP_ALONE = _CAPABLE.format(clock="PTP Hardware Clock: 2", filters="ptpv2-l4-event")
VETH = """\
Time stamping parameters for eth0:
Capabilities:
\tsoftware-transmit
\tsoftware-receive
\tsoftware-system-clock
PTP Hardware Clock: none
Hardware Transmit Timestamp Modes: none
Hardware Receive Filter Modes: none
"""


@pytest.mark.parametrize(
    ("talker", "listener", "clocks", "to_set"),
    [
        (I210, I225, {"talker": 0, "listener": 1}, ["talker", "listener"]),
        (I210, SHARED, {"talker": 0, "listener": 0}, ["talker"]),
        (PTP_ALONE, I225, {"talker": 2, "listener": 1}, ["talker", "listener"]),
        *((one, other, {}, []) for one, other in ((I210, PTP_ALONE), (I210, VETH), (VETH, I225))),
    ],
)
def test_both_ports_stamp_or_none(talker, listener, clocks, to_set):
    found = stamping_clocks({"talker": talker, "listener": listener})
    assert found == clocks
    assert sorted(one_port_each(found)) == sorted(to_set)


class ClockedPort:
    """A host that prints a port's time stamping, and has some programs."""

    name = "talker"

    def __init__(self, shown, tools):
        self._shown, self._tools = shown, tools

    def run(self, argv, **_):
        text = " ".join(argv)
        if argv[0] == "ethtool":
            return Completed("talker", tuple(argv), 0, self._shown, "", 0.0, 0.0)
        found = "".join(
            f"\x1e{int(tool not in self._tools)}\x1e"
            for tool in ("phc2sys", "hwstamp_ctl")
            if tool in text
        )
        return Completed("talker", tuple(argv), 0, found, "", 0.0, 0.0)


BOTH = ("phc2sys", "hwstamp_ctl")


@pytest.mark.parametrize(
    ("shown", "tools", "chip", "expected"),
    [
        ((I210, I225), BOTH, "i225", ("i225", "hardware", {"talker", "listener"})),
        ((I210, SHARED), BOTH, "i225", ("i225", "hardware", {"talker"})),
        ((I210, I225), BOTH, "other", ("other", "hardware", {"listener"})),
        ((I210, I225), ("phc2sys",), "i210", ("i210", "software", {"talker"})),
        ((I210, I225), (), "i210", ("other", "software", set())),
        ((I210, VETH), BOTH, "i225", ("i225", "software", {"talker"})),
        ((VETH, I225), BOTH, "i225", ("other", "software", set())),
        ((VETH, VETH), BOTH, "other", ("other", "software", set())),
    ],
)
def test_what_stamps_and_whose_clock_is_set(shown, tools, chip, expected):
    """Gates in hardware need the clock that they go by on the talker's time."""
    hosts = {
        role: ClockedPort(text, tools)
        for role, text in zip(("talker", "listener"), shown, strict=True)
    }
    found_chip, stamps, cards = probe_clocks(hosts, "eth0", chip)
    assert (found_chip, stamps, {*cards}) == expected
    assert {*cards.values()} <= {"eth0"}


@pytest.mark.parametrize(
    ("talker", "listener", "says"), [(["a"], ["b"], ""), (["a", "c"], ["b", "d"], "one port each")]
)
def test_shaping_needs_one_port_each(talker, listener, says):
    ports = {"talker": talker, "listener": listener}
    settings = parse(BenchSettings, {"kind": "bench", "device": "none", "ports": ports}, "here")
    found = unsupported_reason(experiment("shaping"), settings)
    assert says in found if says else not found
