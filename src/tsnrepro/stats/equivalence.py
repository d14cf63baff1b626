"""Whether two configurations are equivalent, different, or not told apart by the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from numpy.typing import ArrayLike
from statsmodels.stats.weightstats import ttost_ind

from tsnrepro.stats.checks import finite_values
from tsnrepro.stats.comparisons import NO_SPREAD, difference_of_means
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate


class Verdict(StrEnum):
    """What the data say about a difference and a margin."""

    EQUIVALENT = "equivalent"
    DIFFERENT = "different"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Equivalence:
    """Hold the outcome of an equivalence test.

    Attributes:
        verdict: see `equivalence`.
        p_value: p value of the two one-sided tests; small means equivalent. nan where a
            group has fewer than two values.
        margin: largest absolute difference that counts as none, in the values' unit.
        difference: mean(a) - mean(b) with its two-sided interval at `level`.
        p_difference: p value of equal means, for the difference from zero as such.

    """

    verdict: Verdict
    p_value: float
    margin: float
    difference: Estimate
    p_difference: float


def equivalence(
    a: ArrayLike, b: ArrayLike, margin: float, level: float = DEFAULT_LEVEL, unit: str = ""
) -> Equivalence:
    """Test whether the means of `a` and `b` differ by less than `margin`.

    Two one-sided Welch tests (Schuirmann 1987, Journal of Pharmacokinetics and
    Biopharmaceutics 15(6); `statsmodels` ttost_ind). With alpha = 1 - level the verdict is

    - equivalent, if the larger of the two p values is below alpha: the interval of
      level 1 - 2 alpha lies inside (-margin, margin);
    - different, if the two-sided interval of `level` lies beyond the margin as a whole, above
      +margin or below -margin: it then excludes zero and every negligible difference;
    - cannot tell, otherwise. That includes a difference which is significant (see
      `p_difference`) while neither shown to be smaller than the margin nor larger, and
      groups of fewer than two values.

    Equivalence and difference exclude each other. Without spread in either group the difference
    itself decides, up to the resolution of the readings.

    Args:
        a: values of the configuration in question, shape (n_a,).
        b: values of the control, shape (n_b,).
        margin: largest absolute difference that counts as none, in the values' unit; to be
            chosen before the data are seen.
        level: confidence level.
        unit: unit of the values.

    Raises:
        ValueError: if `margin` is not positive and finite, or a group is empty or not finite.

    """
    if not (math.isfinite(margin) and margin > 0):
        raise ValueError(f"margin must be positive and finite, got {margin}")
    first, second = finite_values(a, "a"), finite_values(b, "b")
    comparison = difference_of_means(first, second, level, unit)
    difference = comparison.estimate
    if not difference.has_interval:
        p_value = math.nan
    elif difference.method == NO_SPREAD:
        p_value = 0.0 if abs(difference.value) < margin else 1.0
    else:
        p_value = float(ttost_ind(first, second, -margin, margin, usevar="unequal")[0])
    if p_value < 1 - level:
        verdict = Verdict.EQUIVALENT
    elif difference.low > margin or difference.high < -margin:
        verdict = Verdict.DIFFERENT
    else:
        verdict = Verdict.CANNOT_TELL
    return Equivalence(verdict, p_value, margin, difference, comparison.p_value)
