"""One trial on a terminal, from records of the model."""

import json
import re
import shutil

import pytest

from tsnrepro.cli import main
from tsnrepro.common.errors import RecordError
from tsnrepro.config import files as campaigns
from tsnrepro.explore.show import COLUMNS, find_trial, raw_output, show
from tsnrepro.imports.importer import import_folder
from tsnrepro.records.store import DOCUMENT, RawStore


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
    assert re.search(r"network\.json\.gz, \d+ B$", text, re.MULTILINE)
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


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Return the folder of a trial imported from a file of foreign text, without a start time."""
    data = tmp_path / "data" / "tcp"
    data.mkdir(parents=True)
    data.joinpath("control-10s-1.txt").write_text(
        "Connecting to host 192.0.2.2\x1b]0;title\x07, port 5201\n"
        "[ ID] Interval           Transfer     Bitrate         Retr\n"
        "[  5]   0.00-10.00  sec  1.09 GBytes   940 Mbits/sec    3             sender\n"
        "[  5]   0.00-10.04  sec  1.09 GBytes   936 Mbits/sec                  receiver\n"
        "iperf Done.\n"
    )
    monkeypatch.setattr(campaigns, "root", lambda: tmp_path)
    import_folder(data.parent, "tool-output", "lab", tmp_path / "data" / "raw")
    (trial,) = (tmp_path / "data/raw/lab/imported/tcp").iterdir()
    return trial


def test_an_imported_trial_without_a_start_time(imported):
    text = show(imported.name)
    assert text.startswith(imported.name)
    assert "experiment tcp, campaign imported, testbed lab" in text
    assert "started" not in text.partition("Factors")[0]


def test_a_long_key_has_its_value_below(imported, monkeypatch):
    record = json.loads((imported / DOCUMENT).read_text())
    record["values"] = {"k" * 78: 12, "k" * 300: [1.5, 2.5]}
    monkeypatch.setattr(RawStore, "read", lambda *_: record)
    lines = show(imported.name).splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert [line.strip() for line in lines if line.strip() in ("12", "1.5", "2.5")]


def test_control_characters_of_foreign_text_are_escaped(imported, monkeypatch):
    record = json.loads((imported / DOCUMENT).read_text())
    record["values"] = {"note\x1b[2J": "\x1b]0;title\x07"}
    record["commands"] = [{"host": "a\x1b[31m", "argv": ["echo", "\x9b1m"]}]
    monkeypatch.setattr(RawStore, "read", lambda *_: record)
    text = show(imported.name)
    assert "\\x1b[2J" in text
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_a_name_that_is_no_path_is_an_error(imported, name):
    with pytest.raises(RecordError, match="no trial"):
        show(name)


def test_an_output_is_escaped_on_a_terminal_alone(monkeypatch, capfdbinary):
    output = b"\x1b]0;title\x07\n"
    monkeypatch.setattr("tsnrepro.explore.show.raw_output", lambda *_: output)
    monkeypatch.setattr("sys.argv", ["tsnrepro", "show", "a-trial", "--output", "iperf3.txt"])
    main()
    assert capfdbinary.readouterr().out == output
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    main()
    assert capfdbinary.readouterr().out == b"\\x1b]0;title\\x07\n"
