"""Claims: what the file holds, how verdicts fall, and that they change only when accepted."""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tsnrepro.audit import published
from tsnrepro.audit.checks import load_checks, run_checks
from tsnrepro.audit.claims import (
    Change,
    Claim,
    Verdict,
    accept_verdicts,
    accepted_verdicts,
    changed_verdicts,
    judge,
    load_claims,
)
from tsnrepro.audit.measured import MeasuredResult
from tsnrepro.audit.report import CHECKS_FILE, CLAIMS_FILE, VERDICTS_FILE, run_audit
from tsnrepro.audit.tables import Catalog, published_sources
from tsnrepro.errors import ConfigurationError

PUBLISHED = Path(__file__).resolve().parents[2] / "data" / "published"
CLAIMS = {claim.id: claim for claim in load_claims(PUBLISHED / CLAIMS_FILE)}
DATA = Catalog(published_sources())

# Results that a testbed's analyses name, whatever the campaign.
KEYS = {
    "loss.threshold.control.mbps",
    "loss.threshold.frer.mbps",
    "loss.threshold.ratio",
    "loss.threshold.difference.mbps",
    "loss.highest_clean.control.mbps",
    "loss.highest_clean.frer.mbps",
    "loss.share.listener_socket.percent",
    "loss.share.switches.percent",
    "tcp.goodput.control.mbps",
    "tcp.goodput.frer.mbps",
    "tcp.difference.percent",
    "tcp.equivalence.verdict",
    "tcp.retransmits.control.count",
    "tcp.retransmits.frer.count",
    *(
        f"loss.frame_{size}.{configuration}.percent"
        for size in (64, 128, 256, 512, 1024, 1518)
        for configuration in ("control", "frer")
    ),
    *(
        f"latency.{statistic}.{configuration}.us"
        for statistic in ("mean", "p50", "p90", "p99", "p99_9")
        for configuration in ("control", "frer")
    ),
    *(f"latency.{statistic}.difference.percent" for statistic in ("mean", "p99", "p99_9")),
}


def result(key, value, low=None, high=None, unit=""):
    return MeasuredResult(key, value, unit, low, high, "method", ("t1",), "run")


def verdict(claim, *results, testbed="model/quick", findings=None):
    """Return the judgement on one claim by results."""
    known = {one.key: one for one in results}
    return judge([CLAIMS[claim]], testbed, DATA, known, findings)[0]


@pytest.fixture(scope="module")
def by_check():
    checks = load_checks(PUBLISHED / CHECKS_FILE).checks
    found = {check.id: [] for check in checks}
    for finding in run_checks(checks, DATA)[0]:
        found[finding.check].append(finding)
    return found


# --- the file ----------------------------------------------------------------------------------


def test_there_are_claims_of_all_documents():
    counts = Counter(claim.document for claim in CLAIMS.values())
    assert sum(counts.values()) >= 50
    assert set(counts) == set(published.documents())
    assert min(counts.values()) >= 5


def test_every_claim_has_a_place_a_sentence_and_what_it_needs():
    for claim in CLAIMS.values():
        assert claim.text.endswith("."), claim.id
        assert claim.place, claim.id
        assert claim.needs, claim.id
        assert len(claim.text) < 140, claim.id


def test_claims_use_results_that_analyses_name():
    used = {key for claim in CLAIMS.values() for key in claim.result_keys()}
    assert used <= KEYS, used - KEYS
    assert len(used) >= 25


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ned": "x"}, "ned: Extra inputs"),
        ({"record": "1 +"}, "not an expression"),
        ({"measured": "a[0]"}, "no Subscript"),
        ({"id": "With Space"}, "String should match"),
    ],
)
def test_a_claim_with_a_mistake_is_refused(tmp_path, change, message):
    entry = {
        "id": "a",
        "document": "frer-udp",
        "place": "Table 1",
        "text": "It is.",
        "needs": "data",
    }
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump({"claims": [{**entry, **change}]}), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=message):
        load_claims(path)
    path.write_text(yaml.safe_dump({"claims": [entry, entry]}), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="stand twice: a"):
        load_claims(path)


# --- verdicts by the record --------------------------------------------------------------------


def test_published_verdicts_are_the_accepted_ones():
    audit = run_audit("published", "", Path("results"))
    changes = changed_verdicts(audit.judgements, accepted_verdicts(PUBLISHED / VERDICTS_FILE))
    assert changes == [], "\n".join(map(str, changes))
    assert audit.changes == ()


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        # The arithmetic holds: 530 / 398 = 1.3317.
        ("udp-threshold-third", Verdict.SUPPORTED),
        # 262.14 / 244.95 = 1.0702, not 1.066.
        ("udp-latency-p99-9", Verdict.CONTRADICTED),
        # Five seconds leave 0.00133 % open.
        ("udp-criterion", Verdict.CANNOT_TELL),
        # 941.42 Mb/s exceed what tagged segments reach, so nothing with FRER was compared.
        ("udp-tcp-same", Verdict.CANNOT_TELL),
        # 2 x 178.14 us exceed 300 us.
        ("ffo-latency-300", Verdict.CONTRADICTED),
        # 341.47 / 20.51 = 16.6 while the frames grow 23.7 times.
        ("ffo-size-growth", Verdict.CONTRADICTED),
        # A range that holds by definition shows nothing either way.
        ("tas-slots", Verdict.CANNOT_TELL),
        # The printed differences are those of the printed means.
        ("bridge-added", Verdict.SUPPORTED),
        # The maximum is not printed.
        ("bridge-maximum", Verdict.CANNOT_TELL),
    ],
)
def test_verdicts_follow_from_the_published_numbers(by_check, claim, expected):
    assert verdict(claim, testbed="published", findings=by_check).verdict is expected


def test_a_verdict_shows_the_numbers_that_decide(by_check):
    shown = verdict("udp-latency-p99-9", testbed="published", findings=by_check).numbers
    for number in ("262.14", "244.95", "+6.6", "7.01776"):
        assert number in shown
    shown = verdict("ffo-latency-300", testbed="published", findings=by_check).numbers
    assert "356.28" in shown
    assert "300" in shown


def test_findings_without_a_contradiction_leave_a_claim_open(by_check):
    judgement = verdict("ffo-zero-loss-shown", testbed="published", findings=by_check)
    assert judgement.verdict is Verdict.CANNOT_TELL
    assert judgement.reason == "the numbers leave it open"
    assert "0.00133" in judgement.numbers


def test_a_claim_that_rests_on_an_unknown_check_is_an_error():
    with pytest.raises(ConfigurationError, match="no check 'ffo-latency-round-trip'"):
        verdict("ffo-latency-300", testbed="published", findings={})


# --- verdicts by results -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (1.31, 1.22, 1.40, Verdict.SUPPORTED),
        (0.97, 0.95, 0.99, Verdict.CONTRADICTED),
        (1.01, 0.98, 1.04, Verdict.CANNOT_TELL),
        # Without an interval no comparison decides.
        (1.31, None, None, Verdict.CANNOT_TELL),
    ],
)
def test_a_comparison_needs_an_interval_on_one_side(value, low, high, expected):
    judgement = verdict("udp-threshold-higher", result("loss.threshold.ratio", value, low, high))
    assert judgement.verdict is expected
    assert judgement.evidence[0].value == value


def test_an_interval_is_shown_with_its_number():
    measured = result("tcp.goodput.frer.mbps", 936.2, 935.9, 936.5, "Mb/s")
    judgement = verdict("udp-tcp-rate", measured)
    assert judgement.verdict is Verdict.CONTRADICTED
    assert "tcp.goodput.frer.mbps: 936.2\u00a0Mb/s [935.9, 936.5]" in judgement.numbers


def test_a_missing_or_empty_result_tells_nothing():
    missing = verdict("udp-threshold-higher")
    empty = verdict("udp-threshold-higher", result("loss.threshold.ratio", None))
    assert (missing.verdict, empty.verdict) == (Verdict.CANNOT_TELL, Verdict.CANNOT_TELL)
    assert missing.reason == "no result 'loss.threshold.ratio' yet"
    assert empty.reason == "result 'loss.threshold.ratio' has no value: method"
    assert missing.numbers == missing.reason


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("equivalent", Verdict.SUPPORTED),
        ("different", Verdict.CONTRADICTED),
        ("cannot tell", Verdict.CANNOT_TELL),
    ],
)
def test_words_are_compared_as_words(word, expected):
    assert verdict("udp-tcp-same", result("tcp.equivalence.verdict", word)).verdict is expected


def test_counts_need_no_interval():
    clean = [result(f"tcp.retransmits.{c}.count", 0.0) for c in ("control", "frer")]
    dirty = [clean[0], result("tcp.retransmits.frer.count", 3.0)]
    assert verdict("udp-tcp-no-retransmits", *clean).verdict is Verdict.SUPPORTED
    assert verdict("udp-tcp-no-retransmits", *dirty).verdict is Verdict.CONTRADICTED


@pytest.mark.parametrize(
    ("switches", "socket", "expected"),
    [
        (0.0, 99.7, Verdict.CONTRADICTED),
        (92.0, 8.0, Verdict.SUPPORTED),
        # Nothing was lost, so it has no place.
        (None, None, Verdict.CANNOT_TELL),
    ],
)
def test_the_place_of_loss_decides_the_cause(switches, socket, expected):
    judgement = verdict(
        "udp-loss-in-switch",
        result("loss.share.switches.percent", switches),
        result("loss.share.listener_socket.percent", socket),
    )
    assert judgement.verdict is expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(1.1, None, Verdict.SUPPORTED), (None, 0.9, Verdict.CONTRADICTED)],
)
def test_an_interval_may_be_open_on_one_side(low, high, expected):
    measured = result("loss.threshold.ratio", low or high, low, high)
    assert verdict("udp-threshold-higher", measured).verdict is expected


def test_a_claim_that_no_experiment_is_about_says_what_it_needs():
    judgement = verdict("bridge-maximum")
    assert judgement.verdict is Verdict.CANNOT_TELL
    assert judgement.reason.endswith("it needs the maximum, which is not printed")


def test_an_expression_that_is_no_statement_is_an_error():
    claim = Claim(
        id="a", document="d", place="p", text="t.", needs="n", record="1 + 1", measured=None
    )
    with pytest.raises(ConfigurationError, match="neither true nor false"):
        judge([claim], "published", DATA)
    wrong = claim.model_copy(update={"record": 'published("frer-udp", "nothing") > 1'})
    with pytest.raises(ConfigurationError, match=r"no row 'nothing'.*claim 'a'"):
        judge([wrong], "published", DATA)


# --- accepting ---------------------------------------------------------------------------------


def test_a_changed_verdict_is_seen_until_it_is_accepted(tmp_path, by_check):
    path = tmp_path / "verdicts.yaml"
    judgements = judge(CLAIMS.values(), "published", DATA, findings=by_check)
    assert len(accept_verdicts(judgements, path)) == len(judgements)
    assert changed_verdicts(judgements, accepted_verdicts(path)) == []

    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    content["published"]["udp-threshold-third"] = "contradicted"
    content["published"]["gone"] = "supported"
    del content["published"]["tas-load"]
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    changes = changed_verdicts(judgements, accepted_verdicts(path))
    assert set(changes) == {
        Change("published", "udp-threshold-third", Verdict.CONTRADICTED, Verdict.SUPPORTED),
        Change("published", "tas-load", None, Verdict.SUPPORTED),
        Change("published", "gone", Verdict.SUPPORTED, None),
    }
    assert {str(change) for change in changes} >= {
        "published, udp-threshold-third: contradicted -> supported"
    }
    assert set(accept_verdicts(judgements, path)) == set(changes)
    assert changed_verdicts(judgements, accepted_verdicts(path)) == []


def test_accepting_one_testbed_keeps_the_others(tmp_path, by_check):
    path = tmp_path / "verdicts.yaml"
    accept_verdicts(judge(CLAIMS.values(), "published", DATA, findings=by_check), path)
    before = accepted_verdicts(path)["published"]
    accept_verdicts(judge(CLAIMS.values(), "model/quick", DATA, findings=by_check), path)
    accepted = accepted_verdicts(path)
    assert accepted["published"] == before
    assert set(accepted["model/quick"].values()) == {Verdict.CANNOT_TELL}


@pytest.mark.parametrize("content", ["published: {a: perhaps}", "published: [a]", "- a"])
def test_a_file_that_holds_no_verdicts_is_refused(tmp_path, content):
    path = tmp_path / "verdicts.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="not verdicts"):
        accepted_verdicts(path)


def test_results_as_they_lie_on_disk_decide_claims(tmp_path):
    folder = tmp_path / "model" / "quick" / "values"
    folder.mkdir(parents=True)
    entry = {"key": "loss.threshold.ratio", "value": 0.98, "unit": "1", "low": 0.95, "high": 0.99}
    (folder / "loss.json").write_text(json.dumps([entry]), encoding="utf-8")
    audit = run_audit("model", "quick", tmp_path)
    verdicts = {j.claim.id: j.verdict for j in audit.judgements}
    assert verdicts["udp-threshold-higher"] is Verdict.CONTRADICTED
    assert verdicts["udp-threshold-third"] is Verdict.CONTRADICTED
    assert verdicts["udp-tcp-rate"] is Verdict.CANNOT_TELL
    assert audit.changes == ()
