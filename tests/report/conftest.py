"""What tests of the report share."""

from modelled_runs import analysed, modelled_run  # noqa: F401 - fixtures
