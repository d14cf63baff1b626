"""Requests to a campaign that is being measured, from another process."""

import os
import signal

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config.files import raw_root
from tsnrepro.runner.control import STOP, WORKFLOW_CONTROL, holder_of, live_runs, request


def stop(campaign: str | None = None, testbed: str | None = None) -> list[str]:
    """Ask what is measured now to end after its trial, and return a line for each.

    Raises
    ------
    ConfigurationError
        Nothing of that campaign and testbed is measured.
    RecordError
        It was started by another user.
    """

    def wanted(on: str, under: str) -> bool:
        return testbed in (None, on) and campaign in (None, under)

    workflow = holder_of(root() / WORKFLOW_CONTROL)
    if workflow and any(wanted(*each) for each in workflow["campaigns"]):
        _terminate(workflow["pid"])
        return [
            f"{under} on {on}: ends after the trial that is measured now"
            for on, under in sorted(workflow["campaigns"])
        ]
    runs = [run for run in live_runs(raw_root()) if wanted(run.testbed, run.campaign)]
    for run in runs:
        request(run.control, STOP)
    if not runs:
        raise ConfigurationError(
            "nothing is being measured",
            f"{campaign or 'any campaign'} on {testbed or 'any testbed'}",
        )
    return [
        f"{run.experiment} of {run.campaign} on {run.testbed}: ends after the trial that is "
        "measured now"
        for run in runs
    ]


def _terminate(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError as error:
        raise ConfigurationError(
            "the campaign was started by another user", f"process {pid}", "Run this as that user"
        ) from error
    except ProcessLookupError:
        pass  # it ended meanwhile
