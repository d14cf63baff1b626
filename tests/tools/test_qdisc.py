"""Commands of tc: exact words, values of the standard's formulas, and what tc itself accepts."""

import json
import os
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.errors import ConfigurationError, ToolError
from tsnrepro.tools import qdisc

ENTRIES = [(0x20, 500_000), (0x01, 500_000)]
MAP8 = "num_tc 8 map 0 1 2 3 4 5 6 7 0 0 0 0 0 0 0 0 queues " + " ".join(
    f"1@{number}" for number in range(8)
)


def line(argv):
    return " ".join(argv)


def test_taprio_in_software_names_its_clock():
    assert line(qdisc.taprio("eth0", ENTRIES, base_time_ns=7, cycle_time_ns=1_000_000)) == (
        f"tc qdisc replace dev eth0 root handle 100: taprio {MAP8} base-time 7"
        " sched-entry S 20 500000 sched-entry S 01 500000 cycle-time 1000000 clockid CLOCK_TAI"
    )


@pytest.mark.parametrize("entry", [(0x100, 1_000), (-1, 1_000), (0x01, 0)])
def test_impossible_entries_are_refused(entry):
    with pytest.raises(ConfigurationError, match="entry"):
        qdisc.taprio("eth0", [entry])


# Credit


def test_credit_of_a_class_a_stream_is_what_intel_documents():
    """98,688 kb/s and frames of 1542 bytes on the wire: hicredit 153, locredit -1389 (i210)."""
    found = qdisc.credits_of(98.688, 1000, frame_wire_bytes=1542, interference_wire_bytes=1542)
    assert found == qdisc.Credits(98_688, -901_312, 153, -1_389)


def test_veth_claims_ten_gigabit():
    found = qdisc.credits_of(
        10, qdisc.VETH_MBPS, frame_wire_bytes=1538, interference_wire_bytes=1538
    )
    assert found.sendslope_kbps == 10_000 - 10_000_000


@given(st.floats(0.1, 900), st.integers(84, 1548), st.integers(84, 1548))
def test_credit_limits_are_what_a_frame_gains_and_costs(slope, frame, interference):
    found = qdisc.credits_of(
        slope, 1000, frame_wire_bytes=frame, interference_wire_bytes=interference
    )
    assert 0 <= found.hicredit_bytes - slope * interference / 1000 < 1 + 1e-6
    assert -frame < found.locredit_bytes <= 0
    assert found.idleslope_kbps - found.sendslope_kbps == 1_000_000


@pytest.mark.parametrize("slope", [0, 1000, float("nan")])
def test_slopes_that_do_not_fit_the_port_are_refused(slope):
    with pytest.raises(ConfigurationError, match="does not fit"):
        qdisc.credits_of(slope, 1000, frame_wire_bytes=1542, interference_wire_bytes=1542)


def test_cbs_has_its_slopes_and_limits():
    values = qdisc.Credits(98_688, -901_312, 153, -1_389)
    assert line(qdisc.cbs("eth0", values, parent="2:3")) == (
        "tc qdisc replace dev eth0 parent 2:3 cbs idleslope 98688 sendslope -901312"
        " hicredit 153 locredit -1389 offload 0"
    )


# The others


def test_prio_serves_the_highest_priority_from_its_first_band():
    assert line(qdisc.prio("eth0")).endswith("prio bands 8 priomap 7 6 5 4 3 2 1 0 7 7 7 7 7 7 7 7")


def test_etf_sends_at_the_sockets_time():
    assert line(qdisc.etf("eth0", "100:6", delta_ns=200_000)) == (
        "tc qdisc replace dev eth0 parent 100:6 etf clockid CLOCK_TAI delta 200000"
    )


def test_a_token_bucket_counts_the_wire():
    assert line(qdisc.tbf("eth0", 1000, burst_bytes=1600, limit_bytes=262_144)) == (
        "tc qdisc replace dev eth0 root handle 1: tbf rate 1000000000bit burst 1600 limit 262144"
        " overhead 24"
    )


def test_queues_are_pinned_by_pcp():
    commands = [line(argv) for argv in qdisc.pin_queues("p0", {5: 5, 0: 0})]
    assert commands == [
        "tc qdisc replace dev p0 clsact",
        "tc filter replace dev p0 egress pref 1 protocol 802.1Q flower vlan_prio 0"
        " action skbedit queue_mapping 0 priority 0",
        "tc filter replace dev p0 egress pref 2 protocol 802.1Q flower vlan_prio 5"
        " action skbedit queue_mapping 5 priority 5",
    ]


# What tc prints


PRINTED = [
    {"kind": "taprio", "handle": "100:", "root": True, "options": {"tc": 8}},
    {"kind": "tbf", "handle": "16:", "parent": "100:6", "options": {"rate": 12_500_000}},
]
COUNTED = dict.fromkeys(
    ("bytes", "packets", "drops", "overlimits", "requeues", "backlog", "qlen"), 0
)


def printed(**counts):
    return json.dumps([item | COUNTED | counts for item in PRINTED])


def test_statistics_are_read_by_discipline():
    root, leaf = qdisc.parse_statistics(printed(packets=3, bytes=900, drops=1))
    names = ("kind", "parent", "sent_packets", "drops")
    assert [root[name] for name in names] == ["taprio", "root", 3, 1]
    assert (leaf["parent"], leaf["sent_bytes"]) == ("100:6", 900)


def test_counts_between_two_readings():
    before, after = printed(packets=3, drops=1), printed(packets=10, drops=1)
    rows = qdisc.counted_between(qdisc.parse_statistics(before), qdisc.parse_statistics(after))
    assert [(row["kind"], row["sent_packets"], row["drops"]) for row in rows] == [
        ("taprio", 7, 0),
        ("tbf", 7, 0),
    ]


def test_a_discipline_that_was_replaced_in_between_is_refused():
    before, after = printed(packets=30), printed(packets=10)
    with pytest.raises(ToolError, match="replaced between the readings"):
        qdisc.counted_between(qdisc.parse_statistics(before), qdisc.parse_statistics(after))
    with pytest.raises(ToolError, match="replaced"):
        qdisc.counted_between([], qdisc.parse_statistics(after))


@pytest.mark.parametrize("text", ["", "Cannot find device", "{}", '[{"kind": "tbf"}]', "[3]"])
def test_other_output_is_no_statistics(text):
    with pytest.raises(ToolError, match="no statistics"):
        qdisc.parse_statistics(text)


# What tc accepts

SHAPED = [
    qdisc.taprio("v0", ENTRIES),
    qdisc.cbs("v0", qdisc.Credits(98_688, -901_312, 153, -1_389)),
    qdisc.mqprio("v0"),
    qdisc.prio("v0"),
    qdisc.etf("v0", "root", delta_ns=200_000),
    qdisc.tbf("v0", 100, burst_bytes=1600, limit_bytes=262_144),
]


needs_tc = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("tc"), reason="needs root and tc"
)
PARSING = ("What is", "Usage", "Illegal", "is wrong", "Unknown argument")


def said_by_tc(argv):
    script = f"ip link add v0 numtxqueues 8 type veth peer name v1 && {line(argv)}"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.namespaces
@needs_tc
@pytest.mark.parametrize("argv", SHAPED, ids=lambda argv: argv[argv.index("dev") + 3])
def test_tc_understands_every_word(argv):
    """tc either installs the discipline or is told by the kernel that it has none of this kind."""
    status, said = said_by_tc(argv)
    assert not [word for word in PARSING if word in said], said
    unknown_to_kernel = "Specified qdisc kind is unknown" in said
    no_offload = "0x2" in argv and "offload" in said.lower()
    assert status == 0 or unknown_to_kernel or no_offload, said


@pytest.mark.namespaces
@needs_tc
@pytest.mark.parametrize("argv", SHAPED, ids=lambda argv: argv[argv.index("dev") + 3])
def test_tc_refuses_a_word_it_does_not_know(argv):
    status, said = said_by_tc([*argv, "nonsense"])
    assert status
    assert [word for word in PARSING if word in said], said
