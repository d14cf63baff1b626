"""Conversion of rows: units, missing cells, derived values and contradictions."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tsnrepro.common.errors import RecordError
from tsnrepro.common.ethernet import udp_frames, wire_bytes
from tsnrepro.imports.mapping import MappedTable
from tsnrepro.imports.readers.row import DataRow
from tsnrepro.imports.trials import convert, trial_of


def table(experiment="loss", **fields):
    keys = {"latency_quantity": "half round trip"} if experiment == "latency" else {}
    needed = {"configuration": "frer"} | ({} if experiment == "tcp" else {"payload_bytes": 1472})
    content = {"files": ["*"], "format": "csv", "experiment": experiment, **keys}
    return MappedTable.model_validate(content | {"fields": needed | fields})


def trial(cells, experiment="loss", known=None, **fields):
    row = DataRow("line 2", cells, known or {})
    layout = table(experiment, **fields)
    return trial_of(convert(row, layout, {}), layout, {"file": "x", "row": "line 2"})


RATE = {"column": "rate", "unit": "Mb/s"}
LOSS = {"column": "loss", "unit": "percent"}
SENT, LOST, RECEIVED = ({"column": name} for name in ("sent", "lost", "received"))


def test_units_text_and_constants():
    found = trial(
        {"rate": "500000", "loss": "0.001", "kind": "Dual-Path", "seconds": "30000"},
        configuration={"column": "kind", "values": {"Dual-Path": "frer", "Single": "control"}},
        target_mbps={"column": "rate", "unit": "kbps"},
        loss_percent={"column": "loss", "unit": "ratio"},
        duration_s={"column": "seconds", "unit": "ms"},
    )
    assert found.factors == {
        "configuration": "frer",
        "payload_bytes": 1472,
        "rate_mbps": 500,
        "duration_s": 30,
    }
    assert found.result == {"loss_percent": 0.1}
    assert found.label == "frer-1472B-500M"


@pytest.mark.parametrize("nothing", ["", " ", "NA", "nan", None, float("nan"), "-1", -1])
def test_marks_of_missing_values_are_not_zero(nothing):
    found = trial(
        {"rate": 100, "loss": nothing},
        offered_mbps=RATE,
        loss_percent=LOSS | {"missing": [-1]},
    )
    assert found.result == {"offered_mbps": 100}


def test_missing_fields_stay_missing():
    assert trial({"loss": 0.5}, loss_percent=LOSS).result == {"loss_percent": 0.5}
    assert trial({"loss": 0.5}, loss_percent=LOSS).repetition is None


@given(st.integers(1, 10**9), st.floats(0, 1))
def test_counts_complete_each_other(sent, share):
    lost = int(share * sent)
    by_lost = trial({"sent": sent, "lost": lost}, sent=SENT, lost=LOST).result
    by_received = trial(
        {"sent": sent, "r": sent - lost}, sent=SENT, received={"column": "r"}
    ).result
    assert by_lost == by_received
    assert by_lost["received"] + by_lost["lost"] == by_lost["sent"] == sent
    assert by_lost["loss_percent"] == 100 * lost / sent


@given(st.integers(1, 10**7), st.integers(0, 10**7), st.integers(0, 6))
def test_a_rounded_loss_agrees_with_its_counts_and_the_counts_win(sent, lost, digits):
    assume(lost <= sent)
    cells = {"sent": sent, "lost": lost, "loss": f"{100 * lost / sent:.{digits}f}"}
    found = trial(cells, sent=SENT, lost=LOST, loss_percent=LOSS)
    assert found.result["loss_percent"] == 100 * lost / sent


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"sent": 100, "lost": 1, "loss": "2.00"}, "loss_percent is 2, but 1 by the counts"),
        ({"sent": 100, "lost": 101}, "101 of 100 datagrams cannot be lost"),
        ({"sent": 100, "lost": 5, "received": 96}, "96 received and 5 lost are not 100 sent"),
        ({"sent": 0, "lost": 0}, "sent: 0 is not above 0"),
        ({"sent": 1.5, "lost": 0}, "1.5 is not an integer"),
        ({"sent": "many", "lost": 0}, "'many' is not a number"),
        ({"sent": "1 000", "lost": 0}, "'1 000' has its thousands separated"),
        ({"sent": "1’000", "lost": 0}, "thousands separated"),
        ({"sent": "1,000.5", "lost": 0}, "thousands separated"),
        ({"sent": "100 frames", "lost": 0}, "'100 frames' has a unit behind its number"),
        ({"loss": 101}, "101 is above 100"),
        ({"loss": -0.5}, "-0.5 is below 0"),
        ({"loss": "inf"}, "inf is beyond"),
        ({}, "there is no column 'loss'"),
    ],
)
def test_contradictions_name_row_and_remedy(cells, message):
    fields = {"sent": SENT, "lost": LOST, "received": RECEIVED, "loss_percent": LOSS}
    fields = {k: v for k, v in fields.items() if v["column"] in cells} or {"loss_percent": LOSS}
    with pytest.raises(RecordError, match=message) as caught:
        trial(cells, **fields)
    assert caught.value.where == "line 2"
    assert caught.value.remedy


def test_a_row_without_a_measured_value():
    with pytest.raises(RecordError, match="has no measured value"):
        trial({"rate": 5}, target_mbps=RATE)


def test_other_configurations_must_be_translated():
    with pytest.raises(RecordError, match="'tas' is neither control nor frer"):
        trial({"loss": 1}, configuration="tas", loss_percent=LOSS)
    kinds = {"column": "kind", "values": {"A": "frer"}}
    with pytest.raises(RecordError, match=r"no value is given for 'B'.*values has: A"):
        trial({"kind": "B", "loss": 1}, configuration=kinds, loss_percent=LOSS)


@given(st.sampled_from([18, 64, 466, 1472, 1518, 9000]), st.floats(1, 900))
def test_rates_of_frames_and_of_the_wire_become_rates_of_payload(payload, rate):
    frames = udp_frames(payload)
    occupied = {"frame": sum(frames), "wire": sum(map(wire_bytes, frames))}
    for layer, size in occupied.items():
        found = trial({"rate": rate}, payload_bytes=payload, offered_mbps=RATE | {"layer": layer})
        assert found.result["offered_mbps"] == pytest.approx(rate * payload / size)


def test_the_wire_rate_of_a_full_link_is_the_payload_limit():
    found = trial({"rate": 1000}, payload_bytes=1472, offered_mbps=RATE | {"layer": "wire"})
    assert found.result["offered_mbps"] == pytest.approx(957.087, abs=5e-4)


def test_offered_load_follows_from_count_and_time():
    found = trial({"sent": 1000}, known={"send_seconds": 2.0}, sent=SENT)
    assert found.result["offered_mbps"] == pytest.approx(1000 * 1472 * 8 / 2 / 1e6)


def test_the_tool_and_the_mapping_must_agree():
    assert trial({}, known={"payload_bytes": 1472, "loss_percent": 1.0}).factors["payload_bytes"]
    with pytest.raises(RecordError, match="1472 in the mapping, 1400 in the tool's output"):
        trial({}, known={"payload_bytes": 1400, "loss_percent": 1.0})


def test_round_trips_are_halved_and_one_way_latencies_are_not():
    cells = {"mean": "100", "sd": "8"}
    fields = {f"{n}_us": {"column": n, "unit": "us"} for n in cells}
    layout = table("latency", **fields)
    row = DataRow("line 2", cells)
    expected = {
        "half round trip": (100, 8, "half round trip"),
        "round trip": (50, 4, "half round trip"),
        "one way": (100, 8, "one way"),
    }
    for quantity, outcome in expected.items():
        asked = layout.model_copy(update={"latency_quantity": quantity})
        result = trial_of(convert(row, asked, {}), asked, {}).result
        assert (result["mean_us"], result["sd_us"], result["quantity"]) == outcome


@pytest.mark.parametrize(
    ("cell", "options", "expected"),
    [
        ("2025-10-23T09:52:38+09:00", {}, "2025-10-23T00:52:38+00:00"),
        ("2025-10-23 09:52:38", {"timezone": "Asia/Seoul"}, "2025-10-23T00:52:38+00:00"),
        (1761180758, {"unit": "s"}, "2025-10-23T00:52:38+00:00"),
        ("1761180758000000000", {"unit": "ns"}, "2025-10-23T00:52:38+00:00"),
    ],
)
def test_timestamps(cell, options, expected):
    found = trial({"t": cell, "loss": 1}, loss_percent=LOSS, started={"column": "t"} | options)
    assert found.started == expected


@pytest.mark.parametrize(
    ("cell", "options", "message"),
    [
        ("2025-10-23 09:52:38", {}, "has no time zone"),
        ("23rd of October", {}, "ISO 8601"),
        ("2025-10-23 09:52:38", {"timezone": "Moon/Crater"}, "Moon/Crater"),
    ],
)
def test_invalid_timestamps(cell, options, message):
    with pytest.raises(RecordError, match=message):
        trial({"t": cell, "loss": 1}, loss_percent=LOSS, started={"column": "t"} | options)


def test_nested_columns():
    found = trial({"end": {"sum": {"loss": 3}}}, loss_percent=LOSS | {"column": "end.sum.loss"})
    assert found.result == {"loss_percent": 3}


@given(st.dictionaries(st.sampled_from(["loss", "rate"]), st.floats(0.1, 99), min_size=2))
def test_the_name_depends_on_everything_in_a_trial(cells):
    fields = {"loss_percent": LOSS, "offered_mbps": RATE}
    one, same = trial(cells, **fields), trial(dict(cells), **fields)
    other = trial(cells | {"loss": cells["loss"] / 2}, **fields)
    assert one.name(1) == same.name(1) != other.name(1)
