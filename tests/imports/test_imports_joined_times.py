"""Times of talker and listener in a file each, joined by sequence number."""

import gzip
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_files import source_file
from test_imports_importer import manifest_file

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.config import parse
from tsnrepro.experiments.latency.analysis import series
from tsnrepro.explore.show import RawTrial
from tsnrepro.imports.importer import import_folder
from tsnrepro.imports.mapping import Times
from tsnrepro.imports.readers import joined_times
from tsnrepro.imports.screening import NoMeasurementError
from tsnrepro.records.store import open_run
from tsnrepro.records.tables import load_trials

EPOCH_NS = 1_700_000_000_000_000_000
NAMED = Times(sent="tx", received="rx", sequence="seq", listener="l.csv", unit="ns")


def read(sent, received, times=NAMED):
    """Read files of pairs of a number and a time; the listener's columns are in another order."""
    talker = "seq,tx\n" + "".join(f"{number},{time}\n" for number, time in sent)
    listener = "rx,seq\n" + "".join(f"{time},{number}\n" for number, time in received)
    return joined_times.read(source_file(talker), source_file(listener, "l.csv"), times)


@given(st.dictionaries(st.integers(0, 2**40), st.integers(1, 10**9), min_size=1), st.randoms())
def test_packets_are_joined_in_any_order(delays_ns, random):
    sent = [(number, EPOCH_NS + 1000 * k) for k, number in enumerate(delays_ns)]
    received = [(number, time + delays_ns[number]) for number, time in sent]
    random.shuffle(received)
    found = read(sent, received)
    assert found.latencies_us.tolist() == [delays_ns[number] / 1000 for number, _ in sent]
    assert (found.sent, found.received, found.skipped_rows) == (len(sent), len(sent), 0)
    assert found.span_s == pytest.approx((len(sent) - 1) / 1e6)


def test_lost_and_unknown_packets_and_copies():
    """The first copy counts; what was sent before the talker's file began is skipped."""
    sent = [(7, 1000), (8, 2000), (9, 3000)]
    found = read(sent, [(9, 3500), (3, 10), (7, 1900), (7, 1300)])
    assert found.latencies_us.tolist() == [0.3, 0.5]
    assert (found.sent, found.received, found.skipped_rows) == (3, 2, 1)
    assert found.skipped == [("l.csv", "1 packet that the talker did not send")]


def test_decimals_and_integers_are_joined_exactly():
    found = read([(2, EPOCH_NS), (1, 3000)], [(1, "3000.25"), (2, f"{EPOCH_NS + 7}.5"), (1, 9000)])
    assert found.latencies_us.tolist() == [0.0075, 0.00025]


@pytest.mark.parametrize(
    ("sent", "received", "says"),
    [
        ([(1, 10), (1, 20)], [(1, 30)], "sent twice"),
        ([(1, 10)], [(2, 30)], "none of its packets"),
        ([(1, 10)], [], "none of its packets"),
        ([("0x1a2b", 10)], [("0x1a2b", 30)], r"none of its packets .*0x1a2b"),
        ([(2, 10), (1, 20), (2, 30)], [(1, 30)], "sent twice"),
        ([(1, 10)], [(1, 5)], "arrive when or before"),
        ([(1.5, 10)], [(1, 5)], "sequence number or time"),
    ],
)
def test_what_cannot_be_joined_is_refused(sent, received, says):
    with pytest.raises(NoMeasurementError, match=says):
        read(sent, received)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"listener": None}, "need each other"),
        ({"sequence": None}, "need each other"),
        ({"sequence": 0}, "number all"),
        ({"sent": None, "received": None, "latency": "l"}, "listener needs sent"),
    ],
)
def test_keys_of_two_files_belong_together(changes, says):
    with pytest.raises(ConfigurationError, match=says):
        parse(Times, NAMED.model_dump() | changes, "a mapping")


MAPPING = """\
    description: both stations' logs
    tables:
      one-way:
        files: ["*/talker.csv"]
        format: times
        experiment: latency
        latency_quantity: one way
        name_pattern: (?P<kind>control|frer)/talker
        times: {sent: 1, received: 1, sequence: 0, unit: ns, listener: "{kind}/listener.csv"}
        fields: {configuration: {from_name: kind}, payload_bytes: 64}
    """


def test_an_import_of_two_files_is_analysed_from_the_originals(tmp_path):
    for kind, delay in (("control", 500), ("frer", 700)):
        folder = tmp_path / "data" / kind
        folder.mkdir(parents=True)
        times = [EPOCH_NS + delay + 1000 * number for number in range(4)]
        rows = {"talker": times, "listener": [time + delay + k for k, time in enumerate(times)]}
        for name, column in rows.items():
            lines = [f"{number},{time}\n" for number, time in enumerate(column)]
            (folder / f"{name}.csv").write_text("".join(lines))
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(textwrap.dedent(MAPPING))
    report = import_folder(tmp_path / "data", mapping, "lab", tmp_path / "raw")
    assert report.trials["latency"] == 2
    manifest = manifest_file(tmp_path, "latency", "lab")
    trials = load_trials(manifest).set_index("configuration")
    assert trials.loc["frer", "mean_us"] == pytest.approx(0.7015)
    assert (trials["sent"].tolist(), trials["received"].tolist()) == ([4, 4], [4, 4])
    assert series(manifest)[trials.loc["control", "trial"]].tolist() == [0.5, 0.501, 0.502, 0.503]
    store, _ = open_run(manifest)
    trial = RawTrial(store, store.read(store.folder / trials.loc["control", "trial"]))
    assert trial.table("latencies").to_dict("list") == {"one_way_us": [0.5, 0.501, 0.502, 0.503]}
    (tmp_path / "data/frer/listener.csv").write_bytes(gzip.compress(b"0,1\n"))
    report = import_folder(tmp_path / "data", mapping, "packed", tmp_path / "raw")
    assert report.trials["latency"] == 1
    assert "of the listener's frer/listener.csv: it is compressed (gzip)" in str(report.refused[0])
    (tmp_path / "data/frer/listener.csv").unlink()
    with pytest.raises(RecordError, match=r"no file of the listener, frer/listener\.csv"):
        import_folder(tmp_path / "data", mapping, "less", tmp_path / "raw")
