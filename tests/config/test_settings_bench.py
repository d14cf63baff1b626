"""The file of a bench: ports of this machine and what lies between them."""

import re

import pytest

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import BenchSettings, parse

PORTS = {"talker": ["enp3s0"], "listener": ["enp4s0"]}
TWO = {"talker": ["enp3s0", "enp5s0"], "listener": ["enp4s0", "enp6s0"]}


def settings(**changes):
    document = {"kind": "bench", "device": "none", "ports": PORTS} | changes
    return parse(BenchSettings, document, "a bench")


def test_a_bench_of_two_ports_has_one_path_and_one_of_four_has_two():
    assert settings().paths == 1
    assert settings(ports=TWO, device="GS308 (blue)").paths == 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"speed": 1000}, "speed.*Known keys.*link_rate_mbps"),
        ({"ports": PORTS | {"member": []}}, "ports.member.*Known keys of ports: talker, listener"),
        ({"ports": {"talker": ["enp3s0"]}}, "ports.listener: Field required"),
        ({"ports": {"talker": ["a"], "listener": ["b", "c"]}}, "talker has 1 port and listener 2"),
        ({"ports": {"talker": ["a"], "listener": ["a"]}}, "a: a port is the talker's or"),
        ({"ports": {"talker": ["a", "a"], "listener": ["b", "c"]}}, "are the same"),
        ({"ports": {"talker": ["/dev/x"], "listener": ["b"]}}, "talker.0"),
        ({"device": None}, "device"),
        ({"device": "\x1b[31m"}, "device"),
        ({"link_rate_mbps": 0}, "link_rate_mbps"),
        ({"paths": 2}, "paths"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(changes, says):
    with pytest.raises(ConfigurationError) as error:
        settings(**changes)
    assert re.search(says, str(error.value), re.DOTALL)


def test_what_only_namespaces_have_is_not_there():
    bench = settings()
    assert bench.delayed_paths == {}
    assert bench.elimination == "switch"
    assert bench.member_link_rate_mbps is None
    assert not bench.trace_drops
