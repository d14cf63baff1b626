"""Tables to audit, damaged in ten thousand ways: one clear sentence, or a table."""

import json
import os
import shutil
from itertools import count
from pathlib import Path

import pytest
from damage import NUMBERS, damaged_bytes, damaged_json_file, read_each_file

from tsnrepro.common.repository import root
from tsnrepro.published import documents as published
from tsnrepro.published.third_party import ThirdPartyTable, third_party_tables

TIMES_NS = count(1)
CSV = b'load,lost,note\n100,0.5,a\n200,NA,"b, c"\n300,1e-3,\n'
RECORDS = {"kind": "frer", "a": [{"load": 1, "lost": [0.5, 2]}, {"load": 2, "lost": [1, None]}]}
FOREIGN = {
    "csv": (CSV, ThirdPartyTable(file="*.csv", key=["load"])),
    "json": (
        json.dumps(RECORDS).encode(),
        ThirdPartyTable(file="*.json", records="a.*", key=["load", "lost"], explode="lost"),
    ),
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("kind", FOREIGN)
def test_tables_of_others(tmp_path, kind, number):
    sound, layout = FOREIGN[kind]
    path = tmp_path / f"some.{kind}"
    path.write_bytes(sound)
    read = third_party_tables("theirs", tmp_path, {"t": layout})
    assert read("t").keys
    inputs = {"csv": damaged_bytes, "json": damaged_json_file}[kind](sound, number)
    assert read_each_file(inputs, path, lambda: read("t"))


@pytest.fixture
def copy(tmp_path):
    """Return a package of published numbers with one table, to be damaged."""
    base = root() / "data" / "published"
    package = json.loads((base / published.PACKAGE_FILE).read_bytes())
    package["resources"] = package["resources"][:1]
    (tmp_path / published.PACKAGE_FILE).write_text(json.dumps(package))
    place = package["resources"][0]["path"]
    (tmp_path / place).parent.mkdir()
    shutil.copy(base / place, tmp_path / place)
    return tmp_path, place


def read_again(folder):
    """Read the one table; what was read before is known by its time of change."""
    changed_ns = next(TIMES_NS)
    for path in filter(Path.is_file, folder.rglob("*")):
        os.utime(path, ns=(changed_ns, changed_ns))
    published.published_table("frer-udp", "table-4-1", folder)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("which", ["package", "table"])
def test_published_tables(copy, which, number):
    folder, place = copy
    path = folder / (published.PACKAGE_FILE if which == "package" else place)
    damaged = damaged_json_file if which == "package" else damaged_bytes
    sound = path.read_bytes()
    read_again(folder)
    # A document or table that is not there any more is told by its own name.
    inputs = damaged(sound, number)
    assert read_each_file(inputs, path, lambda: read_again(folder), names="t")
