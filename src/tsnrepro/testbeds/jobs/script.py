"""A job as a shell script, for namespaces and guests."""

import shlex
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from tsnrepro.testbeds.jobs import network
from tsnrepro.testbeds.jobs.job import Job, LinkEnd, Pause, Step, Stop

LIBRARY = Path(__file__).resolve().parent / "steps.sh"


def text(job: Job) -> str:
    """Return the script: topology, slow programs, queues, links up, steps, files.

    Raises TestbedError if an address of the topology is invalid.
    """
    loopbacks = ((host, ["ip", "link", "set", "lo", "up"]) for host in job.hosts())
    commands = [
        *_checked(_links(job)),
        *_checked(_inside(network.set_up(job))),
        *(_step(step) for step in job.meanwhile),
        *(_step(step) for step in job.configure),
        *_checked(_inside(loopbacks)),
        *_checked(_inside(network.up(job, partial(hardware_address, job)))),
        *(f"await_link {port.host} {port.device}" for port in job.ports()),
        f"sleep {network.settle_seconds(job):.9f}",
        *(_step(step) for step in (*job.set_up, *job.steps)),
        "wait",
        *(f"collect {n} {shlex.quote(path)}" for n, path in enumerate(collected(job))),
    ]
    return LIBRARY.read_text(encoding="utf-8") + "\n" + "\n".join(commands) + "\n"


def collected(job: Job) -> list[str]:
    """Return the paths to collect, in order."""
    return [path for step in job.commands() for path in step.files]


def hardware_address(job: Job, port: LinkEnd) -> str:
    """Return a port's MAC address: locally administered, numbered by its order in the topology."""
    return f"02:00:00:00:00:{job.ports().index(port) + 1:02x}"


def _checked(commands: Iterable[list[str]]) -> list[str]:
    return [f"run_checked {shlex.join(command)}" for command in commands]


def _step(step: Step | Stop | Pause) -> str:
    if isinstance(step, Pause):
        return f"sleep {step.seconds:g}"
    if isinstance(step, Stop):
        return f"stop {step.step}"
    function = "start" if step.background else "run"
    line = f"{function} {step.name} {step.host} {step.deadline_s:g} {shlex.join(step.argv)}"
    return f"{line}\nawait_line {step.name} {shlex.quote(step.ready)}" if step.ready else line


def _links(job: Job) -> Iterator[list[str]]:
    """Yield the commands that create hosts and links, all of them down."""
    for host in job.hosts():
        yield ["ip", "netns", "add", host]
        # No neighbour discovery among the traffic; a guest has no IPv6 at all.
        yield from _inside([(host, network.disable_ipv6("all", "default"))])
    for link in job.links:
        one, other = _end(job, link.one), _end(job, link.other)
        yield ["ip", "link", "add", *one, "type", "veth", "peer", *other]


def _end(job: Job, port: LinkEnd) -> list[str]:
    queues = ["numtxqueues", str(port.queues), "numrxqueues", str(port.queues)]
    facts = ["address", hardware_address(job, port), "mtu", str(port.mtu), *queues]
    return ["name", port.device, "netns", port.host, *facts]


def _inside(commands: Iterable[network.Command]) -> Iterator[list[str]]:
    """Yield commands of hosts as run from outside their namespaces."""
    for host, (program, *words) in commands:
        if program == "ip":
            yield ["ip", "-n", host, *words]
        else:
            yield ["nsenter", f"--net=/run/netns/{host}", "--", program, *words]
