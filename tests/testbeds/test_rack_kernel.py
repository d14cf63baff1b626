"""Switches that their kernels alone drive: control on this kernel, FRER by a stand-in of its tc."""

import pytest
from racks import Rack, fingerprint

from tsnrepro.common.errors import TestbedError
from tsnrepro.config import FrerSettings
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds import commands
from tsnrepro.testbeds.doctor.findings import PASS
from tsnrepro.testbeds.doctor.frer import verify_frer
from tsnrepro.testbeds.rack.traffic_control import parse_recovery
from tsnrepro.tools.frerctl import StreamFilter

pytestmark = [pytest.mark.namespaces, pytest.mark.slow]

FRER = {"history_length": 32, "reset_ms": 200}
LINK_SECONDS = 0.05


@pytest.fixture(scope="module")
def rack(tmp_path_factory):
    with Rack(tmp_path_factory.mktemp("kernels"), ("kernel", "kernel")) as made:
        yield made


@pytest.fixture(scope="module")
def testbed(rack):
    with rack.up("kernels", frer=FRER) as testbed:
        yield testbed


def loss_at(testbed, **factors) -> dict:
    asked = {"configuration": "control", "payload_bytes": 1000, "rate_mbps": 20.0, "duration_s": 1}
    asked |= {"generator": "talker", **factors}
    found = Measurement()
    loss.measure(testbed, Trial("loss", "once", asked, 1), found)
    return found.values


@pytest.mark.parametrize("generator", ["talker", "iperf3"])
def test_control_sends_each_datagram_once(testbed, generator):
    values = loss_at(testbed, generator=generator)
    accounting = values["accounting"]
    assert accounting["sent"] > 2000
    assert (accounting["copies"], accounting["eliminated"]) == (0, 0)
    assert (accounting["network_lost"], accounting["unaccounted"]) == (0, 0), accounting["drops"]


def test_what_a_narrow_path_drops_is_named_where_it_was_dropped(rack, testbed):
    limit = ["tbf", "rate", "10mbit", "burst", "16k", "limit", "32k"]
    rack.run("sw1", "tc", "qdisc", "replace", "dev", "eth1", "root", *limit)
    try:
        accounting = loss_at(testbed)["accounting"]
    finally:
        rack.run("sw1", "tc", "qdisc", "del", "dev", "eth1", "root")
    assert accounting["network_lost"] > 500
    assert accounting["drops"]["sw1 queue m0"] == accounting["network_lost"], accounting["drops"]


def test_a_kernel_without_the_action_is_said_and_control_goes_on(testbed):
    stream = StreamFilter("udp", 5202)
    with pytest.raises(TestbedError, match="tc does not support the action frer"):
        testbed.configure("frer", stream)
    assert loss_at(testbed)["accounting"]["unaccounted"] == 0


def test_what_a_kernel_cannot_be_told_is_refused(testbed):
    driver = testbed._rack.switches["sw1"]
    stream = StreamFilter("udp", 5202)
    with pytest.raises(TestbedError, match="the kernel supports at most 32"):
        driver.configure("frer", FrerSettings(), stream)
    with pytest.raises(TestbedError, match="cannot pass frames"):
        driver.configure("frer", FrerSettings(**FRER, take_no_sequence=True), stream)


@pytest.fixture(scope="module")
def replicating(tmp_path_factory):
    """Switches whose tc knows the action: stood in for, its frames are real."""
    folder = tmp_path_factory.mktemp("replicating")
    with (
        Rack(folder, ("kernel", "kernel"), action_frer=True) as rack,
        rack.up("frers", frer=FRER) as testbed,
    ):
        yield testbed


@pytest.mark.parametrize("generator", ["talker", "iperf3"])
def test_frer_sends_each_datagram_over_both_paths_and_lets_one_through(replicating, generator):
    values = loss_at(replicating, configuration="frer", generator=generator)
    accounting = values["accounting"]
    sent = accounting["sent"]
    assert sent > 2000
    assert accounting["copies"] == accounting["eliminated"] == sent, accounting
    # A machine at work may keep the listener from reading.
    assert (accounting["network_lost"], accounting["unaccounted"]) == (0, 0), accounting["drops"]


def test_one_configuration_after_the_other(replicating):
    for configuration in ("control", "frer", "control"):
        accounting = loss_at(replicating, configuration=configuration)["accounting"]
        copies = accounting["sent"] if configuration == "frer" else 0
        assert (accounting["copies"], accounting["eliminated"]) == (copies, copies)
        assert (accounting["network_lost"], accounting["unaccounted"]) == (0, 0)


def test_frer_is_proved_by_frames(replicating):
    found = verify_frer(replicating, link_s=LINK_SECONDS)
    assert [finding.line() for finding in found if finding.verdict != PASS] == []


def test_the_words_of_frer(tmp_path, monkeypatch, capsys):
    """Numbering and copies at the host port, one recovery function for all member ports."""
    with Rack(tmp_path, ("kernel", "kernel")) as rack:
        before = fingerprint(rack)
        monkeypatch.setattr(commands, "testbed_settings", lambda _: rack.settings(frer=FRER))
        commands.configure("a-rack", "frer", dry_run=True)
        assert fingerprint(rack) == before
    printed = capsys.readouterr().out.splitlines()
    everything = "protocol all u32 match u32 0 0"
    plain = (
        "protocol ip u32 match u8 17 0xff at 9 match u16 0 0x1fff at 6 match u16 5201 0xffff at 22"
    )
    tagged = plain.replace("ip u32", "0xf1c1 u32").replace("at 9", "at 15")
    tagged = tagged.replace("at 6 ", "at 12 ").replace("at 22", "at 28")
    copies = "action mirred egress mirror dev eth2 action mirred egress redirect dev eth1"
    recover = "alg vector history-length 32 reset-time 200 tag-pop"
    onwards = "action mirred egress redirect dev eth4"
    wanted = (
        f"eth4 ingress pref 10 {plain} action frer push index 7110 {copies}",
        f"eth4 ingress pref 20 {everything} action frer push index 7120 {copies}",
        f"eth1 ingress pref 10 {tagged} action frer recover {recover} index 7111 {onwards}",
        f"eth2 ingress pref 10 {tagged} action frer recover index 7111 {onwards}",
        f"eth1 ingress pref 20 {everything} action frer recover {recover} index 7121 {onwards}",
        f"eth2 ingress pref 20 {everything} action frer recover index 7121 {onwards}",
    )
    for switch in ("sw1", "sw2"):
        lines = [f"{switch}# tc filter add dev {words}" for words in wanted]
        assert [line for line in lines if line not in printed] == []


PRINTED = """\
total acts 1

  action order 0: frer recover rtag pop
   alg vector history-length 32 reset-time 200 index 7111 ref 3 bind 2
   passed=1000 discarded=998 out-of-order=1 rogue=2 lost=3 tagless=4 resets=5
"""


def test_counters_of_recovery_are_read():
    found = parse_recovery(PRINTED, "sw2")
    assert found == {
        **{"out_of_order": 1, "rogue": 2, "passed": 1000, "discarded": 998},
        **{"lost": 3, "tagless": 4, "resets": 5},
    }


def test_a_counter_that_is_not_told_is_named():
    with pytest.raises(TestbedError, match="tc prints no rogue, lost of recovery"):
        parse_recovery(PRINTED.replace("rogue=2 lost=3 ", ""), "sw2")
