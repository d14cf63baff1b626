"""What the doctor makes of what ip, ethtool and the kernel print of a port.

The printed texts are those of ethtool's sources: up to 6.8 a blank stands behind the colons of
``-c``, later a tab; igb (i210) and igc (i225) fill them in.
"""

import json
import subprocess
from contextlib import nullcontext

import pytest
from examined import examined, found

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import load_testbed
from tsnrepro.testbeds.doctor import ports as checks
from tsnrepro.testbeds.doctor.findings import PASS, STOP, WARN
from tsnrepro.testbeds.hosts import ports

EXAMPLES = root() / "config" / "testbeds"
CARD = "enp3s0"

COALESCING = """\
Coalesce parameters for enp3s0:
Adaptive RX: {adaptive}  TX: off
stats-block-usecs: n/a

rx-usecs:{gap}{rx}
rx-frames:{gap}n/a
rx-usecs-irq:{gap}n/a

tx-usecs:{gap}{tx}
tx-frames:{gap}n/a
"""
PAUSE = """\
Pause parameters for enp3s0:
Autonegotiate:\ton
RX:\t\t{asked}
TX:\t\toff
RX negotiated: {negotiated}
TX negotiated: off
"""
EEE = """\
EEE settings for enp3s0:
\tEEE status: {status}
\tTx LPI: 17 (us)
\tSupported EEE link modes:  100baseT/Full
\t                           1000baseT/Full
"""
FEATURES = """\
Features for enp3s0:
rx-checksumming: on
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
scatter-gather: on
tcp-segmentation-offload: {tso}
\ttx-tcp-segmentation: on
generic-segmentation-offload: on
generic-receive-offload: on
large-receive-offload: {lro}
rx-vlan-offload: on
"""


@pytest.fixture(scope="module")
def pair():
    return load_testbed(EXAMPLES / "i210-example.yaml")


@pytest.fixture(scope="module")
def rack():
    return load_testbed(EXAMPLES / "d10-example.yaml")


def check_clocks(settings, prints, check=checks.hardware, role="talker"):
    return found(check, examined(settings, role, {"card": CARD}, prints))


@pytest.mark.parametrize("gap", [" ", "\t"])
@pytest.mark.parametrize(
    ("rx", "tx", "adaptive", "verdict", "shown"),
    [
        (3, 3, "n/a", WARN, "rx-usecs 3, tx-usecs 3"),
        (0, 50, "off", WARN, "tx-usecs 50"),
        (0, 0, "on", WARN, "adaptive-rx on"),
        (0, "n/a", "off", PASS, "none"),
    ],
)
def test_frames_that_wait_in_the_card_are_seen(pair, gap, rx, tx, adaptive, verdict, shown):
    printed = COALESCING.format(gap=gap, rx=rx, tx=tx, adaptive=adaptive)
    finding = check_clocks(pair, {f"ethtool -c {CARD}": printed})[f"coalescing of {CARD}"]
    assert (finding.verdict, finding.found) == (verdict, shown)
    assert ("adaptive-rx off" in finding.remedy) == (adaptive == "on")


@pytest.mark.parametrize(
    ("interrupts", "running", "verdict", "shown"),
    [
        # As of igc, which has one for its link and one for each queue.
        ("125 0\n126 2-3\n", "systemd\nirqbalance\n", WARN, "125 on processor 0, 126 on"),
        ("125 0\n126 2-3\n", "systemd\n", PASS, "125 on processor 0, 126 on processor 2-3"),
        ("17 \n", "systemd\n", PASS, "not supported"),  # has not come up
        ("", "irqbalance\n", PASS, "not supported"),
    ],
)
def test_interrupts_and_their_processors_are_listed(pair, interrupts, running, verdict, shown):
    listed = " ".join(["sh", "-c", checks._LIST_INTERRUPTS, "sh", CARD])
    findings = check_clocks(pair, {listed: interrupts, "ps -e -o comm=": running})
    finding = findings[f"interrupts of {CARD}"]
    assert finding.verdict == verdict
    assert finding.found.startswith(shown)
    assert ("irqbalance moves them" in finding.found) == (verdict == WARN)


def test_interrupts_are_listed_by_sysfs(tmp_path):
    """MSI vectors that no driver asked for have no folder in /proc/irq."""
    device, irqs = (tmp_path / name for name in ("sys/class/net/enp3s0/device", "proc/irq"))
    for number in (125, 126, 127):
        (device / f"msi_irqs/{number}").mkdir(parents=True)
    for number, processors in ((125, "0"), (126, "2-3")):
        (irqs / str(number)).mkdir(parents=True)
        (irqs / str(number) / "effective_affinity_list").write_text(f"{processors}\n")
    script = checks._LIST_INTERRUPTS
    for folder in ("/sys/class", "/proc/irq"):
        script = script.replace(folder, f"{tmp_path}{folder}")
    argv = ["sh", "-c", script, "sh", "enp3s0"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == (
        "125 0\n126 2-3\n"
    )
    missing = subprocess.run([*argv[:-1], "enp9s0"], capture_output=True, text=True, check=True)
    assert missing.stdout == ""


@pytest.mark.parametrize(
    ("asked", "negotiated", "verdict", "shown"),
    [
        ("on", "off", WARN, "RX on"),
        ("off", "on", WARN, "RX on"),  # what counts where both ends have agreed
        ("on", "on", WARN, "RX on"),
        ("off", "off", PASS, "off"),
    ],
)
def test_pause_frames_are_seen_as_set_and_as_agreed(pair, asked, negotiated, verdict, shown):
    printed = PAUSE.format(asked=asked, negotiated=negotiated)
    finding = check_clocks(pair, {f"ethtool -a {CARD}": printed})[f"pause frames of {CARD}"]
    assert (finding.verdict, finding.found) == (verdict, shown)


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ("enabled - active", WARN),
        ("enabled", WARN),
        ("enabled - inactive", PASS),
        ("disabled", PASS),
        ("not supported", PASS),
    ],
)
def test_energy_is_saved_where_both_ends_do(pair, status, verdict):
    printed = EEE.format(status=status)
    finding = check_clocks(pair, {f"ethtool --show-eee {CARD}": printed})[f"EEE of {CARD}"]
    assert finding.verdict == verdict


@pytest.mark.parametrize(
    ("tso", "lro", "verdict", "shown", "remedy"),
    [
        ("on", "off [fixed]", PASS, "tcp-segmentation-offload, generic-seg", ""),
        ("on [fixed]", "off", WARN, "tcp-segmentation-offload on", "Use another card"),
        ("off", "on", WARN, "large-receive-offload on", f"ethtool -K {CARD} lro off"),
        ("off", "on [fixed]", WARN, "large-receive-offload on", "Use another card"),
    ],
)
def test_offloads_that_stay_on_are_told(pair, tso, lro, verdict, shown, remedy):
    """A campaign turns those off that it can, which are no reason to warn."""
    printed = FEATURES.format(tso=tso, lro=lro)
    finding = check_clocks(pair, {f"ethtool -k {CARD}": printed})[f"offloads of {CARD}"]
    assert finding.verdict == verdict
    assert finding.found.startswith(shown)
    assert remedy in finding.remedy


def test_what_a_driver_does_not_tell_is_not_told_as_off(pair):
    for finding in check_clocks(pair, {}).values():
        assert (finding.verdict, finding.found) == (PASS, "not supported by the driver"), (
            finding.check
        )


# --- errors and other traffic -----------------------------------------------------------------

FOLDER = f"/sys/class/net/{CARD}/statistics"
PACKETS = f"cat {FOLDER}/rx_packets {FOLDER}/tx_packets"
KERNELS = "cat " + " ".join(
    f"{FOLDER}/{name}"
    for name in (
        *("rx_errors", "tx_errors", "rx_missed_errors", "collisions", "rx_dropped", "tx_dropped"),
    )
)


def statistics(crc, missed=0):
    """Return some of igb's, in the form of ``ethtool -S``."""
    return (
        f"NIC statistics:\n     rx_packets: 5061\n     rx_crc_errors: {crc}\n"
        f"     rx_missed_errors: {missed}\n     tx_timeout_count: 7\n     rx_queue_0_drops: 9\n"
    )


def idle(settings, driver, kernel=("0\n" * 6, "0\n" * 6), packets=("5\n5\n", "6\n5\n")):
    prints = {PACKETS: [*packets], KERNELS: [*kernel]}
    prints |= {f"ethtool -S {CARD}": [*driver]} if driver else {}
    return check_clocks(settings, prints, checks.idle_traffic)


@pytest.fixture(autouse=True)
def max_parallel(monkeypatch):
    monkeypatch.setattr(checks.time, "sleep", lambda _: None)


def test_errors_that_grow_are_told_apart_from_old_ones(pair):
    growing = idle(pair, (statistics(40, 2), statistics(43, 2)))[f"errors of {CARD}"]
    assert (growing.verdict, growing.found) == (WARN, "increasing: rx_crc_errors 3")
    old = idle(pair, (statistics(40), statistics(40)))[f"errors of {CARD}"]
    assert (old.verdict, old.found) == (WARN, "rx_crc_errors 40, not increasing")
    clean = idle(pair, (statistics(0), statistics(0)))[f"errors of {CARD}"]
    assert (clean.verdict, clean.found) == (PASS, "none")


def test_the_kernels_count_stands_in_for_a_drivers(pair):
    grown = idle(pair, None, kernel=("1\n" + "0\n" * 5, "4\n" + "0\n" * 5))[f"errors of {CARD}"]
    assert (grown.verdict, grown.found) == (WARN, "increasing: rx_errors 3")


@pytest.mark.parametrize(
    ("counters", "verdict", "shown"),
    [
        # stmmac: states of its queues, and its counters of errors
        ({"mtl_tx_fifo_not_empty": 412, "mac_rx_frame_ctrl_fifo": 12}, PASS, "none"),
        ({"mmtl_fifo_ctrl": 3, "mmc_rx_fifo_overflow": 4}, WARN, "mmc_rx_fifo_overflow 4"),
        # ixgbe, hv_netvsc and vmxnet3
        ({"rx_no_dma_resources": 9, "fdir_miss": 7}, WARN, "rx_no_dma_resources 9"),
        ({"alloc_rx_page": 70, "alloc_rx_page_failed": 4}, WARN, "alloc_rx_page_failed 4"),
        ({"rx_no_memory": 2, "tx_busy": 7}, WARN, "rx_no_memory 2"),
        ({"  pkts rx OOB": 3, "  ucast pkts rx": 7}, WARN, "pkts rx OOB 3"),
        # be2net, bnx2x and enetc
        ({"rxq0: rx_pkts": 5, "rxq0: rx_compl_err": 21}, WARN, "rxq0: rx_compl_err 21"),
        ({"[0]: rx_csum_offload_errors": 17}, WARN, "[0]: rx_csum_offload_errors 17"),
        ({"SI rx octets": 8, "MAC rx fcs errors": 231}, WARN, "MAC rx fcs errors 231"),
        # switches: ocelot and felix, mv88e6xxx, sja1105; gates of stmmac and felix
        ({"rx_fragments": 2, "rx_longs": 9}, WARN, "rx_fragments 2"),
        ({"in_bad_octets": 64, "in_oversize": 9, "in_pause": 8}, WARN, "in_bad_octets 64"),
        ({"n_qfull": 3, "n_runt": 1, "n_rxfrm": 9}, WARN, "n_qfull 3, n_runt 1"),
        ({"mtl_est_txq_hlbf[0]": 2, "tx_aged": 5}, WARN, "mtl_est_txq_hlbf[0] 2, tx_aged 5"),
        # cxgb4, atlantic, e1000e, r8169, sfc, i40e, fec and bnxt
        ({"TxErrorFrames": 2, "TxFramesOK": 7}, WARN, "TxErrorFrames 2"),
        ({"InAllocFails": 2, "rx_dma_failed": 1}, WARN, "InAllocFails 2, rx_dma_failed 1"),
        ({"tx_aborted": 3, "rx_bad": 4}, WARN, "tx_aborted 3, rx_bad 4"),
        (
            {"port.illegal_bytes": 3, "IEEE_tx_lcol": 4},
            WARN,
            "port.illegal_bytes 3, IEEE_tx_lcol 4",
        ),
        ({"rx_undrsz_frames": 3, "missed_irqs": 4}, WARN, "rx_undrsz_frames 3"),
        ({"hw_tx_timestamp_missed": 3, "rx_corrected_bits_phy": 4}, PASS, "none"),
        # what was dropped before, and what is meant to be dropped
        ({"Rx ring  0 discarded frames": 12, "rx_queue_0_drops": 9}, PASS, "none"),
        ({"mac_filter_miss": 9, "rx_xdp_errors": 9, "drop_local": 9}, PASS, "none"),
    ],
)
def test_errors_by_the_names_of_a_driver(pair, counters, verdict, shown):
    lines = [f"     {name}: {count}\n" for name, count in counters.items()]
    text = "NIC statistics:\n" + "".join(lines)
    finding = idle(pair, (text, text))[f"errors of {CARD}"]
    assert (finding.verdict, finding.found.removesuffix(", not increasing")) == (verdict, shown)


def test_drops_on_an_idle_port_are_losses(pair):
    before, now = (f"NIC statistics:\n     rx_queue_0_drops: {count}\n" for count in (9, 12))
    finding = idle(pair, (before, now), ("0\n" * 6, "0\n0\n0\n0\n2\n0\n"))[f"errors of {CARD}"]
    assert finding.found == "increasing: rx_dropped 2, rx_queue_0_drops 3"


def test_other_traffic_is_told(pair):
    finding = idle(pair, None, packets=("100\n100\n", "180\n120\n"))
    assert finding[f"other traffic on {CARD}"].found == "100 frames/s"
    assert finding[f"other traffic on {CARD}"].verdict == WARN


# --- links ------------------------------------------------------------------------------------


def of_link(
    settings, *, mtu=1500, most=9216, speed="1000", duplex="full", role="talker", of_card=True
):
    links = [{"ifname": CARD, "flags": ["UP"], "mtu": mtu, "max_mtu": most}]
    place = f"/sys/class/net/{CARD}"
    prints = {f"ip -j -d link show dev {CARD}": json.dumps(links), f"cat {place}/carrier": "1\n"}
    prints |= {f"cat {place}/speed": f"{speed}\n", f"cat {place}/duplex": f"{duplex}\n"}
    prints |= {f"test -e {place}/device": ""} if of_card else {}
    name = "card" if role == "talker" else "m0"
    return found(checks.links, examined(settings, role, {name: CARD}, prints))


@pytest.mark.parametrize(("mtu", "verdict"), [(1500, PASS), (9000, WARN), (1280, STOP)])
def test_a_station_sends_frames_of_the_usual_size(rack, mtu, verdict):
    finding = of_link(rack, mtu=mtu)[f"MTU of {CARD}"]
    assert finding.verdict == verdict
    assert finding.found == f"{mtu} bytes"


@pytest.mark.parametrize(("most", "verdict"), [(9216, PASS), (1510, PASS), (1500, STOP)])
def test_a_member_port_has_room_for_the_tags(rack, most, verdict):
    """What it can be set to counts: a campaign sets it."""
    assert of_link(rack, most=most, role="sw1")[f"MTU of {CARD}"].verdict == verdict


@pytest.mark.parametrize(
    ("speed", "duplex", "verdict"),
    [
        ("1000", "full", PASS),
        ("100", "full", STOP),
        ("1000", "half", STOP),
        ("-1", "unknown", WARN),
    ],
)
def test_a_link_has_the_speed_that_is_asked_for(rack, speed, duplex, verdict):
    finding = of_link(rack, speed=speed, duplex=duplex)[f"speed of {CARD}"]
    assert finding.verdict == verdict


@pytest.mark.parametrize(("speed", "duplex"), [("100", "full"), ("1000", "half")])
def test_a_campaign_refuses_a_card_at_another_speed(rack, speed, duplex):
    place = f"/sys/class/net/{CARD}"
    prints = {f"cat {place}/speed": f"{speed}\n", f"cat {place}/duplex": f"{duplex}\n"}
    shell = examined(rack, "sw1", {}, prints).shell
    ports.check_speed(shell, CARD, 1000)  # not a card's, as between namespaces
    shell = examined(rack, "sw1", {}, prints | {f"test -e {place}/device": ""}).shell
    with pytest.raises(TestbedError, match=f"runs at {speed} Mb/s, {duplex} duplex"):
        ports.check_speed(shell, CARD, 1000)


@pytest.mark.parametrize(("mtu", "refused"), [(1280, True), (1500, False), (9000, False)])
def test_a_campaign_refuses_a_station_with_too_small_an_mtu(rack, mtu, refused):
    shell = examined(rack, "talker", {}, {}).shell
    says = f"has an MTU of {mtu} bytes, and campaigns need 1500"
    with pytest.raises(TestbedError, match=says) if refused else nullcontext():
        ports.check_mtu(shell, CARD, {"mtu": mtu})


def test_a_port_of_the_network_has_room_for_a_stations_frames(rack):
    links = [{"ifname": CARD, "flags": ["UP"], "mtu": 1280, "max_mtu": 9216}]
    prints = {f"ip -j -d link show dev {CARD}": json.dumps(links)}
    finding = found(checks.links, examined(rack, "sw1", {"p0": CARD}, prints))[f"MTU of {CARD}"]
    assert finding.verdict == STOP


@pytest.mark.parametrize(
    ("row", "refused"),
    [
        ({"kind": "tbf", "handle": "8001:"}, True),
        ({"kind": "fq_codel", "handle": "0:"}, False),
        ({"kind": "clsact", "handle": "ffff:"}, False),
    ],
)
def test_a_campaign_refuses_a_port_with_queues_of_others(rack, row, refused):
    prints = {f"tc -j qdisc show dev {CARD}": json.dumps([row])}
    shell = examined(rack, "talker", {}, prints).shell
    with pytest.raises(TestbedError, match="configured queues: tbf") if refused else nullcontext():
        ports.check_queues(shell, CARD)


# --- the way in -------------------------------------------------------------------------------


def login(links, server):
    printed = {f"sh -c {ports._SERVER}": f"{server}\n", "ip -j addr show": json.dumps(links)}
    return {line: [text, text] for line, text in printed.items()}


def came_over(settings, links, server="192.0.2.11"):
    host = examined(settings, "talker", {"card": CARD}, login(links, server))
    return found(checks.login_port, host)["login port"]


def link(name, address, **others):
    return {"ifname": name, "addr_info": [{"family": "inet", "local": address}], **others}


def test_a_login_over_the_measured_card_is_refused(rack):
    """Its offloads, its MTU and on a switch all its traffic are taken for a campaign."""
    assert came_over(rack, [link("lo", "127.0.0.1"), link(CARD, "192.0.2.11")]).verdict == STOP
    vlan = link("mgmt", "192.0.2.11", link=CARD)
    assert came_over(rack, [vlan]).verdict == STOP
    bridge = [{"ifname": CARD, "master": "br0"}, link("br0", "192.0.2.11")]
    assert came_over(rack, bridge).verdict == STOP
    vlan_of_bond = [{"ifname": CARD, "master": "bond0"}, {"ifname": "bond0"}]
    vlan_of_bond.append(link("bond0.5", "192.0.2.11", link="bond0"))
    assert came_over(rack, vlan_of_bond).verdict == STOP
    apart = [link(CARD, "10.0.100.1"), link("eno1", "192.0.2.11")]
    finding = came_over(rack, apart)
    assert (finding.verdict, finding.found) == (PASS, "eno1")
    assert came_over(rack, apart, server="").found.startswith("unknown")


@pytest.mark.parametrize("server", ["192.0.2.11", "fe80::1%enp3s0"])
def test_a_campaign_refuses_such_a_login_before_it_changes_anything(rack, server):
    links = [link(CARD, server.partition("%")[0])]
    host = examined(rack, "sw1", {"m0": CARD}, login(links, server))
    with pytest.raises(TestbedError, match=f"uses the measured port {CARD}"):
        ports.check_login(host.shell, [CARD])
    ports.check_login(host.shell, ["enp9s0"])
