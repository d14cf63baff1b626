"""Hostile inputs: an error that names the file, or a right result; no traceback, no hang."""

import json
import random
import re
import time

import pytest
import tool_outputs as printed
import yaml
from hypothesis import given
from hypothesis import strategies as st
from reader_files import source_file, table

from tsnrepro.common.errors import ConfigurationError, TsnreproError
from tsnrepro.imports.files import matching_paths
from tsnrepro.imports.importer import import_folder
from tsnrepro.imports.mapping import load_mapping
from tsnrepro.imports.reading import DataFolder, read_file

TIMES = {"sent": "tx", "received": "rx", "unit": "ns"}
JOINED = {**TIMES, "sequence": "seq", "listener": "listener.csv"}
ISOCHRON = {"sent": "T", "received": "R", "unit": "ns", "printf_args": "qTR",
            "printf_format": "%u %T,%d\n"}  # fmt: skip
ONE_WAY = {"latency_quantity": "one way"}
TABLES = {
    "csv": table(
        "csv",
        fields={
            "configuration": {"column": "kind"},
            "payload_bytes": {"column": "size", "unit": "bytes"},
            "loss_percent": {"column": "loss", "unit": "percent"},
            "sent": {"column": "sent"},
            "started": {"column": "t", "unit": "s"},
        },
    ),
    "json": table(
        "json", rows="a.*", fields={"configuration": "frer", "payload_bytes": 64,
                                    "offered_mbps": {"column": "rate", "unit": "Gb/s"}}
    ),
    "iperf3": table("iperf3", fields={"configuration": "frer"}),
    "iperf3-tcp": table("iperf3", "tcp"),
    "intervals": table("iperf3", rows="intervals"),
    "mausezahn": table("mausezahn"),
    "sockperf": table("sockperf", "latency"),
    "sockperf summary": table("sockperf", "latency"),
    "times": table("times", "latency", times=TIMES, **ONE_WAY),
    "talker": table("times", "latency", times=JOINED, **ONE_WAY),
    "listener": table("times", "latency", times=JOINED, **ONE_WAY),
    "isochron": table("times", "latency", times=ISOCHRON, **ONE_WAY),
}  # fmt: skip
SEEDS = {
    "csv": "kind,size,loss,sent,t\nfrer,64,0.5,200,1761180758\ncontrol,1472,0,100,1761180759\n",
    "json": json.dumps({"a": [{"rate": 0.5}, {"rate": 0.25, "note": [1, {"b": None}]}]}),
    "iperf3": printed.IPERF3_UDP_VERBOSE,
    "iperf3-tcp": json.dumps(printed.IPERF3_TCP_JSON),
    "intervals": printed.IPERF3_UDP_SERVER,
    "mausezahn": printed.MAUSEZAHN,
    "sockperf": printed.sockperf_log([10.0, 20.0, 30.0]),
    "sockperf summary": printed.SOCKPERF.replace("avg-latency=", "avg-rtt="),
    "times": "tx,rx\n1000,2000\n3000,4500\n5000,\n",
    "talker": "seq,tx\n1,1000\n2,3000\n3,5000\n",
    "listener": "rx,seq\n3500,2\n1500,1\n",
    "isochron": "1 5.000000000,5000000700\n2 5.100000000,0\n3 5.200000000,5200000900\n",
}
PIECES = st.sampled_from(
    ["9" * 5000, "-1", "1e999", "1e-400", "nan", "\0", "\ud7ff", "\n" * 50, "[" * 3000,
     '{"a":' * 2000,
     "0.0.0", "١٢٣", "1_000", '"', ",,,,", "\r", "\u2028", "e", "999999999999999999999999", "-0",
     "inf", "[5] ", " sec ", "(0%)", "\ufeff", "1e18", "0x10", "NaN", "true", '{"error": 3}']
)  # fmt: skip
ALL = sorted(TABLES)


def check(kind, content):
    found = outcome(kind, content)
    assert found
    assert not isinstance(found, str) or len(found) < 2500


def outcome(kind, content):
    """Read a content as a file of a kind: return the outcome, or the error's message."""
    file = source_file(content, "some/file")
    folder = DataFolder(file.path.parent, ["listener.csv"])
    if kind == "listener":
        folder.used["listener.csv"] = file
        file = source_file(SEEDS["talker"], "some/file")
    elif kind == "talker":
        folder.used["listener.csv"] = source_file(SEEDS["listener"], "listener.csv")
    try:
        return read_file(folder, file, "t", TABLES[kind], 1000.0)
    except TsnreproError as error:
        return str(error)


@pytest.mark.parametrize("kind", ALL)
def test_the_seeds_themselves_are_trials(kind):
    assert outcome(kind, SEEDS[kind]).trials


@pytest.mark.parametrize("kind", ALL)
@given(data=st.data())
def test_damaged_files(kind, data):
    text = SEEDS[kind]
    for _ in range(data.draw(st.integers(1, 4))):
        first = data.draw(st.integers(0, len(text)))
        last = data.draw(st.integers(first, min(first + 12, len(text))))
        text = text[:first] + data.draw(PIECES) + text[last:]
    check(kind, text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "9" * 400, "1e300", "-0.0"])
@pytest.mark.parametrize("kind", ALL)
def test_any_number_in_place_of_each(kind, number):
    text = SEEDS[kind]
    for found in re.finditer(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", text):
        check(kind, text[: found.start()] + number + text[found.end() :])


def test_an_exponent_of_thousands_of_digits():
    check("csv", SEEDS["csv"].replace("0.5", "0e" + "9" * 5000))


@pytest.mark.parametrize("kind", ALL)
@given(content=st.binary(max_size=400))
def test_any_bytes(kind, content):
    check(kind, content)
    check(kind, SEEDS[kind].encode() + content)
    check(kind, b"\xff\xfe" + content)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "piece", ["9", "1,", "[5]", '"', "protocol: UDP", " datagrams", "{", "[5] 1 ", "0.01 seconds ("]
)
def test_long_monotonous_files_are_read_quickly(kind, piece):
    began = time.process_time()
    check(kind, SEEDS[kind] + piece * (400_000 // len(piece)))
    assert time.process_time() - began < 20


def test_a_file_too_large_for_its_format_is_refused_unread(tmp_path):
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(1 << 36)  # a hole: no disk holds it
        file.write(b"{")
    mapping = tmp_path / "m.yaml"
    one = {"files": ["*.json"], "format": "json", "experiment": "tcp",
           "fields": {"configuration": "frer"}}  # fmt: skip
    mapping.write_text(yaml.safe_dump({"description": "x", "tables": {"t": one}}))
    with pytest.raises(TsnreproError, match=r"large.json: it is larger than 64 MiB"):
        import_folder(tmp_path, mapping, "some", tmp_path / "raw")


def test_the_time_of_patterns_is_bounded():
    began = time.process_time()
    assert matching_paths(["/".join(["a" * 200] * 20)], ["**/" * 60 + "*a" * 100 + "b"]) == []
    assert time.process_time() - began < 5


# --- mappings -------------------------------------------------------------------------------------

SOUND = {
    "description": "a data set",
    "tables": {"t": TABLES["csv"].model_dump(mode="json", exclude_unset=True)},
}
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), st.text(max_size=20),
    st.sampled_from(["(?P<a>", "(a+)+$", "**/" * 30, "/etc/passwd", "../x", "a" * 3000, "{a}"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(node, path=()):
    yield path
    if isinstance(node, dict):
        for key in node:
            yield from places(node[key], (*path, key))


def with_value(node, path, value):
    """Return a document with the value at a path replaced."""
    if not path:
        return value
    return node | {path[0]: with_value(node[path[0]], path[1:], value)}


@given(st.data())
def test_damaged_mappings(tmp_path_factory, data):
    keys = ["rows", "row_range", "times", "name_pattern", "csv", "observations", "where", "unit"]
    document = SOUND
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(document))))
        document = with_value(document, path, data.draw(VALUES))
        if not isinstance(document, dict):
            break
        if data.draw(st.booleans()) and isinstance(document.get("tables"), dict):
            document = document | {"tables": {"t": {
                **SOUND["tables"]["t"], data.draw(st.sampled_from(keys)): data.draw(VALUES)
            }}}  # fmt: skip
    path = tmp_path_factory.getbasetemp() / "damaged.yaml"
    path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
    try:
        message = load_mapping(path).name
    except ConfigurationError as error:
        message = str(error)
    assert "damaged" in message


def test_outputs_with_a_piece_removed():
    rng = random.Random(11)
    for _ in range(300):
        kind = rng.choice(ALL)
        text = SEEDS[kind]
        check(kind, text[: rng.randrange(len(text))] + text[rng.randrange(len(text)) :])
