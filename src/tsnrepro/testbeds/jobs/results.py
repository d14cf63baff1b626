"""What a job brings back: one tar, with the output of each step and the files collected."""

import io
import tarfile
from collections.abc import Mapping
from typing import Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.host import Completed
from tsnrepro.testbeds.jobs import script
from tsnrepro.testbeds.jobs.job import Job, JobResult, Step


def unpack(content: bytes, job: Job) -> dict[str, bytes]:
    """Return the members of the tar by their names.

    Raises
    ------
    TestbedError
        It is no tar or is cut off, or the set-up of the topology failed; with the command's words.
    """
    where = f"results of job {job.name}"
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
            members = [member for member in tar if member.isfile()]
            opened = {member.name: tar.extractfile(member) for member in members}
            brought = {name: file.read() for name, file in opened.items() if file}
    except tarfile.TarError as error:
        raise TestbedError(f"there is no archive: {error}", where) from error
    if "complete" not in brought:
        raise TestbedError("the archive is cut off", where, "Raise the job's memory_mb")
    if said := brought.get("steps/failed"):
        raise TestbedError(
            f"could not set the topology up: {said.decode(errors='replace').strip()}",
            f"job {job.name}",
        )
    return brought


def result_of(brought: Mapping[str, bytes], job: Job, **ran: Any) -> JobResult:
    """Return what a job brought back, with how it ``ran``: the other fields of its result.

    Raises
    ------
    TestbedError
        A step left no output, exit status or time.
    """
    return JobResult(
        job=job.name,
        steps=steps_of(brought, job),
        files=files_of(brought, job),
        kernel=brought["kernel"].decode().strip(),
        seed=job.seed,
        **ran,
    )


def steps_of(brought: Mapping[str, bytes], job: Job) -> dict[str, Completed]:
    """Return every command of the job as it ended, by its name.

    Raises
    ------
    TestbedError
        A step left no output, exit status or time.
    """
    return {step.name: _completed(step, brought, job) for step in job.commands()}


def files_of(brought: Mapping[str, bytes], job: Job) -> dict[str, bytes]:
    """Return the files that the job collected, by their paths."""
    paths = enumerate(script.collected(job))
    return {path: brought[f"files/{n}"] for n, path in paths if f"files/{n}" in brought}


def _completed(step: Step, brought: Mapping[str, bytes], job: Job) -> Completed:
    def read(name: str) -> str:
        path = f"steps/{step.name}/{name}"
        if path not in brought:
            raise TestbedError(f"there is no {name} of step {step.name}", f"job {job.name}")
        return brought[path].decode(errors="replace")

    began, ended = int(read("began")), int(read("ended"))
    return Completed(
        host=step.host,
        argv=step.argv,
        exit_status=int(read("status")),
        stdout=read("stdout"),
        stderr=read("stderr"),
        started_s=began / 1e9,
        seconds=(ended - began) / 1e9,
    )
