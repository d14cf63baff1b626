"""Rules that a table of numbers can break, by theme; importing this registers all of them."""

from tsnrepro.audit.rules import arithmetic, consistency, mechanisms, rates, statistics, trials
from tsnrepro.audit.rules.base import RULES, Check, CheckError

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
