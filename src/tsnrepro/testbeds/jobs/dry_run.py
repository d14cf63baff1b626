"""Dry run of a job: the command lines on its hosts, in order."""

import re
from collections.abc import Callable, Iterator, Sequence

from tsnrepro.testbeds.hosts.host import command_line
from tsnrepro.testbeds.jobs import network
from tsnrepro.testbeds.jobs.job import Job, LinkEnd, Pause, Step, Stop

Resolve = Callable[[Sequence[str]], list[str]]


def lines(
    job: Job,
    resolve: Resolve,
    hardware_address: Callable[[LinkEnd], str],
    background: tuple[list[str], list[str]] = ([], []),
) -> Iterator[str]:
    """Yield a line per command, as :class:`~tsnrepro.testbeds.jobs.sessions.SessionJobs` runs them.

    Commands that change nothing are left out, and so is the rollback.

    ``resolve``: returns a command with the hosts' own paths of programs; ``hardware_address``:
    returns the MAC address of a port; ``background``: lines that start what runs besides the steps,
    and lines that stop it.
    """
    for port in job.ports():
        yield from (command_line(port.host, argv) for argv in network.reset(port))
    for host, argv in network.set_up(job):
        yield command_line(host, argv)
    for host, device in network.created_devices(job):
        yield command_line(host, network.disable_ipv6(device))
    started: dict[str, str] = {}
    yield from _steps(job.configure, resolve, started)
    for host, argv in network.up(job, hardware_address):
        yield command_line(host, argv)
    yield from background[0]
    for steps in (job.meanwhile, job.set_up, job.steps):
        yield from _steps(steps, resolve, started)
    yield from background[1]


def _steps(
    steps: Sequence[Step | Stop | Pause], resolve: Resolve, started: dict[str, str]
) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Pause):
            yield f"# {step.seconds:g} s"
        elif isinstance(step, Stop):
            yield f"{started[step.step]}# kill -TERM ${_variable(step.step)}"
        else:
            started[step.name] = step.host
            typed = command_line(step.host, resolve(step.argv))
            yield f"{typed} & {_variable(step.name)}=$!" if step.background else typed
            if step.ready:
                yield f"# until it prints: {step.ready}"


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name)
