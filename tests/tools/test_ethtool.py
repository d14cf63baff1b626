"""What ethtool(8) prints of a card's features."""

from tsnrepro.tools.ethtool import parse_features

# ethtool 6.1 of a veth port, shortened.
PRINTED = """\
Features for eth0:
rx-checksumming: on
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
\ttx-checksum-ip-generic: on
generic-segmentation-offload: off [requested on]
tx-udp_tnl-segmentation: on
"""


def test_features_of_a_group_are_read_too():
    assert parse_features(PRINTED) == {
        "rx-checksumming": (True, False),
        "tx-checksumming": (True, False),
        "tx-checksum-ipv4": (False, True),
        "tx-checksum-ip-generic": (True, False),
        "generic-segmentation-offload": (False, False),
        "tx-udp_tnl-segmentation": (True, False),
    }
