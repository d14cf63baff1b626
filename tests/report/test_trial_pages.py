"""The page of a trial, from a record in its folder."""

import json

import pytest

from tsnrepro.report.trial_pages import trial_page

COUNTED = {
    "sent": 1000,
    "copies": 1000,
    "received": 990,
    "eliminated": 980,
    "drops": {"sw1 queue m0": 20, "sw1 queue m1": 10, "talker socket": 0},
    "unaccounted": 0,
    "untraced": 3,
}


@pytest.fixture
def record(tmp_path):
    def write(**changed):
        document = {
            "label": "frer-1472B-500M",
            "repetition": 2,
            "factors": {"configuration": "frer", "rate_mbps": 500.0, "generator": None},
            "values": {"result": {"lost": 10, "per": {"stream": [1] * 9}}, "accounting": COUNTED},
            "commands": [{"host": "talker", "argv": ["iperf3", "-c", "10.0.0.2"]}],
        }
        folder = tmp_path / "raw" / "frer-r2"
        folder.mkdir(parents=True)
        (folder / "trial.json").write_text(json.dumps(document | changed), encoding="utf-8")
        (folder / "iperf3.json").write_text("{" + " " * 9000 + "}", encoding="utf-8")
        (folder / "counters.json.gz").write_bytes(b"\x1f\x8b\xff")
        return folder

    return write


def test_what_was_asked_and_run_is_told(record, tmp_path):
    page = trial_page(record(), tmp_path / "pages")
    assert page["factors"] == {"repetition": "2", "configuration": "frer", "rate mbps": "500"}
    assert page["commands"] == [{"host": "talker", "text": "iperf3 -c 10.0.0.2"}]
    assert page["values"] == {"result": {"lost": "10", "per, stream": "9 entries"}}


def test_every_datagram_and_copy_is_in_the_drawing(record, tmp_path):
    way = {step["name"]: step for step in trial_page(record(), tmp_path)["way"]}
    counts = {name: step["count"] for name, step in way.items()}
    assert counts == {
        "sent by the talker": 1000,
        "copies made by FRER": 1000,
        "dropped: sw1 queue m0": 20,
        "dropped: sw1 queue m1": 10,
        "duplicates eliminated": 980,
        "received by the program": 990,
        "unaccounted for": 0,
    }
    begun, *ended = ("copies", "dropped", "duplicates", "received", "unaccounted")
    assert sum(n for name, n in counts.items() if name.startswith(("sent", begun))) == 2000
    assert sum(n for name, n in counts.items() if name.startswith(tuple(ended))) == 2000
    assert way["duplicates eliminated"]["share"] == 49


def test_a_trial_without_datagrams_has_no_drawing(record, tmp_path):
    assert trial_page(record(values={"goodput_mbps": 941.0}), tmp_path)["way"] == []


def test_outputs_are_linked_and_texts_shown_from_their_beginning(record, tmp_path):
    folder = record()
    outputs = {file["name"]: file for file in trial_page(folder, tmp_path / "pages")["outputs"]}
    assert outputs["counters.json.gz"]["text"] == ""
    assert outputs["iperf3.json"]["text"].startswith("{ ")
    assert not outputs["iperf3.json"]["whole"]
    assert outputs["trial.json"]["whole"]
    assert outputs["trial.json"]["address"] == "../raw/frer-r2/trial.json"
