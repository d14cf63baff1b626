"""What is printed of a run lies within its own limits and within what its unit allows."""

import pytest
from printed_values import implausible
from synthetic_results import entry, write_values

from tsnrepro.records.values import VALUES_FILE


def found(folder, *items):
    write_values(folder / VALUES_FILE, list(items))
    return implausible(folder / VALUES_FILE)


def test_what_the_model_gives_is_plausible(simulated_run_folder):
    assert implausible(simulated_run_folder / VALUES_FILE) == []


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (entry("tcp.x.us", 3.0, 4.0, 5.0, unit="us"), "outside its limits"),
        (entry("tcp.x.us", 3.0, -1.0, 5.0, unit="us"), "-1.0 us"),
        (entry("tcp.x.count", 2.5), "a count of 2.5"),
        (entry("tcp.x.count", -1, method="of 3 runs"), "a negative count"),
        (entry("tcp.loss.percent", 120.0, unit="%"), "no share of a whole"),
        (entry("tcp.x.p", 1.2), "no probability"),
        (entry("tcp.difference.percent", 0.0, 0.0, 0.0, unit="%"), "limits without width"),
        (entry("tcp.variation.x.percent", 173.20508075688775, unit="%"), "a single run"),
    ],
)
def test_what_cannot_be_is_named(tmp_path, item, why):
    problems = found(tmp_path, item)
    assert any(text.startswith(f"{item['key']}: ") and why in text for text in problems)


@pytest.mark.parametrize(
    "item",
    [
        entry("tcp.x.us", 3.0, 2.0, 5.0, unit="us"),
        entry("tcp.x.us", 3.0, 2.99, 3.01, unit="us"),
        entry("tcp.difference.percent", -120.0, -130.0, -110.0, unit="%"),
        entry("failure.during_share.percent", 100.1, 99.9, 101.4, unit="%"),
        entry("tcp.mean.count", 2.5, 1.0, 4.0, method="range over 2 runs"),
        entry("tcp.x.verdict", "cannot tell"),
        entry("tcp.x.us", None),
    ],
)
def test_what_can_be_is_not(tmp_path, item):
    assert found(tmp_path, item) == []
