"""Equivalence tests: whether two configurations are equivalent, different, or neither is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from tsnrepro.stats.checks import half_step
from tsnrepro.stats.comparisons import relative_difference, t_test
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate


class Verdict(StrEnum):
    """Conclusion from the data about a difference and a margin."""

    EQUIVALENT = "equivalent"
    DIFFERENT = "different"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Equivalence:
    """The outcome of an equivalence test.

    Attributes
    ----------
    verdict
        See :func:`equivalence`.
    p_value
        The larger p value of the two one-sided tests; small means equivalent. nan if a group has
        fewer than three values, or neither has any spread.
    difference
        a / b - 1 in percent with its two-sided interval.
    p_difference
        p value of a ratio of one.
    p_verdict
        p value of the verdict: of two one-sided tests, or of a difference no larger than the
        margin, whichever is smaller; nan as `p_value`.
    """

    verdict: Verdict
    p_value: float
    difference: Estimate
    p_difference: float
    p_verdict: float


def equivalence(
    a: ArrayLike,
    b: ArrayLike,
    margin_percent: float,
    level: float = DEFAULT_LEVEL,
    *,
    paired: bool = False,
) -> Equivalence:
    """Test whether `a` and `b`, both positive, differ by less than `margin_percent`.

    Two one-sided t tests on logarithms (Schuirmann 1987, Journal of Pharmacokinetics and
    Biopharmaceutics 15(6)). With alpha = 1 - level the verdict is

    - equivalent, if the larger of the two p values is below alpha: the interval of
      level 1 - 2 alpha lies inside the margins;
    - different, if the whole two-sided interval of `level` lies beyond a margin: it then excludes
      zero and every negligible difference;
    - cannot tell, otherwise: also for a significant difference (see `p_difference`) that is shown
      to be neither smaller nor larger than the margin, and for groups of fewer than three values.

    Equivalence and difference exclude each other. Readings that repeat are tested half a step off,
    as by :func:`tsnrepro.stats.comparisons.relative_difference`; without spread in either group
    they show the step and not the scatter, and cannot tell.

    Parameters
    ----------
    a, b, level, paired
        As for :func:`tsnrepro.stats.comparisons.relative_difference`.
    margin_percent
        Largest negligible difference, in percent of the control; to be chosen before the data are
        seen.

    Raises
    ------
    ValueError
        The margin is not in (0, 100), or the groups cannot be compared.
    """
    if not 0 < margin_percent < 100:
        raise ValueError(f"margin_percent must lie between 0 and 100, got {margin_percent}")
    comparison = relative_difference(a, b, level, paired=paired)
    difference, p_difference = comparison.estimate, comparison.p_value
    low, high = (math.log1p(sign * margin_percent / 100) for sign in (-1, 1))
    if not difference.decides:
        return Equivalence(Verdict.CANNOT_TELL, math.nan, difference, p_difference, math.nan)
    first, second = (np.asarray(group, float) for group in (a, b))
    half = half_step(first, second)
    above = t_test(
        np.log(first - half) - low, np.log(second + half), paired=paired, alternative="greater"
    )
    below = t_test(
        np.log(first + half) - high, np.log(second - half), paired=paired, alternative="less"
    )
    beyond = (
        t_test(np.log(first - half) - high, np.log(second + half), paired=paired,
               alternative="greater"),
        t_test(np.log(first + half) - low, np.log(second - half), paired=paired,
               alternative="less"),
    )  # fmt: skip
    p_value = max(float(above.pvalue), float(below.pvalue))
    p_verdict = min(p_value, *(2 * float(test.pvalue) for test in beyond))
    if p_value < 1 - level:
        verdict = Verdict.EQUIVALENT
    elif difference.low > margin_percent or difference.high < -margin_percent:
        verdict = Verdict.DIFFERENT
    else:
        verdict = Verdict.CANNOT_TELL
    return Equivalence(verdict, p_value, difference, p_difference, p_verdict)
