"""A job as the lines that a person would type on its hosts, in order; nothing runs."""

import re
from collections.abc import Callable, Iterator, Sequence

from tsnrepro.testbeds.jobs import network
from tsnrepro.testbeds.jobs.job import Job, LinkEnd, Pause, Step, Stop
from tsnrepro.testbeds.rack.shell import as_line

Words = Callable[[Sequence[str]], list[str]]


def lines(
    job: Job,
    words: Words,
    hardware_address: Callable[[LinkEnd], str],
    beside: tuple[list[str], list[str]] = ([], []),
) -> Iterator[str]:
    """Yield a line a command, as :class:`~tsnrepro.testbeds.jobs.sessions.SessionJobs` runs them.

    What only looks at a host, and what a job gives back at its end, is left out.

    Parameters
    ----------
    job
        To be told.
    words
        Gives a command in the hosts' own names of programs.
    hardware_address
        Gives the MAC address of a port.
    beside
        Lines of what runs beside the steps: what starts it, and what ends it.
    """
    for port in job.ports():
        yield from (as_line(port.host, argv) for argv in network.taken(port))
    for host, argv in network.set_up(job):
        yield as_line(host, argv)
    for host, device in network.made(job):
        yield as_line(host, network.without_ipv6(device))
    started: dict[str, str] = {}
    yield from _steps(job.configure, words, started)
    for host, argv in network.up(job, hardware_address):
        yield as_line(host, argv)
    yield from beside[0]
    for steps in (job.meanwhile, job.set_up, job.steps):
        yield from _steps(steps, words, started)
    yield from beside[1]


def _steps(
    steps: Sequence[Step | Stop | Pause], words: Words, started: dict[str, str]
) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Pause):
            yield f"# {step.seconds:g} s"
        elif isinstance(step, Stop):
            yield f"{started[step.step]}# kill -TERM ${_variable(step.step)}"
        else:
            started[step.name] = step.host
            typed = as_line(step.host, words(step.argv))
            yield f"{typed} & {_variable(step.name)}=$!" if step.background else typed
            if step.ready:
                yield f"# until it prints: {step.ready}"


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name)
