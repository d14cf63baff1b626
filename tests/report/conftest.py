"""Fixtures of the tests of the report."""

from simulated_run import analysed, simulated_run_folder  # noqa: F401 - fixtures
