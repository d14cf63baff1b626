"""A job as the shell script that does it."""

import ipaddress
import random
import shlex
from collections.abc import Iterator
from pathlib import Path

from tsnrepro.errors import TestbedError
from tsnrepro.testbed.jobs.job import Job, LinkEnd, Pause, Step, Stop, Vlan
from tsnrepro.tools.kernel import without_offloads

LIBRARY = Path(__file__).resolve().parent / "steps.sh"
# Long enough for the kernel to have started the queues of links that came up last.
_SETTLE_SECONDS = 0.1
# The seed decides when in these seconds the first step starts: that is how two seeds meet two
# phases of a gate schedule, and how a repetition in virtual time is more than a copy.
_PHASE_SECONDS = 0.1


def text(job: Job) -> str:
    """Return the script: topology, queues, links up, steps, files.

    Raises
    ------
    TestbedError
        An address of the topology is none.
    """
    commands = [
        *_must(_links(job)),
        *(_step(step) for step in job.configure),
        *_must(_up(job)),
        *(f"await_link {port.host} {port.device}" for port in job.ports()),
        f"sleep {_SETTLE_SECONDS + _PHASE_SECONDS * random.Random(job.seed).random():.9f}",
        *(_step(step) for step in job.steps),
        "wait",
        *(f"collect {n} {shlex.quote(path)}" for n, path in enumerate(collected(job))),
    ]
    return LIBRARY.read_text(encoding="utf-8") + "\n" + "\n".join(commands) + "\n"


def collected(job: Job) -> list[str]:
    """Return the paths that the job collects, in order."""
    return [path for step in job.commands() for path in step.files]


def hardware_address(job: Job, port: LinkEnd) -> str:
    """Return a port's MAC address: local, unicast, by its place in the topology."""
    return f"02:00:00:00:00:{job.ports().index(port) + 1:02x}"


def _must(commands: Iterator[list[str]]) -> list[str]:
    return [f"must {shlex.join(command)}" for command in commands]


def _step(step: Step | Stop | Pause) -> str:
    if isinstance(step, Pause):
        return f"sleep {step.seconds:g}"
    if isinstance(step, Stop):
        return f"stop {step.step}"
    word = "start" if step.background else "run"
    return f"{word} {step.name} {step.host} {step.deadline_s:g} {shlex.join(step.argv)}"


def _links(job: Job) -> Iterator[list[str]]:
    """Yield what makes hosts and devices, all of them down."""
    for host in job.hosts():
        yield ["ip", "netns", "add", host]
        # No neighbour discovery of the kernel's own among the traffic; a guest has no IPv6 at all.
        off = [f"net.ipv6.conf.{which}.disable_ipv6=1" for which in ("all", "default")]
        yield [*_inside(host), "sysctl", "--ignore", "-qw", *off]
    for link in job.links:
        one, other = _end(job, link.one), _end(job, link.other)
        yield ["ip", "link", "add", *one, "type", "veth", "peer", *other]
    for port in job.ports():
        yield [*_inside(port.host), *without_offloads(port.device)]
        for vlan in port.vlans:
            yield _vlan(port, vlan)
    for bridge in job.bridges:
        ip = ["ip", "-n", bridge.host, "link"]
        # A switch of static entries: no group messages of its own among the traffic.
        yield [*ip, "add", bridge.device, "type", "bridge", "mcast_snooping", "0"]
        for port in bridge.ports:
            yield [*ip, "set", port, "master", bridge.device]


def _end(job: Job, port: LinkEnd) -> list[str]:
    queues = ["numtxqueues", str(port.queues), "numrxqueues", str(port.queues)]
    facts = ["address", hardware_address(job, port), "mtu", str(port.mtu), *queues]
    return ["name", port.device, "netns", port.host, *facts]


def _vlan(port: LinkEnd, vlan: Vlan) -> list[str]:
    name = _vlan_device(port, vlan)
    add = ["ip", "-n", port.host, "link", "add", "link", port.device, "name", name]
    egress = [f"{priority}:{pcp}" for priority, pcp in vlan.egress_pcp]
    ingress = [f"{pcp}:{priority}" for pcp, priority in vlan.ingress_priority]
    maps = [*(["egress-qos-map", *egress] if egress else [])]
    maps += ["ingress-qos-map", *ingress] if ingress else []
    return [*add, "type", "vlan", "id", str(vlan.vlan_id), *maps]


def _vlan_device(port: LinkEnd, vlan: Vlan) -> str:
    return f"{port.device}.{vlan.vlan_id}"


def _inside(host: str) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{host}", "--"]


def _up(job: Job) -> Iterator[list[str]]:
    """Yield what brings all devices up and makes the hosts' addresses known to each other."""
    for host in job.hosts():
        yield ["ip", "-n", host, "link", "set", "lo", "up"]
    for port in job.ports():
        names = [port.device, *(_vlan_device(port, vlan) for vlan in port.vlans)]
        yield from (["ip", "-n", port.host, "link", "set", name, "up"] for name in names)
    for bridge in job.bridges:
        yield ["ip", "-n", bridge.host, "link", "set", bridge.device, "up"]
    addressed = list(_addresses(job))
    for port, device, address in addressed:
        yield ["ip", "-n", port.host, "address", "add", str(address), "dev", device]
    for port, device, address in addressed:
        for other, _, neighbour in addressed:
            if other.host != port.host and neighbour.ip in address.network:
                lladdr = ["lladdr", hardware_address(job, other), "nud", "permanent"]
                entry = [str(neighbour.ip), *lladdr, "dev", device]
                yield ["ip", "-n", port.host, "neighbour", "replace", *entry]


def _addresses(job: Job) -> Iterator[tuple[LinkEnd, str, ipaddress.IPv4Interface]]:
    for port in job.ports():
        places = [(port.device, port.addresses)]
        places += [(_vlan_device(port, vlan), vlan.addresses) for vlan in port.vlans]
        for device, addresses in places:
            for address in addresses:
                try:
                    yield port, device, ipaddress.IPv4Interface(address)
                except ValueError as error:
                    where = f"job {job.name}, {port.host} {device}"
                    raise TestbedError(f"no IPv4 address: {error}", where) from error
