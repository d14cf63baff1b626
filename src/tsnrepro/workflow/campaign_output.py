"""Campaign progress on the terminal: what is measured, and the remaining time.

Snakemake's events come as log records; printed are a line per measured experiment and per built
paper, and all warnings and errors.
"""

import logging
import time
from collections import Counter, defaultdict
from typing import Any, TextIO

from tsnrepro.common.durations import duration

EXPECTED = "expected_seconds"
"""Attribute of a log record: nominal seconds to measure by testbed, campaign and experiment."""

STOPPING = "stopping"
"""Attribute of a log record: the workflow ends, and jobs that fail from now on were stopped."""

_CLEAR_LINE = "\r\x1b[K"
# Weight of the nominal times against the measured ones: starting a notebook takes a few seconds,
# which would make a model's short trials look ten times as long as they are.
_PRIOR_SECONDS = 30.0
# Prefixes of messages that Snakemake prints in every run.
_ROUTINE = (
    "Assuming unrestricted shared filesystem usage",
    "Building DAG of jobs",
    "Conda environments: ignored",
    "Execute ",
    "Group jobs: inactive",
    "Select jobs to execute",
    "Singularity containers: ignored",
    "Using shell: ",
)
# What it advises is of no use: startup.py removes stale locks, so the other one lives.
_LOCKED = "cannot be locked"
_SECOND_RUN = (
    "tsnrepro: another run measures or builds in this folder: wait until it has ended, or end it "
    "with `tsnrepro stop`"
)
_STEPS = {
    "measure": "experiments to measure",
    "analyse": "to analyse",
    "study_chunk": "parts of a study",
    "paper": "papers to build",
}


class CampaignOutput:
    """Prints lines about the jobs of one call of Snakemake.

    Parameters
    ----------
    stream
        Output. On a terminal its last line is a status line that is overwritten;
        :mod:`tsnrepro.runner.progress` writes there too.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._interactive = stream.isatty()
        self._jobs: dict[int, _Job] = {}
        self._to_measure = 0
        self._measured = 0
        self._expected: dict[tuple[str, str, str], float] = {}
        # By testbed: seconds in which any of its experiments was measured, and nominal seconds of
        # the finished ones.
        self._busy_s: dict[str, float] = defaultdict(float)
        self._finished_s: dict[str, float] = defaultdict(float)
        self._last_event = time.monotonic()
        self._stopping = False

    def handle_event(self, record: logging.LogRecord) -> None:
        """Print an event, if there is anything to print."""
        event = getattr(record, "event", None)
        self._expected |= getattr(record, EXPECTED, {})
        self._stopping |= getattr(record, STOPPING, False)
        act = {
            "run_info": self._run,
            "job_info": self._started,
            "job_finished": self._finished,
            "job_error": self._failed,
            "progress": self._progress,
        }.get(str(event))
        if act is not None:
            self._count_time()
            act(record)
        elif self._stopping and not hasattr(record, STOPPING):
            pass  # Snakemake's words for jobs that were stopped
        elif record.levelno >= logging.WARNING or _is_informative(event, record):
            message = record.getMessage()
            self._line(_SECOND_RUN if _LOCKED in message else message)

    # --- events ---------------------------------------------------------------------------------

    def _run(self, record: Any) -> None:
        steps = Counter(record.stats)
        steps.pop("total", None)
        self._to_measure = steps["measure"]
        parts = [f"{what}: {steps[rule]}" for rule, what in _STEPS.items() if steps[rule]]
        self._line(f"tsnrepro: {', '.join([*parts, f'steps: {steps.total()}'])}")

    def _started(self, record: Any) -> None:
        job = _Job(record.rule_name, dict(record.wildcards or {}))
        self._jobs[record.jobid] = job
        if job.rule == "measure":
            self._status(f"{job.name}: preparing")

    def _finished(self, record: Any) -> None:
        job = self._jobs.pop(record.job_id, None)
        if job is None or job.rule not in ("measure", "paper"):
            return
        took = time.monotonic() - job.started
        if job.rule == "paper":
            self._line(f"{job.name}: built")
            return
        self._measured += 1
        self._finished_s[job.run[0]] += self._expected.pop(job.run, 0.0)
        self._line(
            f"{job.name}: measured in {duration(took)}"
            f" ({self._measured} of {self._to_measure}{self._left()})"
        )

    def _failed(self, record: Any) -> None:
        job = self._jobs.pop(record.jobid, None) or _Job(record.rule_name, {})
        if self._stopping:
            self._line(f"{job.name}: stopped")
            return
        where = f"; see {', '.join(map(str, record.log))}" if record.log else ""
        self._line(f"{job.name}: FAILED{where}")

    def _progress(self, record: Any) -> None:
        # While measuring, the status line is that of the trials.
        if not any(job.rule == "measure" for job in self._jobs.values()):
            self._status(f"{record.done} of {record.total} steps done")

    def _count_time(self) -> None:
        """Add the time since the last event to the testbeds that were measuring.

        Experiments that are measured at the same time, as on the model, count once.
        """
        now = time.monotonic()
        for testbed in {job.run[0] for job in self._jobs.values() if job.rule == "measure"}:
            self._busy_s[testbed] += now - self._last_event
        self._last_event = now

    def _left(self) -> str:
        """Return the remaining time of measuring, as text.

        It is the nominal rest of each testbed, scaled by measured over nominal time so far.
        """
        left = 0.0
        for (testbed, _, _), nominal in self._expected.items():
            took, nominal_s = (
                seconds[testbed] + _PRIOR_SECONDS for seconds in (self._busy_s, self._finished_s)
            )
            left += nominal * (took / nominal_s if self._finished_s[testbed] else 1.0)
        return f", about {duration(left)} of measuring left" if left else ""

    # --- writing --------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._stream.write(f"{_CLEAR_LINE if self._interactive else ''}{text}\n")
        self._stream.flush()

    def _status(self, text: str) -> None:
        if self._interactive:
            self._stream.write(f"{_CLEAR_LINE}{text}")
            self._stream.flush()


def _is_informative(event: object, record: logging.LogRecord) -> bool:
    message = record.getMessage()
    informs = record.levelno == logging.INFO and event in (None, "group_info")
    return informs and bool(message) and not message.startswith(_ROUTINE)


class _Job:
    """A running job: its rule, its wildcards, and when it started."""

    def __init__(self, rule: str, wildcards: dict[str, str]) -> None:
        self.rule, self.wildcards = rule, wildcards
        self.started = time.monotonic()

    @property
    def run(self) -> tuple[str, str, str]:
        """Testbed, campaign and experiment; empty where the job has none."""
        testbed, campaign, experiment = (
            self.wildcards.get(name, "") for name in ("testbed", "campaign", "experiment")
        )
        return testbed, campaign, experiment

    @property
    def name(self) -> str:
        """The job as text."""
        testbed, _, experiment = self.run
        if testbed and experiment:
            about = f"{experiment} on {testbed}"
            return about if self.rule == "measure" else f"{about}, {self.rule}"
        return " ".join([self.rule, *self.wildcards.values()])
