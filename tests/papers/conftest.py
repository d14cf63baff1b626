"""Fixtures of the tests of papers."""

from simulated_run import analysed, simulated_run_folder  # noqa: F401 - fixtures
