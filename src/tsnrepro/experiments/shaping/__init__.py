"""Experiment ``shaping``: whether gates hold, and what gates, credit and priority cost or save."""

from tsnrepro.experiments.shaping.plan import measure, plan
from tsnrepro.experiments.shaping.schedule import schedules

__all__ = ["measure", "plan", "schedules"]
