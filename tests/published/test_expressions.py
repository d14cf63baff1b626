"""The language of claims and checks: what it computes, what it leaves open, what it refuses."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.common.ethernet import payload_limit_mbps, tcp_limit_mbps
from tsnrepro.published.expressions import ExpressionError, MissingResultError, parse, readable
from tsnrepro.published.intervals import Interval
from tsnrepro.stats.proportions import upper_bound_when_none_lost


class Names:
    """A scope of plain names."""

    def __init__(self, **names):
        self.names = names

    def name(self, name):
        if name not in self.names:
            raise LookupError(f"no name {name!r}")
        return self.names[name]

    def functions(self):
        return {"measured": self.measured}

    def measured(self, key):
        raise MissingResultError(f"no result {key!r}")


def value(text, **names):
    """Return the value of an expression; numbers among the names are exact."""
    exact = {
        key: Interval.exact(n) if isinstance(n, int | float) and not isinstance(n, bool) else n
        for key, n in names.items()
    }
    return parse(text).evaluate(Names(**exact))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 + 3 * 4", 14),
        ("-(2 - 5) ** 2", -9),
        ("100 * (530 - 398) / 398", 33.16582914572864),
        ("abs(-3) + min(4, 2, 9) + max([1, 7])", 12),
        ("mean(941.30, 941.41, 941.42)", 941.3766666666667),
        ("sum([1, 2] + [10, 20])", 33),
        ("max(abs([1, -5, 2] * 2))", 10),
        ("change_percent(262.14, 244.95)", 7.017758726270667),
        ("datagrams(530, 5, 1472)", 225_033.96739130435),
        ("frame_payload(64)", 18),
        ("(7).high", 7),
    ],
)
def test_numbers(text, expected):
    assert value(text).value == pytest.approx(expected, rel=1e-12)


def test_limits_are_those_of_the_line():
    assert value("payload_limit(1472, True)").value == payload_limit_mbps(1472, tagged=True)
    assert value("tcp_limit()").value == tcp_limit_mbps()


@given(st.integers(min_value=1, max_value=10**9))
def test_the_bound_of_a_trial_without_loss_is_the_exact_one(count):
    bound = value("none_lost_bound_percent(n)", n=count)
    assert bound.value == pytest.approx(100 * upper_bound_when_none_lost(count))
    assert bound.value == pytest.approx(100 * (1 - 0.05 ** (1 / count)), rel=1e-6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 < 2", True),
        ("2 <= 2", True),
        ("2 < 2", False),
        ("1 < 2 < 3", True),
        ("1 < 2 > 5", False),
        ("wide > 1", None),
        ("wide > 0", True),
        ("wide > 3", False),
        ("wide == 1", None),
        ("wide == 5", False),
        ("wide != 5", True),
        ("open > 1", None),
        ("wide > 1 and 2 < 1", False),
        ("wide > 1 and 1 < 2", None),
        ("wide > 1 or 1 < 2", True),
        ("wide > 1 or 2 < 1", None),
        ("not wide > 1", None),
        ("not 2 < 1", True),
        ('word == "equivalent"', True),
        ('word != "equivalent"', False),
        ('contains(word, "equi")', True),
        ("agrees(wide, 1.9)", True),
        ("agrees(wide, 2.1)", False),
        ("agrees(100, 101, 2)", True),
        ("within(100, 101, 2)", True),
        ("within(wide, 1, 10)", None),
        ("within(wide, 1, 200)", True),
        ("within(wide, 100, 1)", False),
        ("given(1 < 2, 2 < 1)", False),
        ("given(2 < 1, 1 < 2)", None),
        ("given(wide > 1, 1 < 2)", None),
        ("decided(1 < 2, 1 < 2)", True),
        ("decided(1 < 2, wide > 1)", True),
        ('decided(1 < 2, measured("nothing") > 1)', True),
        ("decided(2 < 1, 1 < 2)", None),
        ("decided(2 < 1, 2 < 1)", False),
        ("decided(wide > 1, 2 < 1)", False),
        ('decided(measured("nothing") > 1, 2 < 1)', False),
        ("decided(wide > 1, wide > 1)", None),
        ("decided(1 < 2, 2 < 1)", None),
    ],
)
def test_truth_is_three_valued(text, expected):
    names = {
        "wide": Interval(1, 0.5, 2),
        "open": Interval(5, -math.inf, math.inf),
        "word": "equivalent",
    }
    assert value(text, **names) is expected


@pytest.mark.parametrize(
    "text",
    ['decided(2 < 1, measured("nothing") > 1)', 'decided(measured("nothing") > 1, 1 < 2)'],
)
def test_what_neither_side_decides_says_which_result_is_missing(text):
    with pytest.raises(MissingResultError, match="no result 'nothing'"):
        value(text)


@pytest.mark.parametrize("text", ["decided(1 < 2)", "decided(1 < 2, 3)", "decided(1 < 2, b=2 < 1)"])
def test_deciding_takes_two_statements(text):
    with pytest.raises(ExpressionError):
        value(text)


def test_the_ground_is_of_the_side_that_decided():
    steps = []
    assert parse("decided(2 < 1, 3 < 1)").evaluate(Names(), steps) is False
    assert [step.text for step in steps] == ["3, not < 1"]


@given(st.floats(-100, 100), st.floats(0, 10), st.floats(-100, 100), st.floats(0, 10))
def test_a_comparison_that_decides_holds_for_every_reading(a, half_a, b, half_b):
    first, second = Interval(a, a - half_a, a + half_a), Interval(b, b - half_b, b + half_b)
    truth = value("a < b", a=first, b=second)
    corners = [x < y for x in (first.low, first.high) for y in (second.low, second.high)]
    assert truth is not True or all(corners)
    assert truth is not False or not any(corners)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "a.__class__",
        "[x for x in a]",
        "lambda: 1",
        "a[0]",
        "{1: 2}",
        "f'{a}'",
        "a if b else c",
        "(b := 3)",
        "a // b",
        "a % b",
        "a << b",
        "~a",
        "a is b",
        "a in b",
        "max(*a)",
        "max(**a)",
        "a.b(1)",
        "None",
        "b'bytes'",
        "1 +",
        "",
        "a; b",
        "1" * 3000,
    ],
)
def test_what_is_not_in_the_language_is_refused(text):
    with pytest.raises(ExpressionError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing + 1", "no name 'nothing'"),
        ("nothing(1)", "no function 'nothing'"),
        ("1 / 0", "division by zero"),
        ('1 + "a"', "a number is needed"),
        ("1 and 2", "true or false is needed"),
        ("mean([])", "no numbers"),
        ("[1, 2] + [1, 2, 3]", "zip"),
        ("payload_limit(70000)", "payload of 70000 bytes"),
        ("abs()", "missing 1 required positional argument"),
    ],
)
def test_an_error_names_what_is_wrong_and_the_expression(text, message):
    with pytest.raises(ExpressionError, match=message.replace("(", r"\(")) as caught:
        value(text)
    assert text in str(caught.value)


def test_a_missing_result_is_no_error_of_the_expression():
    with pytest.raises(MissingResultError, match=r"loss\.threshold"):
        value('measured("loss.threshold") > 1')


def test_names_and_arguments_are_known_before_evaluation():
    expression = parse('a + max(b, measured("x.y")) > measured("z", 3) and a < 1')
    assert expression.names == ("a", "b")
    assert not expression.is_name
    assert parse(" a ").is_name


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ('published("d", "t", "row-1", "rate_mbps") * 2', "rate_mbps[row-1] * 2"),
        ('published("d", "loss-limit").value', "loss_limit"),
        ('mean(column("d/t", "rate_mbps", ["a", "b"]))', "mean(rate_mbps)"),
        ('lookup("d/t", "row", minuend, "latency_us")', "latency_us[minuend]"),
        ('measured("tcp.count").value == 0', "tcp.count == 0"),
        ("a.value\n  + b", "a + b"),
    ],
)
def test_formulas_are_shown_as_a_reader_wants_them(formula, expected):
    assert readable(formula) == expected
