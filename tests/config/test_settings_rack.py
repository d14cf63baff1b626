"""The file of a rack: what is read from it, and what is refused."""

import pytest

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import RackSettings, parse
from tsnrepro.config import files as campaigns
from tsnrepro.config.campaigns import Selection
from tsnrepro.config.registry import RACK, experiments
from tsnrepro.runner.plan import left_out, planned_trials
from tsnrepro.testbeds.choose import choose, unsupported_reason
from tsnrepro.workflow.selection import plan

EXAMPLE = campaigns.testbed_settings("d10-example").model_dump(mode="json")
COMPUTER = {
    **{"driver": "ebpf", "address": "192.0.2.21"},
    **{"host_port": "eth4", "member_ports": ["eth1", "eth2"]},
}

OTHER_COMPUTER = COMPUTER | {"address": "192.0.2.22"}


def changed(*path, to):
    """Return the example with one value changed."""
    document = parse(RackSettings, EXAMPLE, "a file").model_dump(mode="json")
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return document


def test_the_example_is_the_published_network():
    settings = campaigns.testbed_settings("d10-example")
    assert isinstance(settings, RackSettings)
    assert settings.paths == 2
    ports = [port.device for port in settings.hosts.sw1.member_ports]
    assert (settings.hosts.sw1.host_port.device, ports) == ("eth4", ["eth1", "eth2"])
    assert settings.hosts.talker.ipv4 == "10.0.100.1"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("hosts", "talker", "password"), "secret", "hosts.talker.password: Extra inputs"),
        (("hosts", "talker", "address"), "-oProxyCommand=x", "hosts.talker.address"),
        (("hosts", "talker", "interface"), "eth0;reboot", "hosts.talker.interface"),
        (("hosts", "talker", "ipv4"), "10.0.101.1", "are not two addresses of one /24"),
        (("hosts", "talker", "ipv4"), "10.0.100.255", "the address of a network"),
        (("hosts", "talker", "ipv4"), "10.0.100.0", "the address of a network"),
        (("hosts", "talker", "ipv4"), "224.0.0.1", "not the address of a host"),
        (("hosts", "talker", "ipv4"), "0.0.0.1", "not the address of a host"),
        (("hosts", "talker", "ipv4"), "10.0.100.256", "is no IPv4 address"),
        (
            ("hosts", "sw1", "address"),
            EXAMPLE["hosts"]["talker"]["address"],
            "talker and sw1 are the same host",
        ),
        *(
            (("hosts", "sw1", "address"), spelled, "talker and sw1 are the same host")
            for spelled in ("192.0.2.11.", "::ffff:192.0.2.11", "0:0::FFFF:c000:20b")
        ),
        (("hosts", "sw1", "driver"), "cisco", "does not match any of the expected tags"),
        (("hosts", "sw1", "host_port", "chip_port"), 9, "less than or equal to 8"),
        (("hosts", "sw1", "host_port", "device"), "eth1", "sw1 has one port twice"),
        (("hosts", "sw2", "member_ports"), [{"device": "eth1", "chip_port": 1}], "sw1 has 2 ports"),
        (("lease_minutes",), 0, "lease_minutes"),
        (
            ("ptp",),
            {"interfaces": {"talker": "enp2s0", "listener": "eth9"}},
            "PTP's frames would be",
        ),
        (("ptp",), {"domain": 0}, "ptp.interfaces: Field required"),
        (("queue_bytes",), 1600, "queue_bytes: Extra inputs"),
    ],
)
def test_what_cannot_be_a_rack_is_refused(path, value, said):
    with pytest.raises(ConfigurationError) as refused:
        parse(RackSettings, changed(*path, to=value), "a file")
    assert said in str(refused.value)


def test_a_rack_is_never_taken_unasked(monkeypatch):
    monkeypatch.setattr("tsnrepro.testbeds.choose.missing_on_machine", lambda kind: ["everything"])
    on_racks = [e for e in experiments().values() if RACK in e.kinds]
    tools = {"loss", "tcp", "latency", "mausezahn", "ping"}
    assert {e.name for e in on_racks} == tools | {
        "rfc2544",
        "failure",
        "streams",
        "traffic",
        "capture",
    }
    for experiment in on_racks:
        chosen, why = choose(experiment)
        assert chosen == ""
        assert RACK not in why


def test_what_a_rack_can_measure_follows_from_its_switches():
    skipped = plan(Selection(testbed="d10-example", campaign="quick")).skipped
    assert skipped["streams"] == "sw1 and sw2 cannot distinguish several streams"
    assert skipped["traffic"] == skipped["streams"]
    assert "counters, which sw1 and sw2 lack" in skipped["capture"]
    assert not {"loss", "rfc2544"} & skipped.keys()
    one = parse(RackSettings, changed("hosts", "sw1", to=COMPUTER), "a file")
    assert (
        unsupported_reason(experiments()["streams"], one)
        == "sw2 cannot distinguish several streams"
    )
    both = EXAMPLE | {"hosts": EXAMPLE["hosts"] | {"sw1": COMPUTER, "sw2": OTHER_COMPUTER}}
    computers = parse(RackSettings, both, "a file")
    assert unsupported_reason(experiments()["streams"], computers) == ""
    assert "record_addresses is false" in unsupported_reason(experiments()["capture"], computers)
    open_ones = parse(RackSettings, both | {"record_addresses": True}, "a file")
    assert unsupported_reason(experiments()["capture"], open_ones) == ""


def test_trials_that_a_rack_cannot_measure_are_left_out_with_the_reason(monkeypatch):
    def scenarios() -> set[str]:
        planned = planned_trials("failure", "d10-example", "quick")
        return {item.trial.factors["scenario"] for item in planned}

    reasons = left_out("failure", "d10-example", "quick")
    named = {reason.partition(" c")[0]: labels for reason, labels in reasons.items()}
    assert named["sw2"] == ["restart-sw2-control", "restart-sw2-frer"]
    assert "restart-sw1-frer" in named["sw1"]
    assert "lossy-frer" in named["sw1 and sw2"]
    cables = [labels for reason, labels in reasons.items() if "cannot be changed" in reason]
    assert {label for labels in cables for label in labels} == {
        *("three-paths-control", "three-paths-frer", "delay-1ms-control", "delay-1ms-frer"),
        *("delay-10ms-control", "delay-10ms-frer"),
    }
    links = {"none", "cuts", "failover", "delay"}
    assert scenarios() == links

    both = EXAMPLE | {"hosts": EXAMPLE["hosts"] | {"sw1": COMPUTER, "sw2": OTHER_COMPUTER}}
    settings = parse(RackSettings, both, "a file")
    monkeypatch.setattr("tsnrepro.runner.plan.testbed_settings", lambda _: settings)
    ours = {"silent-death", "lossy", "duplicating", "stuck-generator", "restart-sw1", "restart-sw2"}
    assert scenarios() == links | ours


def test_links_of_another_rate_are_refused_on_a_rack(monkeypatch):
    quick = campaigns.campaign("quick")
    slow = quick.model_copy(
        update={"rfc2544": quick.rfc2544.model_copy(update={"link_rate_mbps": 10})}
    )
    monkeypatch.setattr("tsnrepro.runner.plan.campaign", lambda _: slow)
    with pytest.raises(ConfigurationError, match="link_rate_mbps is 10, and a rack cannot change"):
        planned_trials("rfc2544", "d10-example", "quick")
    assert planned_trials("mausezahn", "d10-example", "quick")
