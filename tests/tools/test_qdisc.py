"""Commands of tc: exact words, values of the standard's formulas, and what tc itself accepts."""

import json
import os
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.common.errors import ConfigurationError, ToolError
from tsnrepro.tools import qdisc

ENTRIES = [(0x20, 500_000), (0x01, 500_000)]
MAP8 = "num_tc 8 map 0 1 2 3 4 5 6 7 0 0 0 0 0 0 0 0 queues " + " ".join(
    f"1@{number}" for number in range(8)
)
MAP4 = "num_tc 4 map 3 3 3 3 3 2 1 0 3 3 3 3 3 3 3 3 queues 1@0 1@1 1@2 1@3"


def line(argv):
    return " ".join(argv)


def test_taprio_in_software_names_its_clock():
    assert line(qdisc.taprio("eth0", ENTRIES, base_time_ns=7, cycle_time_ns=1_000_000)) == (
        f"tc qdisc replace dev eth0 root handle 100: taprio {MAP8} base-time 7"
        " sched-entry S 20 500000 sched-entry S 01 500000 cycle-time 1000000 clockid CLOCK_TAI"
    )


def test_taprio_in_hardware_names_no_clock():
    words = qdisc.taprio("eth0", ENTRIES, mode="offload")
    assert words[-2:] == ["flags", "0x2"]
    assert "clockid" not in words


def test_launch_time_assistance_needs_its_delay_and_nothing_else_takes_one():
    words = qdisc.taprio("eth0", ENTRIES, mode="txtime-assist", txtime_delay_ns=500_000)
    assert line(words).endswith("flags 0x1 txtime-delay 500000 clockid CLOCK_TAI")
    with pytest.raises(ConfigurationError, match="txtime-delay"):
        qdisc.taprio("eth0", ENTRIES, mode="txtime-assist")
    with pytest.raises(ConfigurationError, match="txtime-delay"):
        qdisc.taprio("eth0", ENTRIES, txtime_delay_ns=500_000)


@pytest.mark.parametrize("entry", [(0x100, 1_000), (-1, 1_000), (0x01, 0)])
def test_impossible_entries_are_refused(entry):
    with pytest.raises(ConfigurationError, match="entry"):
        qdisc.taprio("eth0", [entry])


def test_gates_of_a_card_are_offloaded():
    words = qdisc.taprio(
        "eth0",
        [(0x01, 300_000), (0x0E, 700_000)],
        mode="offload",
        num_tc=4,
        priority_map=(3, 3, 3, 3, 3, 2, 1, 0, *((3,) * 8)),
        base_time_ns=1_000,
    )
    assert line(words) == (
        f"tc qdisc replace dev eth0 root handle 100: taprio {MAP4} base-time 1000"
        " sched-entry S 01 300000 sched-entry S 0e 700000 flags 0x2"
    )


def test_launch_times_of_a_card():
    words = qdisc.etf("eth0", "100:1", delta_ns=300_000, offload=True, skip_sock_check=True)
    assert line(words) == (
        "tc qdisc replace dev eth0 parent 100:1 etf clockid CLOCK_TAI delta 300000 offload"
        " skip_sock_check"
    )


def test_lan966x_gates():
    assert line(qdisc.taprio_lan966x("eth0", [(0x80, 10_000), (0x7F, 90_000)])) == (
        f"tc qdisc add dev eth0 root handle 1: taprio {MAP8} base-time 0"
        " sched-entry S 80 10000 sched-entry S 7f 90000 cycle-time 100000 flags 0x2"
    )


# Credit


def test_credit_of_a_class_a_stream_is_what_intel_documents():
    """98,688 kb/s and frames of 1542 bytes on the wire: hicredit 153, locredit -1389 (i210)."""
    found = qdisc.credits_of(98.688, 1000, frame_wire_bytes=1542, interference_wire_bytes=1542)
    assert found == qdisc.Credits(98_688, -901_312, 153, -1_389)


def test_credit_of_class_b_waits_for_class_a_too():
    """Annex L for the second class: 3,648 kb/s under the first of 98,688 kb/s gives 12 bytes."""
    found = qdisc.credits_of(
        3.648,
        1000,
        frame_wire_bytes=114,
        interference_wire_bytes=1542,
        above=(98.688, 1542),
    )
    assert (found.sendslope_kbps, found.hicredit_bytes, found.locredit_bytes) == (
        -996_352,
        12,
        -113,
    )


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


@pytest.mark.parametrize(("slope", "above"), [(0, None), (1000, None), (600, (500.0, 1542))])
def test_slopes_that_do_not_fit_the_port_are_refused(slope, above):
    with pytest.raises(ConfigurationError, match="does not fit"):
        qdisc.credits_of(
            slope, 1000, frame_wire_bytes=1542, interference_wire_bytes=1542, above=above
        )


def test_cbs_commands_of_the_cards():
    values = qdisc.Credits(98_688, -901_312, 153, -1_389)
    priority_map = (2, 2, 1, 0, *((2,) * 12))
    queues = qdisc.mqprio("eth0", num_tc=3, priority_map=priority_map)
    assert line(queues) == (
        "tc qdisc replace dev eth0 root handle 100: mqprio num_tc 3 map 2 2 1 0 2 2 2 2 2 2 2 2 2"
        " 2 2 2 queues 1@0 1@1 1@2 hw 0"
    )
    assert line(qdisc.cbs("eth0", values, parent="100:1", handle="7777:", offload=True)) == (
        "tc qdisc replace dev eth0 parent 100:1 handle 7777: cbs idleslope 98688 sendslope -901312"
        " hicredit 153 locredit -1389 offload 1"
    )
    switch = qdisc.Credits(10_000, -990_000, 15, -990)
    assert line(qdisc.cbs_lan966x("eth0", 4, switch)[1]) == (
        "tc qdisc replace dev eth0 parent 1:5 handle 2: cbs idleslope 10000 sendslope -990000"
        " hicredit 15 locredit -990 offload 1"
    )
    with pytest.raises(ConfigurationError, match="100 kb/s"):
        qdisc.cbs_lan966x("eth0", 4, values)


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


def test_statistics_are_read_when_a_pending_schedule_is_in_force(tmp_path):
    """While it is not, iproute2 before 6.5 prints broken JSON."""
    (tmp_path / "tc").write_text(
        """#!/bin/sh
echo "$*" >>"$0.asked"
if [ "$(wc -l <"$0.asked")" -lt 3 ]; then
    echo '[{"kind":"taprio","options":{"clockid":"TAI",{"base_time":17}},"bytes":0}]'
else
    echo '[{"kind":"taprio","options":{"clockid":"TAI","base_time":17},"bytes":0}]'
fi
"""
    )
    (tmp_path / "tc").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        qdisc.show("eth1"), env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)[0]["options"]["base_time"] == 17
    asked = (tmp_path / "tc.asked").read_text().splitlines()
    assert asked == ["-s -j qdisc show dev eth1"] * 3


def test_counts_between_two_readings():
    before, after = printed(packets=3, drops=1), printed(packets=10, drops=1)
    rows = qdisc.statistics_between(qdisc.parse_statistics(before), qdisc.parse_statistics(after))
    assert [(row["kind"], row["sent_packets"], row["drops"]) for row in rows] == [
        ("taprio", 7, 0),
        ("tbf", 7, 0),
    ]


def test_a_discipline_that_was_replaced_in_between_is_refused():
    before, after = printed(packets=30), printed(packets=10)
    with pytest.raises(ToolError, match="replaced between the readings"):
        qdisc.statistics_between(qdisc.parse_statistics(before), qdisc.parse_statistics(after))
    with pytest.raises(ToolError, match="replaced"):
        qdisc.statistics_between([], qdisc.parse_statistics(after))


@pytest.mark.parametrize("text", ["", "Cannot find device", "{}", '[{"kind": "tbf"}]', "[3]"])
def test_other_output_is_no_statistics(text):
    with pytest.raises(ToolError, match="no statistics"):
        qdisc.parse_statistics(text)


# What tc accepts

SHAPED = [
    qdisc.taprio("v0", ENTRIES),
    qdisc.taprio("v0", ENTRIES, mode="txtime-assist", txtime_delay_ns=500_000),
    qdisc.taprio("v0", ENTRIES, mode="offload"),
    qdisc.cbs("v0", qdisc.Credits(98_688, -901_312, 153, -1_389)),
    qdisc.mqprio("v0"),
    qdisc.prio("v0"),
    qdisc.etf("v0", "root", delta_ns=200_000, skip_sock_check=True),
    qdisc.bfifo("v0", 100_000),
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
