"""Measure a trial of ``shaping``: by a job for hosts, or on the model."""

from typing import TYPE_CHECKING, cast

from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.protocol import JobTestbed, Testbed

if TYPE_CHECKING:
    from tsnrepro.testbeds.model import ModelTestbed


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial by a job for hosts, or on the model."""
    if isinstance(testbed, JobTestbed):
        from tsnrepro.experiments.shaping import on_hosts  # noqa: PLC0415

        on_hosts.measure(testbed, trial, measured)
    else:
        from tsnrepro.experiments.shaping import on_model  # noqa: PLC0415 - compiled code

        on_model.measure(cast("ModelTestbed", testbed), trial, measured)
