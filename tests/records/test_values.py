import json

import pytest
from pydantic import ValidationError

from tsnrepro.common.errors import RecordError
from tsnrepro.records.values import Result, load_values


def entry(key, value, low=None, high=None):
    return {
        **{"key": key, "value": value, "low": low, "high": high, "unit": "", "digits": 0},
        **{"method": "count", "run": "", "trials": [], "sha256": ""},
    }


def write_values(folder, **files):
    for name, entries in files.items():
        (folder / f"{name}.json").write_text(json.dumps(entries), encoding="utf-8")


def test_results_are_read_by_key_from_all_files(tmp_path):
    write_values(tmp_path, a=[entry("a.one", 1)], b=[entry("b.two", "word"), entry("b.no", None)])
    values = load_values(sorted(tmp_path.glob("*.json")))
    assert list(values) == ["a.one", "b.two", "b.no"]
    assert values["a.one"].value == 1
    assert values["b.two"].value == "word"
    assert values["b.no"].value is None


def test_a_key_that_occurs_twice_is_named_with_both_files(tmp_path):
    write_values(tmp_path, first=[entry("a.one", 1)], second=[entry("a.one", 2)])
    with pytest.raises(RecordError, match=r"a\.one.*twice") as caught:
        load_values(sorted(tmp_path.glob("*.json")))
    assert "first.json" in caught.value.where
    assert "second.json" in caught.value.where


def test_a_folder_without_values_says_what_to_do(tmp_path):
    with pytest.raises(RecordError, match="snakemake"):
        load_values(sorted(tmp_path.glob("*.json")))


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("value", True),
        ("low", "0.1"),
        ("digits", -1),
        ("digits", 1.5),
        ("run", "Not A Name"),
        ("sha256", "abc"),
        ("trials", "one"),
        ("key", "No Key"),
        ("key", "single"),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused_and_named(tmp_path, field, bad):
    write_values(tmp_path, a=[entry("a.one", 1) | {field: bad}])
    with pytest.raises(RecordError, match=field):
        load_values(sorted(tmp_path.glob("*.json")))


def test_unknown_and_missing_fields_are_refused():
    good = entry("a.one", 1)
    with pytest.raises(ValidationError, match="colour"):
        Result(**good, colour="red")
    with pytest.raises(ValidationError, match="method"):
        Result(**{name: value for name, value in good.items() if name != "method"})


@pytest.mark.parametrize("text", ["NaN", "Infinity"])
def test_what_json_should_not_hold_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(json.dumps([entry("a.one", 1)]).replace("1,", f"{text},", 1))
    with pytest.raises(RecordError, match=r"a\.one"):
        load_values(sorted(tmp_path.glob("*.json")))


def test_an_interval_upside_down_is_refused(tmp_path):
    write_values(tmp_path, a=[entry("a.one", 1.0, 2.0, 0.5)])
    with pytest.raises(RecordError, match="upside down"):
        load_values(sorted(tmp_path.glob("*.json")))


def test_one_limit_may_be_unknown():
    assert Result(**entry("a.one", None, 700.0, None)).low == 700.0


def test_differences_print_their_sign_and_others_do_not():
    assert Result(**entry("tcp.difference.percent", 1.0)).signed
    assert not Result(**entry("tcp.goodput.frer.mbps", 1.0)).signed
