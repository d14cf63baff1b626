"""The TCP analysis: closed-form limits and the equivalence verdict."""

import pandas as pd
import pytest

from tsnrepro.experiments.tcp import analysis as tcp
from tsnrepro.records.tables import TCP


def trials(control, frer):
    rows = [
        {
            "trial": f"{name}-{duration}-{r}",
            "sha256": f"{name}{duration}{r}".encode().hex().ljust(64, "0"),
            "repetition": r,
            "order": 0,
            "configuration": name,
            "duration_s": float(duration),
            "started": pd.Timestamp("2026-01-01", tz="UTC"),
            "seconds": float(duration),
            "goodput_mbps": level + spread * (r - 2),
            "sent_mbps": level,
            "retransmits": 0,
        }
        for name, (level, spread) in {"control": control, "frer": frer}.items()
        for duration in (1, 2, 3)
        for r in (1, 2, 3)
    ]
    return TCP.validate(pd.DataFrame(rows))


def verdict(control, frer):
    return tcp.analyse(trials(control, frer), 1000).of("tcp.equivalence.unadjusted.verdict").value


def test_line_limits_of_tcp_with_time_stamps():
    # 1448 of 1538 bytes on the wire; with the R-TAG 1448 of 1544.
    assert tcp.line_limit_mbps("control", 1000) == pytest.approx(941.482, abs=5e-4)
    assert tcp.line_limit_mbps("frer", 1000) == pytest.approx(937.824, abs=5e-4)


def test_the_tag_alone_counts_as_equivalent():
    assert verdict((941.4, 0.1), (937.8, 0.1)) == "equivalent"


def test_a_third_less_is_different():
    assert verdict((900.0, 5.0), (600.0, 5.0)) == "different"


def test_a_wide_spread_cannot_tell():
    assert verdict((900.0, 300.0), (880.0, -300.0)) == "cannot tell"


def test_a_lost_repetition_leaves_the_others_in_pairs():
    # Repetitions drift by a fifth, and FRER's are two percent below control's in each.
    table = trials((900.0, 90.0), (882.0, 88.0))
    more = table.assign(
        repetition=table["repetition"] + 3,
        trial=table["trial"] + "b",
        goodput_mbps=table["goodput_mbps"] * 1.003,
    )
    both = TCP.validate(pd.concat([table, more], ignore_index=True))
    lacking = both[~((both["configuration"] == "frer") & (both["repetition"] == 6))]
    for rows in (both, lacking):
        found = tcp.analyse(rows, 1000).of("tcp.difference.percent")
        assert "by repetition" in found.method
        assert (found.low, found.high) == pytest.approx((-2.0, -2.0), abs=0.1)


def test_durations_are_named_in_order():
    found = tcp.analyse(trials((941.4, 0.1), (937.8, 0.1)), 1000)
    assert [found.of(f"tcp.duration.{n}.s").value for n in tcp.DURATIONS] == [1, 2, 3]


def test_what_the_sender_did_is_told_by_duration():
    table = trials((941.4, 0.1), (937.8, 0.1))
    of_frer = table["configuration"] == "frer"
    table["retransmits"] = (of_frer & (table["duration_s"] == 2)).astype(int) * 5
    table["largest_window_bytes"] = 400_000 + 1000 * table["repetition"]
    found = tcp.analyse(TCP.validate(table), 1000)
    assert found.of("tcp.retransmits.frer.middle.count").value == 15
    assert found.of("tcp.retransmits.frer.long.count").value == 0
    assert found.of("tcp.retransmits.control.middle.count").value == 0
    window = found.of("tcp.window.frer.short.kb")
    assert (window.value, window.low, window.high) == (402, 401, 403)
    assert window.method.startswith("range over 3 runs")
    assert found.of("tcp.trials.middle.count").value == 3


def test_efficiency_is_of_the_line_and_of_its_limit():
    found = tcp.analyse(trials((941.4, 0.1), (900.0, 0.1)), 1000)
    assert found.of("tcp.efficiency.frer.long.line.percent").value == pytest.approx(90.0, abs=1e-3)
    share = found.of("tcp.efficiency.frer.long.limit.percent")
    assert share.value == pytest.approx(100 * 900 / 937.824, abs=1e-3)
    assert share.low < share.value < share.high <= 100


def test_a_window_that_nobody_kept_is_unknown():
    found = tcp.analyse(trials((941.4, 0.1), (937.8, 0.1)), None)
    assert found.of("tcp.window.frer.short.kb").value is None
    assert found.of("tcp.efficiency.frer.short.line.percent").value is None


def limited(control, frer, rate=500):
    table = pd.concat(
        [
            trials((700.0, 90.0), (650.0, -80.0)),
            trials(control, frer).assign(
                link_rate_mbps=rate, trial=lambda t: "limit-" + t["trial"]
            ),
        ],
        ignore_index=True,
    )
    return tcp.analyse(TCP.validate(table), 1000)


def test_over_links_that_hosts_fill_the_verdict_is_the_paths():
    found = limited((470.2, 0.3), (468.4, 0.3))
    assert found.of("tcp.limit.equivalence.unadjusted.verdict").value == "equivalent"
    assert found.of("tcp.equivalence.unadjusted.verdict").value == "cannot tell"
    assert found.of("tcp.limit.link_rate.mbps").value == 500
    assert found.of("tcp.limit.line_limit.control.mbps").value == pytest.approx(470.74, abs=0.01)
    assert found.of("tcp.limit.goodput.frer.mbps").value == pytest.approx(468.4, abs=0.01)
    # The trials of other links take no part.
    assert found.of("tcp.goodput.control.mbps").value == pytest.approx(700, rel=0.02)


def test_without_such_trials_there_is_no_such_result():
    found = tcp.analyse(trials((941.4, 0.1), (937.8, 0.1)), 1000)
    with pytest.raises(KeyError):
        found.of("tcp.limit.equivalence.unadjusted.verdict")
