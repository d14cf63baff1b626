"""Folders of this machine and addresses of somebody's machines stay out of records."""

import json
import sys

from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.common.repository import root
from tsnrepro.native import streams
from tsnrepro.records.store import RawStore, Trial
from tsnrepro.runner.anonymizer import Anonymizer, without_folders
from tsnrepro.runner.design import Planned
from tsnrepro.runner.run import run_trials

NAMES = {"10.0.100.1": "talker", "10.0.100.2": "listener"}


def test_a_name_stands_for_an_address_wherever_it_is():
    conceal = Anonymizer(NAMES)
    record = {
        "commands": [{"argv": ("iperf3", "-c", "10.0.100.2", "-B", "10.0.100.1/24")}],
        "iperf3.json": json.dumps({"remote_host": "10.0.100.2", "socket": 5}),
        "capture.pcap": b"10.0.100.2",
        "count": 5,
        "none": None,
    }
    assert conceal(record) == {
        "commands": [{"argv": ["iperf3", "-c", "listener", "-B", "talker/24"]}],
        "iperf3.json": json.dumps({"remote_host": "listener", "socket": 5}),
        "capture.pcap": b"10.0.100.2",
        "count": 5,
        "none": None,
    }


def test_other_addresses_and_versions_stay():
    text = "10.0.100.10 110.0.100.1 10.0.100.1.5 1.10.0.100.2 10.0.100.12"
    assert Anonymizer(NAMES)(text) == text
    assert Anonymizer(NAMES)("from 10.0.100.1: reply") == "from talker: reply"
    assert Anonymizer(NAMES)("10.0.100.2.") == "listener."


def test_cards_are_numbered():
    conceal = Anonymizer({})
    text = "02:00:00:00:00:0A ff:ff:ff:ff:ff:ff 02:00:00:00:00:0b 02:00:00:00:00:0a"
    assert conceal(text) == "card-1 ff:ff:ff:ff:ff:ff card-2 card-1"
    assert conceal(["02:00:00:00:00:0b", "12:30:45"]) == ["card-2", "12:30:45"]
    clock_identity = "aa:bb:cc:dd:ee:ff:00:11"
    assert conceal(clock_identity) == clock_identity


def test_the_identity_of_a_cards_clock_has_the_cards_number():
    """As pmc and ptp4l print it; of another clock's there is no card, but it is somebody's too."""
    conceal = Anonymizer({})
    assert conceal("ec:46:70:0a:9d:c9 and 02:00:00:00:00:0a") == "card-1 and card-2"
    said = "gmIdentity ec4670.fffe.0a9dc9, port EC4670.fffe.0A9DC9-1. Not 624c0b.1234.e2f8c6."
    assert conceal(said) == "gmIdentity card-1, port card-1-1. Not card-3."
    assert conceal({"grandmaster": "020000.fffe.00000a"}) == {"grandmaster": "card-2"}
    other = "000000.0000.000000 1234567.fffe.0a9dc9 123456.fffe.0a9dc90 1.123456.1234.123456"
    assert conceal(other) == other


@given(st.text(alphabet="0123456789.: abcf", max_size=60))
def test_no_address_is_left(text):
    concealed = Anonymizer(NAMES)(f"{text} 10.0.100.1 02:00:00:00:00:0a {text}")
    assert " 10.0.100.1 " not in f" {concealed} "
    assert " 02:00:00:00:00:0a " not in f" {concealed} "


def test_paths_in_a_record_are_relative_to_the_repository():
    record = {
        "argv": (f"{sys.prefix}/libexec/tsnrepro/0a/talker", "/usr/bin/iperf3"),
        "stderr": f"cannot open {root()}/config/a.yaml and {root()}/b",
        "capture.pcap": f"{root()}/".encode(),
        "count": 5,
    }
    assert without_folders(record) == {
        "argv": [".venv/libexec/tsnrepro/0a/talker", "/usr/bin/iperf3"],
        "stderr": "cannot open config/a.yaml and b",
        "capture.pcap": f"{root()}/".encode(),
        "count": 5,
    }


class Testbed:
    """A testbed without machines, whose trial names programs and files of this machine."""

    __test__ = False
    kind, machines, max_parallel = "emulated", (), 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def describe(self):
        return {"agent": str(streams.talker())}


def test_no_record_names_the_folder_of_the_repository(tmp_path):
    def measure(_testbed, _trial, measured):
        measured.commands.append({"argv": [f"{sys.prefix}/libexec/tsnrepro/0a/talker", "host"]})
        measured.outputs["talker.stderr.txt"] = f"{root()}/config is missing"
        measured.values["result"] = {"sent": 1}

    store = RawStore(tmp_path, "emulated", "test", "loss")
    planned = [Planned(Trial("loss", "one", {"configuration": "frer"}, 1), 0, 1.0)]
    run_trials(store, planned, 1, Testbed, measure)
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 4
    for folder in (root(), sys.prefix):
        assert not any(str(folder).encode() in content for content in written)
