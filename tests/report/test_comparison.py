"""The grades of reproduced files."""

import json

import pandas as pd
import pytest
from synthetic_results import entry

from tsnrepro.common.errors import RecordError
from tsnrepro.report.comparison import MatchGrade, compare_files


@pytest.fixture
def graded(tmp_path):
    """Return the function that grades two lists of results."""

    def grade(one, other):
        paths = [tmp_path / name for name in ("first.json", "again.json")]
        for path, items in zip(paths, (one, other), strict=True):
            path.write_text(json.dumps(items), encoding="utf-8")
        return compare_files("values.json", *paths)

    return grade


def number(value, low=None, high=None, **kept):
    return entry("tcp.goodput.frer.mbps", value, low, high, **kept)


@pytest.mark.parametrize(
    ("one", "other", "grade"),
    [
        (number(900.0, 890.0, 910.0), number(900.0, 890.0, 910.0), MatchGrade.SAME_BYTES),
        (number(900.0, 890.0, 910.0), number(900.0001, 890.0, 910.0), MatchGrade.WITHIN_TOLERANCE),
        (number(900.0, 890.0, 910.0), number(915.0, 905.0, 925.0), MatchGrade.INTERVALS_OVERLAP),
        (number(900.0, 890.0, 910.0), number(930.0, 920.0, 940.0), MatchGrade.DIFFERENT),
        (number(900.0), number(900.0000001), MatchGrade.WITHIN_TOLERANCE),
        (number(900.0), number(901.0), MatchGrade.DIFFERENT),
        (number(900.0, 890.0, 910.0), number(900.0), MatchGrade.DIFFERENT),
        (number(None), number(900.0), MatchGrade.DIFFERENT),
        (number("equivalent"), number("different"), MatchGrade.DIFFERENT),
        (number(900.0, 890.0, 910.0), number(900.0, 890.0, 910.0, unit="%"), MatchGrade.DIFFERENT),
    ],
)
def test_results_are_graded(graded, one, other, grade):
    assert graded([one], [other]).grade is grade


def test_the_worst_difference_is_reported(graded):
    fine, off = entry("tcp.a.mbps", 1.0, 0.0, 2.0), entry("tcp.b.mbps", 1.0)
    found = graded([fine, off], [fine | {"value": 1.5}, off | {"value": 2.0}])
    assert found.grade is MatchGrade.DIFFERENT
    assert found.reason == "tcp.b.mbps was 1.0 [None, None] and is 2.0 [None, None]"


def test_a_missing_result_is_different(graded):
    found = graded([number(1.0), entry("tcp.a.mbps", 1.0)], [number(1.0)])
    assert (found.grade, found.reason) == (
        MatchGrade.DIFFERENT,
        "tcp.a.mbps is only in the original",
    )


TABLE = {"mode": ["a", "b"], "loss_percent": [1.0, None], "n": [3, 4]}
LIMITS = {"loss_low_percent": [0.5, None], "loss_high_percent": [1.5, None]}


@pytest.mark.parametrize(
    ("change", "grade"),
    [
        ({}, MatchGrade.SAME_BYTES),
        ({"loss_percent": [1.0000001, None]}, MatchGrade.WITHIN_TOLERANCE),
        ({"loss_percent": [1.2, None]}, MatchGrade.INTERVALS_OVERLAP),
        ({"loss_percent": [1.0, 2.0]}, MatchGrade.DIFFERENT),
        ({"mode": ["a", "c"]}, MatchGrade.DIFFERENT),
        ({"n": [3, 5]}, MatchGrade.DIFFERENT),
        ({"mode": ["a"], "loss_percent": [1.0], "n": [3]}, MatchGrade.DIFFERENT),
        ({"more": [1, 2]}, MatchGrade.DIFFERENT),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_are_graded(tmp_path, change, grade, suffix):
    rows = len((TABLE | change)["mode"])
    paths = [tmp_path / f"{name}{suffix}" for name in ("first", "again")]
    limits = {name: cells[:rows] for name, cells in LIMITS.items()}
    for path, cells in zip(paths, (TABLE | LIMITS, TABLE | limits | change), strict=True):
        table = pd.DataFrame(cells)
        table.to_parquet(path) if suffix == ".parquet" else table.to_csv(path, index=False)
    assert compare_files("tables/x", *paths).grade is grade


def test_a_missing_or_empty_file_is_different(tmp_path):
    (tmp_path / "there.csv").write_text("a\n1\n")
    (tmp_path / "empty.csv").write_text("\n")
    found = compare_files("x", tmp_path / "there.csv", tmp_path / "empty.csv")
    assert (found.grade, found.reason) == (MatchGrade.DIFFERENT, "other columns: a")
    found = compare_files("x", tmp_path / "there.csv", tmp_path / "gone.csv")
    assert (found.grade, found.reason) == (MatchGrade.DIFFERENT, "it was not reproduced")


def test_a_table_that_another_library_wrote_has_the_same_content(tmp_path):
    """With missing cells of every kind."""
    table = pd.DataFrame(
        {
            "count": pd.array([1, None, 3], dtype="Int64"),
            "sent": pd.array([True, None, False], dtype="boolean"),
            "name": pd.array(["a", None, "b"], dtype="string"),
            "mbps": [1.0, float("nan"), 3.0],
            "times": [[1.0, float("nan")], [], [3.0]],
        }
    )
    paths = [tmp_path / name for name in ("first.parquet", "again.parquet", "other.parquet")]
    table.to_parquet(paths[0])
    table.to_parquet(paths[1], compression="gzip")
    found = compare_files("table.parquet", *paths[:2])
    assert found.grade is MatchGrade.WITHIN_TOLERANCE
    table.loc[1, "count"] = 5
    table.to_parquet(paths[2])
    found = compare_files("table.parquet", paths[0], paths[2])
    assert found.grade is MatchGrade.DIFFERENT
    assert found.reason == "row 2, count: was <NA> and is 5"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", b"PAR1" + bytes(99) + b"PAR1"),
        ("a.parquet", b"PAR1"),
        ("a.csv", b"a,b\n\xff,2\n"),
        ("a.csv", b'a,b\n"1,2\n'),
        ("a.csv", b"a,b\n1,2\n1,2,3\n"),
        ("values.json", b"{"),
    ],
)
def test_an_original_that_cannot_be_read_is_named(tmp_path, name, content):
    original, reproduced = tmp_path / "original" / name, tmp_path / "reproduced" / name
    for path in (original, reproduced):
        path.parent.mkdir()
    original.write_bytes(content)
    reproduced.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(RecordError, match=f"not (?:a table|JSON): .*original/{name}"):
        compare_files(name, original, reproduced)
