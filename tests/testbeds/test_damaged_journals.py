"""Damaged journals: what can be read is undone, the rest is named, and the file stays."""

import json
from types import SimpleNamespace

import pytest
from damage import NUMBERS, damaged_json_file, read_each_file

from tsnrepro.common.errors import ConfigurationError, TestbedError, TsnreproError
from tsnrepro.config import BenchSettings, parse
from tsnrepro.testbeds.bench import ports as bench
from tsnrepro.testbeds.hosts import ports, remote
from tsnrepro.testbeds.hosts.remote import RemoteHosts
from tsnrepro.testbeds.hosts.rollback import Journal
from tsnrepro.testbeds.rack.switch import LinuxSwitch

# Without the promiscuous mode, which journals of a former release lack.
STATE = {
    "up": True,
    "mtu": 1500,
    "offloads": {"tx": True},
    "clsact": False,
    "disable_ipv6": "0",
}
CHANGED = STATE | {"offloads": {"tx": False}, "clsact": True}
MACS = {"enp3s0": "02:00:00:00:00:03", "enp4s0": "02:00:00:00:00:04"}
SETTINGS = {
    "kind": "bench",
    "device": "none",
    "ports": {"talker": ["enp3s0"], "listener": ["enp4s0"]},
}
ENTRY = {
    "settings": parse(BenchSettings, SETTINGS, "a bench").model_dump(mode="json"),
    "token": "",
    "ports": [
        {"role": "talker", "device": "enp3s0", "host": "sw1", "name": "m0"},
        {"role": "listener", "device": "enp4s0", "host": "sw2", "name": "m0"},
    ],
    "state": {device: {"mac": mac, "port": STATE, "stamps": None} for device, mac in MACS.items()},
}


class Pc:
    """A machine whose two ports a killed campaign left in namespaces; it obeys the commands."""

    name, dry_run = "this machine", False

    def __init__(self):
        self.inside = {"tsnrepro-rack-sw1": {"m0": "enp3s0"}, "tsnrepro-rack-sw2": {"m0": "enp4s0"}}
        self.here = {}

    def query(self, argv):
        match argv:
            case ["ip", "-n", space, "-j", "link", "show"] if space in self.inside:
                names = self.inside[space].items()
                shown = json.dumps([{"ifname": n, "address": MACS[d]} for n, d in names])
                return SimpleNamespace(exit_status=0, stdout=shown)
            case ["test", "-e", path]:
                there = path.rpartition("/")[2] in self.inside
                return SimpleNamespace(exit_status=0 if there else 1, stdout="")
        return SimpleNamespace(exit_status=1, stdout="")

    def change(self, argv):
        match argv:
            case ["ip", "-n", space, "link", "set", "dev", name, "netns", _, "name", device]:
                self.inside[space].pop(name)
                self.here[device] = dict(CHANGED)
            case ["ip", "netns", "delete", space]:
                assert not self.inside.pop(space), "its ports would be gone"

    def change_all(self, commands):
        for argv in commands:
            match argv:
                case ["tc", "qdisc", "del", "dev", device, "clsact"]:
                    self.here[device]["clsact"] = False
                case ["ethtool", "-K", device, "tx", "on"]:
                    self.here[device]["offloads"] = {"tx": True}


@pytest.fixture
def pc(monkeypatch):
    made = Pc()
    monkeypatch.setattr(bench, "local_shell", lambda _: made)
    monkeypatch.setattr(ports, "save", lambda _, device: dict(made.here[device]))
    monkeypatch.setattr(ports, "links", lambda _, devices: {*devices} & {*made.here})
    return made


def without(mapping, key):
    return {name: value for name, value in mapping.items() if name != key}


def of_first(state):
    return ENTRY | {"state": ENTRY["state"] | {"enp3s0": state}}


SOUND = ENTRY["state"]["enp3s0"]


@pytest.mark.parametrize(
    ("entry", "says", "restored"),
    [
        (of_first(SOUND | {"port": without(STATE, "mtu")}), "enp3s0.*lacks mtu", STATE),
        (of_first(SOUND | {"port": STATE | {"offloads": 5}}), "enp3s0.*damaged", CHANGED),
        (of_first(without(SOUND, "port")), "enp3s0.*lacks 'port'", CHANGED),
        (of_first("x"), "enp3s0.*lacks .port.", CHANGED),
        (ENTRY | {"state": without(ENTRY["state"], "enp3s0")}, "enp3s0.*damaged", CHANGED),
        (ENTRY | {"ports": [{"role": "talker"}, ENTRY["ports"][1]]}, "port.*talker", None),
        (ENTRY | {"ports": [7, ENTRY["ports"][1]]}, "port 7", None),
        (ENTRY | {"ports": ENTRY["ports"][1:]}, "enp3s0.*lacks where", None),
        # Its namespace is kept: a card would come out of it by itself, other devices would end.
        (
            of_first(without(SOUND, "mac"))
            | {"ports": [ENTRY["ports"][0] | {"name": "x"}, ENTRY["ports"][1]]},
            "enp3s0.*neither here nor in",
            None,
        ),
    ],
)
def test_the_other_port_is_restored_and_the_damage_is_named(tmp_path, pc, entry, says, restored):
    """The port whose state is damaged comes back too, with what its state still has."""
    journal = Journal("rack", tmp_path)
    journal.write(entry)
    written = journal.path.read_bytes()
    with pytest.raises(TestbedError, match=says) as error:
        bench.give_back(journal)
    assert error.value.where == str(journal.path)
    assert "remove this file" in error.value.remedy
    assert journal.path.read_bytes() == written
    assert pc.here.get("enp3s0") == restored
    assert pc.here["enp4s0"] == STATE
    assert "tsnrepro-rack-sw2" not in pc.inside
    journal.write(ENTRY)
    assert bench.give_back(journal)
    assert {*pc.here} == {*MACS}
    assert journal.read() is None


def test_ports_come_back_without_the_settings(tmp_path, pc):
    journal = Journal("rack", tmp_path)
    journal.write(ENTRY | {"settings": {"kind": "no such kind"}})
    assert bench.give_back(journal)
    assert pc.here == dict.fromkeys(MACS, STATE)


@pytest.mark.parametrize("number", NUMBERS)
def test_any_damage_is_an_error_that_names_the_file_or_no_hindrance(tmp_path, pc, number):
    journal = Journal("rack", tmp_path)
    journal.write(ENTRY)

    def restore():
        content = journal.path.read_bytes()
        pc.__init__()
        try:
            bench.give_back(journal)
        except TsnreproError:
            assert journal.path.read_bytes() == content
            raise
        assert pc.here == dict.fromkeys(json.loads(content)["state"], STATE)

    sound = journal.path.read_bytes()
    assert read_each_file(damaged_json_file(sound, number), journal.path, restore) > number / 2


def test_settings_that_reach_no_host_are_named(tmp_path):
    journal = Journal("rack", tmp_path)
    with pytest.raises(ConfigurationError, match="no such") as error:
        journal.settings({"settings": {"no such": 1}}, BenchSettings)
    assert error.value.where == str(journal.path)
    assert "config/testbeds/rack.yaml" in error.value.remedy


class Hosts(RemoteHosts):
    """Three hosts whose drivers restore what their saved state has."""

    program_hosts = ("sw1",)
    drivers = property(lambda self: self.made)

    def __init__(self, restored):
        super().__init__({name: SimpleNamespace(name=name) for name in ("sw1", "sw2", "talker")})
        self.made = {
            name: SimpleNamespace(
                save=lambda: {"port": STATE},
                restore=lambda state, name=name: restored.update({name: state["port"]}),
            )
            for name in self.shells
        }


@pytest.mark.parametrize("damaged", [{}, 5, None, [], "lacking"])
def test_the_other_hosts_are_restored_and_programs_end(monkeypatch, damaged):
    restored, ended = {}, []
    monkeypatch.setattr(remote.programs, "remove", lambda shell: ended.append(shell.name))
    state = {"sw2": {"port": STATE}, "talker": {"port": STATE}}
    state |= {} if damaged == "lacking" else {"sw1": damaged}
    with pytest.raises(TestbedError, match=r"state of sw1 is damaged.*Reboot sw1") as error:
        Hosts(restored).restore(state)
    assert error.value.where == "sw1"
    assert restored == {"sw2": STATE, "talker": STATE}
    assert ended == ["sw1"]


def test_the_other_ports_of_a_switch_are_restored(monkeypatch):
    restored = []
    monkeypatch.setattr(ports, "restore", lambda _, device, __: restored.append(device))
    shell = SimpleNamespace(host=SimpleNamespace(name="sw1"))
    settings = SimpleNamespace(host_port="eth0", member_ports=["eth1", "eth2"])
    switch = LinuxSwitch(shell, settings, "frerctl")
    switch.restore(dict.fromkeys(("eth0", "eth1", "eth2"), STATE))
    assert restored == ["eth0", "eth1", "eth2"]
    restored.clear()
    with pytest.raises(KeyError, match="eth1"):
        switch.restore({"eth0": STATE, "eth2": STATE})
    assert restored == ["eth0", "eth2"]
