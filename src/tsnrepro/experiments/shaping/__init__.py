"""Experiment ``shaping``: whether gates hold, and what gates, credit and priority cost or save."""

from tsnrepro.experiments.shaping.plan import measure, plan

# Parts name the kinds of testbeds that can run them.
plan_for = plan

__all__ = ["measure", "plan", "plan_for"]
