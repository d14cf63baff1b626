"""The rules of the audit, by theme; importing this package registers all of them."""

from tsnrepro.published.rules import arithmetic, consistency, mechanisms, rates, statistics, trials
from tsnrepro.published.rules.base import RULES, Check, CheckError

__all__ = [
    "RULES",
    "Check",
    "CheckError",
    "arithmetic",
    "consistency",
    "mechanisms",
    "rates",
    "statistics",
    "trials",
]
