"""The expression language of claims and checks: interval arithmetic and three-valued logic.

An expression uses a subset of Python's expression syntax: arithmetic, comparisons, `and`, `or`,
`not`, lists, names and calls of the listed functions. It is parsed with `ast` and interpreted here;
nothing of it is executed as Python.

A comparison is true or false only where it is so for all values in the ranges of its numbers.
Otherwise it is unknown (None), which `and`, `or` and `not` propagate by Kleene's rules.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from tsnrepro.common.errors import TsnreproError
from tsnrepro.common.ethernet import payload_limit_mbps, tcp_limit_mbps, udp_payload
from tsnrepro.published import intervals
from tsnrepro.published.intervals import Interval, format_number, format_range
from tsnrepro.published.tables import UnknownNameError
from tsnrepro.records.values import Result

Operand = Any  # Interval, str, bool, None (unknown) or a list of these
_MAX_LENGTH = 2000


class ExpressionError(TsnreproError):
    """An expression that is not in the language or does not fit its operands."""


class EmptyCellError(LookupError):
    """A cell without a value."""


class MissingResultError(LookupError):
    """A measured result that does not exist or has no value."""


class Scope(Protocol):
    """The names of an expression, and its functions that read data."""

    def name(self, name: str) -> Operand:
        """Return the value of a name; raise LookupError for an unknown one."""
        ...

    def functions(self) -> Mapping[str, Callable[..., Operand]]:
        """Return the functions that read data."""
        ...


@dataclass(frozen=True)
class ExpressionStep:
    """One comparison of an expression, with its numbers and its truth."""

    text: str
    truth: bool | None
    interval: bool = False
    """Whether it involves a measured number with an interval."""


def operand_of(result: Result) -> Interval | str:
    """Return a result as an operand: a text, or a number with the limits that may decide.

    A number without an interval, or with a mere range of observed values, has infinite limits: no
    comparison with it decides. A result that is only bounded has its limit as the value.

    Raises
    ------
    MissingResultError
        The result has neither a value nor a limit that may decide.
    """
    if isinstance(result.value, str):
        return result.value
    low, high = -math.inf, math.inf
    if result.decides:
        low = low if result.low is None else float(result.low)
        high = high if result.high is None else float(result.high)
    value = result.value
    if value is None:
        value = low if math.isfinite(low) else high
        if math.isinf(value):
            raise MissingResultError(f"{result.key} is known only as a {result.method}")
    return Interval(float(value), low, high)


@dataclass(frozen=True)
class Expression:
    """A parsed expression."""

    text: str
    body: ast.expr

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names other than those of functions, in order of first use."""
        nodes = list(ast.walk(self.body))
        called = [node.func for node in nodes if isinstance(node, ast.Call)]
        found = [n for n in nodes if isinstance(n, ast.Name) and n not in called]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        return tuple(dict.fromkeys(node.id for node in found))

    @property
    def is_name(self) -> bool:
        """Return whether the expression is a name alone, usually that of a column."""
        return isinstance(self.body, ast.Name)

    def evaluate(self, scope: Scope, steps: list[ExpressionStep] | None = None) -> Operand:
        """Return the value in a scope; comparisons are appended to ``steps``.

        Raises
        ------
        ExpressionError
            A name is unknown or an operation does not fit its operands.
        EmptyCellError, MissingResultError
            A value is missing.
        """
        try:
            return _Evaluation(scope, [] if steps is None else steps).value(self.body)
        except (EmptyCellError, MissingResultError, ExpressionError, UnknownNameError):
            raise
        except TsnreproError as error:
            raise ExpressionError(str(error), f"expression {self.text!r}") from error
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise ExpressionError(
                f"{error}", f"expression {self.text!r}", "Check its names and operands"
            ) from error


@lru_cache(maxsize=2048)
def parse(text: str) -> Expression:
    """Parse an expression.

    Raises
    ------
    ExpressionError
        The text is too long, not an expression, or outside the language.
    """
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(text)} characters", text[:60] + "...")
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ExpressionError(f"not an expression: {error}", repr(text)) from error
    for node in ast.walk(body):
        _check(node, text)
    return Expression(text.strip(), body)


def valid(text: str) -> str:
    """Return the text of an expression; raise ValueError where it is outside the language.

    A validator for pydantic, which reports ValueError alone.
    """
    try:
        return parse(text).text
    except ExpressionError as error:
        raise ValueError(str(error)) from error


_ALLOWED = (
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.List,
    ast.Tuple,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.Call,
    ast.keyword,
    ast.Attribute,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
)
_ARITHMETIC: dict[type, Callable[[Interval, Interval], Interval]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_ATTRIBUTES = ("value", "low", "high")


def _check(node: ast.AST, text: str) -> None:
    """Raise ExpressionError for a node that is outside the language."""
    problem = None
    if not isinstance(node, _ALLOWED):
        problem = type(node).__name__
    elif isinstance(node, ast.operator) and type(node) not in _ARITHMETIC:
        problem = f"operator {type(node).__name__}"
    elif isinstance(node, ast.unaryop) and isinstance(node, ast.Invert):
        problem = "operator Invert"
    elif isinstance(node, ast.cmpop) and type(node) not in _COMPARISONS:
        problem = f"comparison {type(node).__name__}"
    elif isinstance(node, ast.Attribute) and node.attr not in _ATTRIBUTES:
        problem = f"attribute {node.attr!r} (there are {', '.join(_ATTRIBUTES)})"
    elif isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
        problem = "call of anything but a listed function"
    elif isinstance(node, ast.keyword) and node.arg is None:
        problem = "unpacking of arguments"
    elif isinstance(node, ast.Constant) and not isinstance(node.value, int | float | str | bool):
        problem = f"constant {node.value!r}"
    if problem:
        raise ExpressionError(f"the language of expressions has no {problem}", repr(text))


def _less(a: Operand, b: Operand) -> bool | None:
    first, second = _number(a), _number(b)
    if first.high < second.low:
        return True
    return False if first.low >= second.high else None


def _less_or_equal(a: Operand, b: Operand) -> bool | None:
    first, second = _number(a), _number(b)
    if first.high <= second.low:
        return True
    return False if first.low > second.high else None


def _equal(a: Operand, b: Operand) -> bool | None:
    if not (isinstance(a, Interval) and isinstance(b, Interval)):
        return None if a is None or b is None else a == b
    if a.is_exact and b.is_exact:
        return a.value == b.value
    return None if a.overlaps(b) else False


_COMPARISONS: dict[type, tuple[str, Callable[[Operand, Operand], bool | None]]] = {
    ast.Lt: ("<", _less),
    ast.LtE: ("≤", _less_or_equal),
    ast.Gt: (">", lambda a, b: _less(b, a)),
    ast.GtE: ("≥", lambda a, b: _less_or_equal(b, a)),
    ast.Eq: ("=", _equal),
    ast.NotEq: ("≠", lambda a, b: _negation(_equal(a, b))),
}


def _negation(truth: bool | None) -> bool | None:
    """Return Kleene's negation."""
    return None if truth is None else not truth


def _conjunction(truths: Sequence[bool | None]) -> bool | None:
    """Return Kleene's conjunction: false where one is false, else unknown where one is."""
    if any(truth is False for truth in truths):
        return False
    return None if any(truth is None for truth in truths) else True


def _disjunction(truths: Sequence[bool | None]) -> bool | None:
    """Return Kleene's disjunction: true where one is true, else unknown where one is."""
    return _negation(_conjunction([_negation(truth) for truth in truths]))


class _Evaluation:
    """The evaluation of one expression in one scope."""

    def __init__(self, scope: Scope, steps: list[ExpressionStep]) -> None:
        self.scope, self.steps = scope, steps
        self.functions = {**FUNCTIONS, **scope.functions()}

    def value(self, node: ast.expr) -> Operand:
        return getattr(self, f"_{type(node).__name__.lower()}")(node)

    def _constant(self, node: ast.Constant) -> Operand:
        if isinstance(node.value, bool | str):
            return node.value
        assert isinstance(node.value, int | float)
        return Interval.exact(node.value)

    def _name(self, node: ast.Name) -> Operand:
        return self.scope.name(node.id)

    def _list(self, node: ast.List | ast.Tuple) -> Operand:
        return [self.value(item) for item in node.elts]

    _tuple = _list

    def _binop(self, node: ast.BinOp) -> Operand:
        return _spread(_ARITHMETIC[type(node.op)], self.value(node.left), self.value(node.right))

    def _unaryop(self, node: ast.UnaryOp) -> Operand:
        operand = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return _negation(_truth(operand))
        if isinstance(operand, list):
            return [-_number(n) if isinstance(node.op, ast.USub) else n for n in operand]
        return -_number(operand) if isinstance(node.op, ast.USub) else _number(operand)

    def _boolop(self, node: ast.BoolOp) -> Operand:
        truths = [_truth(self.value(item)) for item in node.values]
        return (_conjunction if isinstance(node.op, ast.And) else _disjunction)(truths)

    def _compare(self, node: ast.Compare) -> Operand:
        sides = (node.left, *node.comparators)
        values = [self.value(item) for item in sides]
        truths = []
        for position, sign in enumerate(node.ops):
            relation, compare = _COMPARISONS[type(sign)]
            pair = slice(position, position + 2)
            truth = compare(*values[pair])
            self._step(relation, sides[pair], values[pair], truth)
            truths.append(truth)
        return _conjunction(truths)

    def _step(
        self,
        relation: str,
        nodes: Sequence[ast.expr],
        values: Sequence[Operand],
        truth: bool | None,
    ) -> None:
        """Record a comparison of numbers or texts."""
        if not all(isinstance(value, Interval | str) for value in values):
            return
        pairs = list(zip(nodes, values, strict=True))
        joints = {
            True: f" {relation} ",
            False: f", not {relation} ",
            None: f", open whether {relation} ",
        }
        text = joints[truth].join(_with_value(node, value) for node, value in pairs)
        self.steps.append(ExpressionStep(text, truth, any(_has_interval(*pair) for pair in pairs)))

    def _attribute(self, node: ast.Attribute) -> Operand:
        return Interval.exact(getattr(_number(self.value(node.value)), node.attr))

    def _call(self, node: ast.Call) -> Operand:
        assert isinstance(node.func, ast.Name)
        if node.func.id == _DECIDED:
            return self._decided(node)
        function = self.functions.get(node.func.id)
        if function is None:
            known = ", ".join(sorted([*self.functions, _DECIDED]))
            raise LookupError(f"no function {node.func.id!r}; there are {known}")
        named = {str(k.arg): self.value(k.value) for k in node.keywords}
        values = [self.value(argument) for argument in node.args]
        result = function(*values, **named)
        if node.func.id in _COMPARING:
            relation = f"within {_number(values[2]).value:g} % of" if len(values) > 2 else "="
            self._step(relation, node.args[:2], values[:2], result)
        return result

    def _decided(self, node: ast.Call) -> bool | None:
        """Return true where the first statement holds, false where the second fails, else unknown.

        For a claim that one number supports and another refutes. Results may be missing for the
        statement that does not decide; the comparisons of the one that does are recorded.
        """
        if len(node.args) != 2 or node.keywords:
            raise TypeError(f"{_DECIDED}(sufficient, necessary) takes two statements")
        truths: list[bool | None] = []
        steps: list[list[ExpressionStep]] = []
        missing: list[MissingResultError] = []
        for statement in node.args:
            before = len(self.steps)
            try:
                truths.append(_truth(self.value(statement)))
            except MissingResultError as error:
                truths.append(None)
                missing.append(error)
            steps.append(self.steps[before:])
            del self.steps[before:]
        shown, refuted = truths[0] is True, truths[1] is False
        if shown != refuted:
            self.steps += steps[0] if shown else steps[1]
            return shown
        self.steps += steps[0] + steps[1]
        if missing:
            raise missing[0]
        return None


_COMPARING = ("agrees", "within")
_DECIDED = "decided"


def _has_interval(node: ast.expr, value: Operand) -> bool:
    """Return whether an operand is a measured number with an interval."""
    if not isinstance(value, Interval) or value.is_exact:
        return False
    return any(isinstance(n, ast.Name) and n.id == "measured" for n in ast.walk(node))


def _with_value(node: ast.expr, value: Operand) -> str:
    """Return one side of a comparison: its formula and value."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    formula = readable(ast.unparse(node).replace("'", '"'))
    if not isinstance(value, Interval):
        return f"{formula} ({value})" if isinstance(value, str) else formula
    if _has_interval(node, value):
        limits = format_range(value.low, value.high, 4)
        # A number that is only bounded has a limit in the place of its value.
        bounded = value.value in (value.low, value.high)
        return f"{formula} ({'' if bounded else format_number(value.value, 4) + ' '}{limits})"
    return f"{formula} ({format_number(value.value)})"


def _spread(function: Callable[[Interval, Interval], Interval], a: Operand, b: Operand) -> Operand:
    """Apply arithmetic to numbers, or to lists element-wise."""
    if not isinstance(a, list) and not isinstance(b, list):
        return function(_number(a), _number(b))
    first = a if isinstance(a, list) else [a] * len(b)
    second = b if isinstance(b, list) else [b] * len(a)
    return [function(_number(x), _number(y)) for x, y in zip(first, second, strict=True)]


def _number(value: Operand) -> Interval:
    if not isinstance(value, Interval):
        raise TypeError(f"a number is needed, not {value!r}")
    return value


def _truth(value: Operand) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"true or false is needed, not {value!r}")
    return value


def _numbers(arguments: Sequence[Operand]) -> list[Interval]:
    """Return the numbers of an argument list, lists flattened."""
    flat: list[Interval] = []
    for argument in arguments:
        flat.extend(map(_number, argument) if isinstance(argument, list) else [_number(argument)])
    if not flat:
        raise ValueError("no numbers given")
    return flat


def _absolute(value: Operand) -> Operand:
    return [abs(_number(n)) for n in value] if isinstance(value, list) else abs(_number(value))


def _agrees(a: Operand, b: Operand, percent: Interval | None = None) -> bool:
    """Return whether the ranges of two numbers overlap, or come within ``percent``."""
    return _number(a).overlaps(_number(b), percent.value / 100 if percent else 0.0)


def _within(a: Operand, b: Operand, percent: Interval) -> bool | None:
    """Return whether all of ``a``'s range lies within ``percent`` of ``b``'s value."""
    number, centre = _number(a), _number(b).value
    half = abs(centre) * percent.value / 100
    low, high = Interval.exact(centre - half), Interval.exact(centre + half)
    return _conjunction([_less_or_equal(low, number), _less_or_equal(number, high)])


def _given(condition: Operand, consequence: Operand) -> bool | None:
    """Return the consequence where the condition holds, else unknown."""
    return _truth(consequence) if condition is True else None


def _change_percent(new: Operand, old: Operand) -> Interval:
    # new/old - 1 uses each number once, so the range is no wider than necessary.
    return Interval.exact(100) * (_number(new) / _number(old) - Interval.exact(1))


def _whole(value: Operand) -> int:
    return round(_number(value).value)


def _frame_payload(frame_bytes: Operand) -> Interval:
    """Return the UDP payload, in bytes, of a frame with its frame check sequence."""
    return Interval.exact(udp_payload(_whole(frame_bytes)))


def _payload_limit(
    payload_bytes: Operand, tagged: Operand = False, line_mbps: Operand = None
) -> Operand:
    """Return the highest payload rate of a line; for a list of payloads a list of rates."""
    if isinstance(payload_bytes, list):
        return [_payload_limit(one, tagged, line_mbps) for one in payload_bytes]
    line = _line(tagged, line_mbps)
    return Interval.exact(payload_limit_mbps(_whole(payload_bytes), **line))


def _tcp_limit(tagged: Operand = False, line_mbps: Operand = None) -> Interval:
    return Interval.exact(tcp_limit_mbps(**_line(tagged, line_mbps)))


def _line(tagged: Operand, line_mbps: Operand) -> dict[str, Any]:
    rate = 1000.0 if line_mbps is None else _number(line_mbps).value
    return {"tagged": bool(tagged), "rate_mbps": rate}


def _datagrams(rate_mbps: Operand, duration_s: Operand, payload_bytes: Operand) -> Interval:
    """Return the number of datagrams of a payload rate over a duration."""
    bits = _number(rate_mbps) * Interval.exact(1e6) * _number(duration_s)
    return bits / (Interval.exact(8) * _number(payload_bytes))


def _none_lost_bound_percent(datagrams: Operand, level: Interval | None = None) -> Interval:
    """Return the upper bound, in percent, of the loss ratio of a trial without loss."""
    # Importing statsmodels takes a second, and few rules use it.
    from tsnrepro.stats.proportions import upper_bound_when_none_lost  # noqa: PLC0415

    count, confidence = _number(datagrams), level.value if level else 0.95
    bounds = [
        100 * upper_bound_when_none_lost(max(1, round(n)), confidence)
        for n in (count.value, count.high, count.low)
    ]
    return Interval(*bounds)


FUNCTIONS: dict[str, Callable[..., Operand]] = {
    "abs": _absolute,
    "min": lambda *a: intervals.extreme(min, _numbers(a)),
    "max": lambda *a: intervals.extreme(max, _numbers(a)),
    "mean": lambda *a: intervals.mean(_numbers(a)),
    "sum": lambda *a: intervals.total(_numbers(a)),
    "agrees": _agrees,
    "within": _within,
    "given": _given,
    "change_percent": _change_percent,
    "contains": lambda text, part: str(part) in str(text),
    "frame_payload": _frame_payload,
    "payload_limit": _payload_limit,
    "tcp_limit": _tcp_limit,
    "datagrams": _datagrams,
    "none_lost_bound_percent": _none_lost_bound_percent,
}
"""Functions that read no data. Rates are Mb/s, times s, sizes bytes."""


_TEXT = r'"([^"]*)"'
_CELL_CALL = re.compile(
    rf"\b(?:published|cell)\({_TEXT}, {_TEXT}(?:, {_TEXT}, {_TEXT})?\)(?:\.value)?"
)
_COLUMN_CALL = re.compile(rf"\bcolumn\({_TEXT}, {_TEXT}[^)]*\)")
_MEASURED_CALL = re.compile(rf"\bmeasured\({_TEXT}[^)]*\)(?:\.value)?")
_LOOKUP_CALL = re.compile(rf"\blookup\({_TEXT}, {_TEXT}, ([\w.]+), {_TEXT}\)")


def readable(formula: str) -> str:
    """Return a formula for readers of the ledger: column[row] for the path of a cell."""

    def short(match: re.Match[str]) -> str:
        _, second, row, column = match.groups()
        return f"{column}[{row}]" if column else second.replace("-", "_")

    text = _CELL_CALL.sub(short, " ".join(formula.split()))
    text = _COLUMN_CALL.sub(r"\2", text)
    text = _MEASURED_CALL.sub(r"\1", text)
    text = _LOOKUP_CALL.sub(r"\4[\3]", text)
    return re.sub(r"\b(\w+)\.value\b", r"\1", text)
