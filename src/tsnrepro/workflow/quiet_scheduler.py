"""Snakemake's scheduler, kept quiet while a job measures on the processors that both share."""

from typing import Any


def disable_rate_limiter(scheduler: Any) -> None:
    """Let the scheduler wait until a job ends, and do nothing before.

    To keep to a rate of jobs, Snakemake looks at all waiting ones every second, and once more a
    second for each job that has ended: after some experiments that was half a processor. Nothing
    here needs a rate.

    Parameters
    ----------
    scheduler
        Snakemake's, as ``workflow.scheduler`` of a Snakefile once the workflow starts.
    """
    scheduler.job_rate_limiter = None
