"""What a campaign says on the terminal: what is measured, how far it is, how long it takes still.

Snakemake's events come in as log records and go out as a line for each experiment that was measured
and each paper that was printed. Everything that is a warning or an error is passed on.
"""

import logging
import time
from collections import Counter, defaultdict
from typing import Any, TextIO

from tsnrepro.runner.progress import duration

EXPECTED = "expected_seconds"
"""Name of a record's attribute: nominal seconds to measure, by testbed, campaign, experiment."""

_CLEAR_LINE = "\r\x1b[K"
# What nominal times are believed without evidence: starting a notebook takes a few seconds too, and
# would make a model's short trials look ten times as long as they are.
_BELIEVED_SECONDS = 30.0
# Beginnings of what Snakemake says in any run.
_ALWAYS_SAID = (
    "Assuming unrestricted shared filesystem usage",
    "Building DAG of jobs",
    "Conda environments: ignored",
    "Execute ",
    "Group jobs: inactive",
    "Select jobs to execute",
    "Singularity containers: ignored",
    "Using shell: ",
)
_STEPS = {
    "measure": "experiments to measure",
    "analyse": "to analyse",
    "study_chunk": "parts of a study",
    "paper": "papers to print",
}


class CampaignOutput:
    """Writes lines about the jobs of one call of Snakemake.

    Parameters
    ----------
    stream
        Where they go. On a terminal what goes on at the moment stands in a last line, which is
        written over; the measuring programs write there too, see
        :mod:`tsnrepro.runner.progress`.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._interactive = stream.isatty()
        self._jobs: dict[int, _Job] = {}
        self._to_measure = 0
        self._measured = 0
        self._expected: dict[tuple[str, str, str], float] = {}
        # By testbed: seconds during which any of its experiments was measured, and those that the
        # ended ones were expected to take.
        self._busy: dict[str, float] = defaultdict(float)
        self._ended: dict[str, float] = defaultdict(float)
        self._looked = time.monotonic()

    def tell(self, record: logging.LogRecord) -> None:
        """Say what there is to say about one event."""
        event = getattr(record, "event", None)
        self._expected |= getattr(record, EXPECTED, {})
        act = {
            "run_info": self._run,
            "job_info": self._begun,
            "job_finished": self._finished,
            "job_error": self._failed,
            "progress": self._progress,
        }.get(str(event))
        if act is not None:
            self._count_time()
            act(record)
        elif record.levelno >= logging.WARNING or self._is_worth_saying(event, record):
            self._line(record.getMessage())

    def _is_worth_saying(self, event: object, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        informs = record.levelno == logging.INFO and event in (None, "group_info")
        return informs and bool(said) and not said.startswith(_ALWAYS_SAID)

    # --- events ---------------------------------------------------------------------------------

    def _run(self, record: Any) -> None:
        steps = Counter(record.stats)
        steps.pop("total", None)
        self._to_measure = steps["measure"]
        parts = [f"{what}: {steps[rule]}" for rule, what in _STEPS.items() if steps[rule]]
        self._line(f"tsnrepro: {', '.join([*parts, f'steps in all: {steps.total()}'])}")

    def _begun(self, record: Any) -> None:
        job = _Job(record.rule_name, dict(record.wildcards or {}), list(record.log or []))
        self._jobs[record.jobid] = job
        if job.rule == "measure":
            self._now(f"{job.name}: preparing")

    def _finished(self, record: Any) -> None:
        job = self._jobs.pop(record.job_id, None)
        if job is None or job.rule not in ("measure", "paper"):
            return
        took = time.monotonic() - job.began
        if job.rule == "paper":
            self._line(f"{job.name}: printed")
            return
        self._measured += 1
        self._ended[job.run[0]] += self._expected.pop(job.run, 0.0)
        self._line(
            f"{job.name}: measured in {duration(took)}"
            f" ({self._measured} of {self._to_measure}{self._left()})"
        )

    def _failed(self, record: Any) -> None:
        job = self._jobs.pop(record.jobid, None) or _Job(record.rule_name, {}, [])
        where = f"; see {', '.join(map(str, record.log))}" if record.log else ""
        self._line(f"{job.name}: FAILED{where}")

    def _progress(self, record: Any) -> None:
        # While something is measured the line belongs to its trials.
        if not any(job.rule == "measure" for job in self._jobs.values()):
            self._now(f"{record.done} of {record.total} steps done")

    def _count_time(self) -> None:
        """Add the time since the last event to the testbeds that measured meanwhile.

        What is measured at the same time, as on the model, takes that time once.
        """
        now = time.monotonic()
        for testbed in {job.run[0] for job in self._jobs.values() if job.rule == "measure"}:
            self._busy[testbed] += now - self._looked
        self._looked = now

    def _left(self) -> str:
        """Say how long measuring takes still.

        That is the nominal rest of each testbed, scaled by what there was of it so far; a few
        seconds of evidence scale it little.
        """
        left = 0.0
        for (testbed, _, _), nominal in self._expected.items():
            took, ended = (
                seconds[testbed] + _BELIEVED_SECONDS for seconds in (self._busy, self._ended)
            )
            left += nominal * (took / ended if self._ended[testbed] else 1.0)
        return f", about {duration(left)} of measuring left" if left else ""

    # --- writing --------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._stream.write(f"{_CLEAR_LINE if self._interactive else ''}{text}\n")
        self._stream.flush()

    def _now(self, text: str) -> None:
        if self._interactive:
            self._stream.write(f"{_CLEAR_LINE}{text}")
            self._stream.flush()


class _Job:
    """A job that was begun: its rule, what it is about, and since when."""

    def __init__(self, rule: str, wildcards: dict[str, str], log: list[str]) -> None:
        self.rule, self.wildcards, self.log = rule, wildcards, log
        self.began = time.monotonic()

    @property
    def run(self) -> tuple[str, str, str]:
        """Testbed, campaign and experiment, as far as the job has them."""
        testbed, campaign, experiment = (
            self.wildcards.get(name, "") for name in ("testbed", "campaign", "experiment")
        )
        return testbed, campaign, experiment

    @property
    def name(self) -> str:
        """What people call it."""
        testbed, _, experiment = self.run
        if testbed and experiment:
            about = f"{experiment} on {testbed}"
            return about if self.rule == "measure" else f"{about}, {self.rule}"
        return " ".join([self.rule, *self.wildcards.values()])
