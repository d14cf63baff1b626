"""Results of a job's script: an archive of the steps' outputs and the collected files."""

import io
import tarfile
from collections.abc import Mapping
from typing import Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.hosts.host import Completed
from tsnrepro.testbeds.jobs import script
from tsnrepro.testbeds.jobs.job import Job, JobResult, Step


def unpack(content: bytes, job: Job) -> dict[str, bytes]:
    """Return the files of the archive by name.

    Raises TestbedError if it is not a tar or is truncated, or the topology could not be set up;
    with the command.
    """
    where = f"results of job {job.name}"
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
            members = [member for member in tar if member.isfile()]
            opened = {member.name: tar.extractfile(member) for member in members}
            files = {name: file.read() for name, file in opened.items() if file}
    except tarfile.TarError as error:
        raise TestbedError(f"not an archive: {error}", where) from error
    if "complete" not in files:
        raise TestbedError("the archive is truncated", where, "Raise the job's memory_mb")
    if output := files.get("steps/failed"):
        raise TestbedError(
            f"could not set up the topology: {output.decode(errors='replace').strip()}",
            f"job {job.name}",
        )
    return files


def result_of(files: Mapping[str, bytes], job: Job, **fields: Any) -> JobResult:
    """Return the result of a job from its archive, with the other ``fields`` of the result.

    Raises TestbedError if a step has no output, exit status or time.
    """
    return JobResult(
        job=job.name,
        steps=steps_of(files, job),
        files=files_of(files, job),
        kernel=files["kernel"].decode().strip(),
        seed=job.seed,
        **fields,
    )


def steps_of(files: Mapping[str, bytes], job: Job) -> dict[str, Completed]:
    """Return the completed commands of the job, by step name.

    Raises TestbedError if a step has no output, exit status or time.
    """
    return {step.name: _completed(step, files, job) for step in job.commands()}


def files_of(files: Mapping[str, bytes], job: Job) -> dict[str, bytes]:
    """Return the collected files by path."""
    paths = enumerate(script.collected(job))
    return {path: files[f"files/{n}"] for n, path in paths if f"files/{n}" in files}


def _completed(step: Step, files: Mapping[str, bytes], job: Job) -> Completed:
    def read(name: str) -> str:
        path = f"steps/{step.name}/{name}"
        if path not in files:
            raise TestbedError(f"there is no {name} of step {step.name}", f"job {job.name}")
        return files[path].decode(errors="replace")

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
