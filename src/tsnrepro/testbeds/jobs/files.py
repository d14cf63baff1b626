"""Files of a job on hosts that have a file system of their own: put there, fetched, removed."""

import base64
from collections.abc import Mapping
from pathlib import PurePosixPath

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.testbeds.host import RemoteHost
from tsnrepro.testbeds.jobs.job import Job
from tsnrepro.testbeds.jobs.rollback import COMMAND_SECONDS, Undo, run_checked

_MISSING_PROGRAMS = 'for name; do command -v "$name" >/dev/null || echo "$name"; done'
_EXISTING = 'n=0; for path; do if [ -e "$path" ]; then echo $n; fi; n=$((n + 1)); done'
# A step may have put something of its own into a folder: that stays.
_REMOVE_FOLDERS = """\
for path; do
    [ ! -d "$path" ] || rmdir --ignore-fail-on-non-empty -- "$path" || exit
done"""
# Bytes of any kind, where output is text.
_FETCH = 'if [ -f "$1" ]; then echo there; exec base64 "$1"; fi'
# What the kernel shows there is no file that a step writes.
_KERNELS = ("/proc/", "/sys/")


def check_programs(job: Job, hosts: Mapping[str, RemoteHost]) -> None:
    """Refuse a host that lacks a program which a step names there.

    A program that no step names is one that other programs call: every host needs it.

    Raises
    ------
    TestbedError
        It names the programs and the host.
    """
    words = {name: {w for s in job.commands() if s.host == name for w in s.argv} for name in hosts}
    called = set().union(*words.values())
    for name, host in hosts.items():
        wanted = [p for p in job.programs if p in words[name] or p not in called]
        missing = run_checked(host, ["sh", "-c", _MISSING_PROGRAMS, "sh", *wanted]).splitlines()
        if missing:
            raise TestbedError(
                f"there is no program {', '.join(missing)}",
                f"job {job.name}, host {name}",
                "Install it there, under this name",
            )


def place(job: Job, hosts: Mapping[str, RemoteHost], undo: Undo) -> None:
    """Give every host the job's inputs; at the end they are removed, and what steps wrote.

    Raises
    ------
    TestbedError
        A path that the job writes or collects is there already, or a host cannot write it.
    """
    folders = {str(p) for path in job.inputs for p in PurePosixPath(path).parents}
    ordered = sorted(folders, key=len)
    # All hosts are looked at before any is written to: they may share a file system.
    missing = {}
    for name, host in hosts.items():
        collected = [path for s in job.commands() if s.host == name for path in s.files]
        written = [path for path in collected if not path.startswith(_KERNELS)]
        for path in _existing(host, [*job.inputs, *written]):
            raise TestbedError(
                f"there is {path} already, which the job writes",
                f"job {job.name}, host {name}",
                "Remove it, or give the job another path",
            )
        there = _existing(host, ordered)
        missing[name] = [path for path in ordered if path not in there]
        undo.defer(run_checked, host, ["rm", "-f", "--", *written])
    for name, host in hosts.items():
        _write(job.inputs, host, missing[name], undo)


def _existing(host: RemoteHost, paths: list[str]) -> list[str]:
    numbers = run_checked(host, ["sh", "-c", _EXISTING, "sh", *paths]).split()
    return [paths[int(number)] for number in numbers]


def _write(inputs: Mapping[str, bytes], host: RemoteHost, folders: list[str], undo: Undo) -> None:
    undo.defer(run_checked, host, ["sh", "-c", _REMOVE_FOLDERS, "sh", *reversed(folders)])
    for folder in folders:
        run_checked(host, ["mkdir", "-p", "--", folder])
    for path, content in inputs.items():
        undo.defer(run_checked, host, ["rm", "-f", "--", path])
        try:
            host.write(path, content, deadline_s=COMMAND_SECONDS)
        except CommandError as error:
            raise TestbedError(f"cannot write {path}: {error.what}", f"host {host.name}") from error


def fetch(job: Job, hosts: Mapping[str, RemoteHost]) -> dict[str, bytes]:
    """Return the files that the job collects, by their paths; one that nobody wrote is left out.

    Raises
    ------
    TestbedError
        A file cannot be read, or is larger than the job's ``memory_mb``.
    """
    found = {}
    for step in job.commands():
        for path in step.files:
            fetch_it = ["sh", "-c", _FETCH, "sh", path]
            said = run_checked(hosts[step.host], fetch_it, job.memory_mb << 20)
            there, _, content = said.partition("\n")
            if there:
                found[path] = base64.b64decode(content)
    return found
