"""Files of a job on remote hosts: copied to them, fetched, and removed."""

import base64
from collections.abc import Mapping
from pathlib import PurePosixPath

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.testbeds.hosts.host import COMMAND_SECONDS, RemoteHost, run_checked
from tsnrepro.testbeds.hosts.rollback import Rollback
from tsnrepro.testbeds.jobs.job import Job

_MISSING_PROGRAMS = 'for name; do command -v "$name" >/dev/null || echo "$name"; done'
_EXISTING = 'n=0; for path; do if [ -e "$path" ]; then echo $n; fi; n=$((n + 1)); done'
# A folder with other files in it stays.
_REMOVE_FOLDERS = """\
for path; do
    [ ! -d "$path" ] || rmdir --ignore-fail-on-non-empty -- "$path" || exit
done"""
# Binary content as text.
_FETCH = 'if [ -f "$1" ]; then echo there; exec base64 "$1"; fi'
# No step writes the kernel's files.
_KERNEL_FOLDERS = ("/proc/", "/sys/")


def check_programs(job: Job, hosts: Mapping[str, RemoteHost]) -> None:
    """Refuse a host that lacks a program of one of its steps.

    A program that is in no step is called by other programs, and needed on all hosts.

    Raises TestbedError if programs are missing.
    """
    words = {name: {w for s in job.commands() if s.host == name for w in s.argv} for name in hosts}
    called = set().union(*words.values())
    for name, host in hosts.items():
        needed = [p for p in job.programs if p in words[name] or p not in called]
        missing = run_checked(host, ["sh", "-c", _MISSING_PROGRAMS, "sh", *needed]).splitlines()
        if missing:
            raise TestbedError(
                f"missing program {', '.join(missing)}",
                f"job {job.name}, host {name}",
                "Install it there, under this name",
            )


def write_inputs(job: Job, hosts: Mapping[str, RemoteHost], rollback: Rollback) -> None:
    """Write the job's inputs to all hosts; rollback removes them and the steps' files.

    Raises TestbedError if a path that the job writes or collects already exists, or cannot be
    written.
    """
    folders = {str(p) for path in job.inputs for p in PurePosixPath(path).parents}
    ordered = sorted(folders, key=len)
    # Check all hosts before writing to any: they may share a file system.
    missing = {}
    for name, host in hosts.items():
        collected = [path for s in job.commands() if s.host == name for path in s.files]
        written = [path for path in collected if not path.startswith(_KERNEL_FOLDERS)]
        for path in _existing(host, [*job.inputs, *written]):
            raise TestbedError(
                f"{path}, which the job writes, already exists",
                f"job {job.name}, host {name}",
                "Remove it, or set another path in the job",
            )
        present = _existing(host, ordered)
        missing[name] = [path for path in ordered if path not in present]
        rollback.defer(run_checked, host, ["rm", "-f", "--", *written])
    for name, host in hosts.items():
        _write(job.inputs, host, missing[name], rollback)


def _existing(host: RemoteHost, paths: list[str]) -> list[str]:
    numbers = run_checked(host, ["sh", "-c", _EXISTING, "sh", *paths]).split()
    return [paths[int(number)] for number in numbers]


def _write(
    inputs: Mapping[str, bytes], host: RemoteHost, folders: list[str], rollback: Rollback
) -> None:
    rollback.defer(run_checked, host, ["sh", "-c", _REMOVE_FOLDERS, "sh", *reversed(folders)])
    for folder in folders:
        run_checked(host, ["mkdir", "-p", "--", folder])
    for path, content in inputs.items():
        rollback.defer(run_checked, host, ["rm", "-f", "--", path])
        try:
            host.write(path, content, deadline_s=COMMAND_SECONDS)
        except CommandError as error:
            raise TestbedError(f"cannot write {path}: {error.what}", f"host {host.name}") from error


def fetch(job: Job, hosts: Mapping[str, RemoteHost]) -> dict[str, bytes]:
    """Return the collected files by path, without those that no step wrote.

    Raises TestbedError if a file cannot be read, or is larger than the job's ``memory_mb``.
    """
    found = {}
    for step in job.commands():
        for path in step.files:
            argv = ["sh", "-c", _FETCH, "sh", path]
            output = run_checked(hosts[step.host], argv, job.memory_mb << 20)
            exists, _, content = output.partition("\n")
            if exists:
                found[path] = base64.b64decode(content)
    return found
