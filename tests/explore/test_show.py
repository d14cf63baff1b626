"""One trial on a terminal, from records of the model."""

import shutil

import pytest

from tsnrepro.common.errors import RecordError
from tsnrepro.config import files as campaigns
from tsnrepro.explore.show import COLUMNS, find_trial, raw_output, show


@pytest.fixture
def raw(short_repository, monkeypatch):
    monkeypatch.setattr(campaigns, "root", lambda: short_repository)
    return short_repository / "data" / "raw"


def a_trial(raw, experiment, part=""):
    return next(p for p in sorted((raw / "model/short" / experiment).iterdir()) if part in p.name)


def test_a_trial_is_shown_in_eighty_columns_down_to_its_output(raw):
    trial = a_trial(raw, "loss", "frer-1472B-900M")
    text = show(trial.name)
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert text.startswith(trial.name)
    assert "experiment loss, campaign short, testbed model" in text
    assert "payload_bytes                         1472" in text
    assert "copies made" in text
    assert "network.json.gz" in text
    for section in ("Factors", "Results", "Where the datagrams went", "Raw output"):
        assert f"\n{section}\n" in text


def test_the_accounting_adds_up(raw):
    text = show(a_trial(raw, "loss", "frer-1472B-900M").name)
    lines = text.split("Where the datagrams went\n")[1].split("\n\n")[0].splitlines()
    counts = [int(line.split()[-3]) for line in lines if line.endswith("%")]
    assert sum(counts[:2]) == sum(counts[2:]) > 0


def test_a_trial_is_found_by_part_of_its_name_or_folder(raw):
    trial = a_trial(raw, "tcp")
    digest = trial.name.rsplit("-", 2)[1]
    assert find_trial(digest)[1] == trial
    assert find_trial(f"model/short/tcp/{trial.name[:-3]}")[1] == trial
    with pytest.raises(RecordError, match="no trial"):
        find_trial(f"short/tcp/{trial.name}")
    assert find_trial(str(trial))[1] == trial


def test_no_match_and_several_are_an_error(raw):
    with pytest.raises(RecordError, match="no trial 'nothing'"):
        show("nothing")
    with pytest.raises(RecordError, match=r"trials match 'control'.*more\). Name one"):
        show("control")


def test_an_output_is_uncompressed(raw):
    name = a_trial(raw, "latency").name
    assert raw_output(name, "half-round-trips-ps.npy.gz").startswith(b"\x93NUMPY")
    with pytest.raises(RecordError, match=r"no output 'iperf3.json'.*network.json.gz"):
        raw_output(name, "iperf3.json")


def test_an_altered_trial_is_an_error(raw, tmp_path):
    folder = tmp_path / "raw/model/short/tcp/trial"
    shutil.copytree(a_trial(raw, "tcp"), folder)
    (folder / "trial.json").write_text("{}")
    with pytest.raises(RecordError, match="altered"):
        show(str(folder))
