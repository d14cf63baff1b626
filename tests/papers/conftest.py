"""What tests of papers share."""

from modelled_runs import analysed, modelled_run  # noqa: F401 - fixtures
