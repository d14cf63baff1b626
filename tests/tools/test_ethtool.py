"""What ethtool prints of network cards: offloads to restore, and time stamps by driver."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.tools import ethtool

# As a driver has them: one feature of TCP's off, and some that cannot be changed.
FEATURES = """\
Features for enp3s0:
rx-checksumming: on
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
\ttx-checksum-ip-generic: on
scatter-gather: on
\ttx-scatter-gather: on
\ttx-scatter-gather-fraglist: off [fixed]
tcp-segmentation-offload: on
\ttx-tcp-segmentation: on
\ttx-tcp-mangleid-segmentation: off
\ttx-tcp6-segmentation: on
generic-segmentation-offload: on
large-receive-offload: off [fixed]
rx-vlan-offload: on
tx-udp_tnl-segmentation: on
tx-udp-segmentation: off [requested on]
"""


def test_features_that_sum_up_others_are_left_out():
    """`ethtool -K enp3s0 tso on` would turn tx-tcp-mangleid-segmentation on."""
    found = ethtool.changeable_features(FEATURES)
    assert found == {
        "rx-checksumming": True,
        "tx-checksum-ip-generic": True,
        "tx-scatter-gather": True,
        "tx-tcp-segmentation": True,
        "tx-tcp-mangleid-segmentation": False,
        "tx-tcp6-segmentation": True,
        "generic-segmentation-offload": True,
        "rx-vlan-offload": True,
        "tx-udp_tnl-segmentation": True,
        "tx-udp-segmentation": False,
    }


_NAMES = st.text("abc09_-", max_size=9).map("f{}".format)
_STATES = st.tuples(st.booleans(), st.booleans())


@given(st.dictionaries(_NAMES, _STATES), st.data())
def test_every_single_feature_is_found(features, data):
    lines, expected = ["Features for eth0:"], {}
    for name, (on, fixed) in features.items():
        indented = len(lines) > 1 and data.draw(st.booleans())
        if indented and not lines[-1].startswith("\t"):
            expected.pop(lines[-1].partition(":")[0], None)
        indent, state = "\t" * indented, "on" if on else "off"
        lines.append(f"{indent}{name}: {state}{' [fixed]' * fixed}")
        if not fixed:
            expected[name] = on
    assert ethtool.changeable_features("\n".join(lines)) == expected


# --- time stamps ------------------------------------------------------------------------------

SOFTWARE = ("software-transmit", "software-receive", "software-system-clock")
HARDWARE = ("hardware-transmit", "hardware-receive", "hardware-raw-clock")
# The kernel's names, which ethtool printed until its requests went over netlink.
CONSTANTS = {
    "hardware-transmit": "SOF_TIMESTAMPING_TX_HARDWARE",
    "hardware-receive": "SOF_TIMESTAMPING_RX_HARDWARE",
    "hardware-raw-clock": "SOF_TIMESTAMPING_RAW_HARDWARE",
    "all": "HWTSTAMP_FILTER_ALL",
}
OLD, NETLINK, PROVIDER = "ethtool 5.4", "ethtool 6.1", "ethtool 6.14"
PTP_V2 = ("ptpv2-l4-sync", "ptpv2-l2-sync", "ptpv2-event", "ptpv2-sync")


def printed(form, capabilities, clock, filters):
    """Return what ethtool of some version prints."""

    def row(name):
        return f"\t{name:21} ({CONSTANTS.get(name, 'OTHER')})" if form == OLD else f"\t{name}"

    clocks = [f"PTP Hardware Clock: {'none' if clock is None else clock}"]
    if form == PROVIDER and clock is not None:
        clocks = [
            f"Hardware timestamp provider index: {clock}",
            "Hardware timestamp provider qualifier: Precise (IEEE 1588 quality)",
        ]
    modes = [" none"] if not filters else ["", *map(row, filters)]
    return "\n".join(
        [
            "Time stamping parameters for enp3s0:",
            "Capabilities:",
            *map(row, capabilities),
            *clocks,
            "Hardware Transmit Timestamp Modes:",
            *map(row, ("off", "on")),
            f"Hardware Receive Filter Modes:{modes[0]}",
            *modes[1:],
            "",
        ]
    )


@pytest.mark.parametrize("form", [OLD, NETLINK, PROVIDER])
@pytest.mark.parametrize(
    ("capabilities", "clock", "filters", "lacks"),
    [
        # igb and igc, i210 and i225; e1000e has PTP's filters beside `all`.
        ((*HARDWARE, *SOFTWARE), 0, ("none", "all"), []),
        ((*HARDWARE, *SOFTWARE), 3, ("none", "all", *PTP_V2), []),
        # PHYs such as BCM54210PE stamp PTP's frames alone, as some MACs do.
        ((*HARDWARE, *SOFTWARE), 0, ("none", "ptpv2-event"), ["receive filter `all`"]),
        # r8169 and USB adapters, and one whose driver leaves stamps of sent frames out.
        (SOFTWARE, None, (), [*HARDWARE, "receive filter `all`"]),
        (SOFTWARE[1:], None, (), [*HARDWARE, "receive filter `all`"]),
    ],
)
def test_time_stamping_of_cards(form, capabilities, clock, filters, lacks):
    text = printed(form, capabilities, clock, filters)
    assert ethtool.clock_index(text) == clock
    in_order = [name for name in (*ethtool._CAPABILITIES, "receive filter `all`") if name in lacks]
    assert ethtool.missing_timestamping(text, every_frame=True) == in_order
    of_ptp = [name for name in in_order if name in HARDWARE]
    assert ethtool.missing_timestamping(text, every_frame=False) == of_ptp
