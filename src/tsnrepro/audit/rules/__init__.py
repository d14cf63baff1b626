"""Rules that a table of numbers can break, by theme; importing this registers all of them."""

from tsnrepro.audit.rules import arithmetic, consistency, mechanisms, rates, statistics, trials
from tsnrepro.audit.rules.base import RULES, CheckError, Rule, RuleParameters

__all__ = [
    "RULES",
    "CheckError",
    "Rule",
    "RuleParameters",
    "arithmetic",
    "consistency",
    "mechanisms",
    "rates",
    "statistics",
    "trials",
]
