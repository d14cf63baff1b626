"""Jobs and their results, as data.

There are no sessions with a guest in virtual time: while its hosts are idle its clock runs ahead of
real time by minutes, and all time-outs of an SSH session expire. Therefore everything that its
hosts do is specified before it boots, as a job. The ``argv`` of a step is the same as for
:meth:`tsnrepro.testbeds.hosts.host.RemoteHost.run` on the emulated and rack testbeds, and its
result the same :class:`tsnrepro.testbeds.hosts.host.Completed`. A job runs unchanged in a guest
(:mod:`tsnrepro.testbeds.guest.testbed`), on this machine
(:mod:`tsnrepro.testbeds.emulated.local_jobs`) and on remote hosts with cables
(:mod:`tsnrepro.testbeds.jobs.sessions`).
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from tsnrepro.common.errors import TestbedError
from tsnrepro.config.base import DEVICE_NAME_LENGTH
from tsnrepro.config.nic_pair import Chip
from tsnrepro.native.streams.command import Stamps
from tsnrepro.testbeds.hosts.clocks import ClockSync, ClockSyncFailure
from tsnrepro.testbeds.hosts.host import ENDED_BY_TERM, Completed

_VIRTUAL_TIME_NOTE = (
    "Times are virtual: one instruction of the guest is one nanosecond. They are good for gate"
    " order, shaping, priority and loss, and for nothing that asks for absolute latency, jitter,"
    " clock synchronisation or hardware offload."
)

# Names are used for folders, namespaces and devices: no slash, space or leading dash.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_PRIORITIES = range(8)
_IDENTITY = tuple((priority, priority) for priority in _PRIORITIES)


@dataclass(frozen=True)
class Vlan:
    """A VLAN device on a port, named ``<device>.<vlan_id>``.

    A packet's priority does not pass from host to host, its PCP does (IEEE Std 802.1Q-2022, 6.9.3).
    Both maps are pairs: of priority and PCP for sent packets, of PCP and priority for received
    ones; by default each of the eight maps to itself.
    """

    vlan_id: int
    addresses: tuple[str, ...] = ()
    egress_pcp: tuple[tuple[int, int], ...] = _IDENTITY
    ingress_priority: tuple[tuple[int, int], ...] = _IDENTITY


@dataclass(frozen=True)
class LinkEnd:
    """One end of a link: a veth device of a host, or an existing network card.

    ``addresses`` are IPv4 with prefix length (``10.0.0.1/24``). ``queues`` is the number of
    transmit and receive queues of a veth device; taprio and mqprio need one per traffic class. All
    offloads are off. Neighbour entries are static: no ARP is sent.
    """

    host: str
    device: str
    addresses: tuple[str, ...] = ()
    vlans: tuple[Vlan, ...] = ()
    mtu: int = 1500
    queues: int = 8


@dataclass(frozen=True)
class Link:
    """A cable between two ports. veth does not serialize frames: add a tbf for that."""

    one: LinkEnd
    other: LinkEnd


@dataclass(frozen=True)
class Cable:
    """An existing cable between the network cards of a talker and a listener.

    ``talker`` and ``listener`` are its ends, by the names of the hosts' devices. ``chip`` is that
    of the talker's card, ``stamps`` the source of the listener's time stamps. With a ``switch``
    between the two, a ``loader`` is cabled to it too.
    """

    talker: LinkEnd
    listener: LinkEnd
    chip: Chip
    stamps: Stamps
    switch: "CabledSwitch | None" = None
    loader: LinkEnd | None = None


@dataclass(frozen=True)
class CabledSwitch:
    """A switch that forwards between its ports for a whole campaign, configured before the job.

    ``ports`` are its devices by the hosts that they are cabled to: ``talker``, ``loader``,
    ``listener``. It reads a frame's priority from its tag in ``vlan``.
    """

    host: str
    ports: Mapping[str, str]
    vlan: int


@dataclass(frozen=True)
class Bridge:
    """A bridge of ports of a host, that is, a switch. Tagged frames pass unchanged."""

    host: str
    ports: tuple[str, ...]
    device: str = "br0"


@dataclass(frozen=True)
class Step:
    """A command on a host.

    Attributes
    ----------
    name
        Unique in its job; the result's key.
    host
        A host of the topology.
    argv
        The command, as for a host over SSH. The exit status of a missing program is 127, see
        :attr:`Job.programs`.
    deadline_s
        Seconds of the job's clock after which the command is terminated (exit status 124).
    background
        Start it without waiting. A :class:`Stop` terminates it; otherwise the end of the job waits
        for it, until its deadline.
    ready
        Line that a background step prints when it is ready. Later steps start after it, or after
        the end of a step that never printed it; its recorded output may lack the line.
    files
        Absolute paths to collect after the job's last step. The hosts share a file system: a path
        may occur once in a job.
    """

    name: str
    host: str
    argv: tuple[str, ...]
    deadline_s: float
    background: bool = False
    ready: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stop:
    """Terminate a background step and wait for its end."""

    step: str


@dataclass(frozen=True)
class Pause:
    """Let the job's time pass, which costs almost nothing if time is virtual."""

    seconds: float


@dataclass(frozen=True)
class Job:
    """Everything that a guest does between boot and power-off, or machines in its place.

    Raises TestbedError if a name is invalid, not unique or not in the topology.

    Attributes
    ----------
    name
        Name for messages.
    links, bridges
        The topology. Hosts are the network namespaces that its ports name.
    ends
        Further ports of hosts, cabled to a switch that was configured before the job.
    beforehand
        Hosts without a link of the job, configured before it.
    configure
        Commands while all links are down. Queues belong here: adding a child qdisc to a taprio that
        is passing traffic stops it.
    meanwhile
        Steps that start while the links are set up: programs that take time to be ready. In
        namespaces and in a guest the devices are still down then, over SSH they are up.
    set_up
        Commands once the links are up and the hosts' clocks are synchronized, such as the gates of
        a switch, which its own clock drives. The job ends if one fails.
    steps
        Steps once the links are up, in order.
    programs
        Programs of this machine, by name or absolute path, that are copied to the guest with their
        shared libraries. Remote hosts must have them installed.
    inputs
        Further files by absolute path; executable.
    seed
        Seed of the time at which the steps start, and of a guest's random numbers.
    deadline_s
        Seconds of wall time after which the job is killed. It is measured outside the guest, since
        virtual time never ends while a sender blocks.
    memory_mb
        The guest's memory, including files and output. On this machine it bounds only the latter,
        over SSH each of them.
    """

    name: str
    links: tuple[Link, ...]
    steps: tuple[Step | Stop | Pause, ...]
    bridges: tuple[Bridge, ...] = ()
    ends: tuple[LinkEnd, ...] = ()
    beforehand: tuple[str, ...] = ()
    configure: tuple[Step, ...] = ()
    meanwhile: tuple[Step, ...] = ()
    set_up: tuple[Step, ...] = ()
    programs: tuple[str, ...] = ()
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    seed: int = 1
    deadline_s: float = 120.0
    memory_mb: int = 512

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise TestbedError(problem, f"job {self.name}", "Correct the job")

    def ports(self) -> list[LinkEnd]:
        """Return both ports of every link, in order, then the further ends."""
        of_links = [port for link in self.links for port in (link.one, link.other)]
        return [*of_links, *self.ends]

    def hosts(self) -> list[str]:
        """Return the hosts in the order of the links, then those configured beforehand."""
        return list(dict.fromkeys([*(port.host for port in self.ports()), *self.beforehand]))

    def commands(self) -> list[Step]:
        """Return all steps that are commands, in order."""
        steps = (*self.configure, *self.meanwhile, *self.set_up, *self.steps)
        return [step for step in steps if isinstance(step, Step)]

    def describe(self) -> dict:
        """Return the job for a record, with the sizes of its inputs."""
        values = asdict(self)
        values["inputs"] = {path: len(content) for path, content in self.inputs.items()}
        values["steps"] = [{"kind": type(s).__name__.lower(), **asdict(s)} for s in self.steps]
        return values


Acceleration = Literal["kvm", "tcg", "none"]
"""Acceleration of a guest; ``none`` without a guest."""


@dataclass(frozen=True)
class JobResult:
    """Result of a job.

    ``testbed`` is the kind of testbed that it ran on. ``started_s`` and ``seconds`` of each step
    are of a guest's clock, virtual if ``virtual_time`` is set, or of this machine's. A guest's TAI
    clock equals its UTC clock (offset 0); this machine's offset is its administrator's. Without a
    guest, ``acceleration`` is ``none``, ``qemu`` is None, and there are no ``kernel_packages``.
    ``clocks`` is the synchronization of separate hosts before and after the steps; None if all
    hosts share a clock.
    """

    job: str
    steps: Mapping[str, Completed]
    files: Mapping[str, bytes]
    testbed: str
    acceleration: Acceleration
    virtual_time: bool
    kernel: str
    qemu: str | None
    seed: int
    wall_s: float
    ready_s: float
    console: str
    kernel_packages: tuple[str, ...]
    clocks: tuple[ClockSync | ClockSyncFailure, ...] | None = None

    def check(self) -> "JobResult":
        """Return this result, or raise the failure of the first step that failed.

        Steps that a :class:`Stop` terminated (exit status 143, TERM) have not failed.

        Raises CommandError as :meth:`tsnrepro.testbeds.hosts.host.Completed.check`.
        """
        for completed in self.steps.values():
            if completed.exit_status != ENDED_BY_TERM:
                completed.check()
        return self

    def file(self, path: str) -> bytes:
        """Return a collected file.

        Raises TestbedError if no step wrote it, or it was not to be collected.
        """
        if path not in self.files:
            raise TestbedError(
                f"the job has no file {path}",
                f"job {self.job}",
                f"Its files: {', '.join(self.files) or 'none'}",
            )
        return self.files[path]

    @property
    def note(self) -> str:
        """Note for every table and figure of this result, or empty."""
        return _VIRTUAL_TIME_NOTE if self.virtual_time else ""

    def describe(self) -> dict:
        """Return the facts that a record of this job has."""
        return {
            "testbed": self.testbed,
            "acceleration": self.acceleration,
            "virtual_time": self.virtual_time,
            "kernel": self.kernel,
            "kernel_packages": list(self.kernel_packages),
            "qemu": self.qemu,
            "seed": self.seed,
            "wall_s": round(self.wall_s, 3),
            "ready_s": round(self.ready_s, 3),
            "note": self.note,
            **({"clocks": [asdict(each) for each in self.clocks]} if self.clocks else {}),
        }


def _problems(job: Job) -> Iterator[str]:
    yield from _topology_problems(job)
    hosts = job.hosts()
    running: set[str] = set()
    seen: set[str] = set()
    files: set[str] = set()
    for step in (*job.configure, *job.meanwhile, *job.set_up, *job.steps):
        if isinstance(step, Pause):
            if not (step.seconds >= 0 and math.isfinite(step.seconds)):
                yield f"a pause of {step.seconds} s"
        elif isinstance(step, Stop):
            if step.step not in running:
                yield f"it stops '{step.step}', which is no earlier background step"
            running.discard(step.step)
        else:
            yield from _step_problems(step, hosts, seen, files)
            seen.add(step.name)
            files.update(step.files)
            if step.background:
                running.add(step.name)
    yield from (f"input {path} is not an absolute path" for path in job.inputs if path[:1] != "/")
    if not (job.deadline_s > 0 and math.isfinite(job.deadline_s)):
        yield f"a deadline of {job.deadline_s} s"


def _step_problems(step: Step, hosts: list[str], seen: set[str], files: set[str]) -> Iterator[str]:
    if not NAME.fullmatch(step.name):
        yield f"'{step.name}' is not a valid step name"
    if step.name in seen:
        yield f"step name '{step.name}' is not unique"
    if step.host not in hosts:
        yield f"step '{step.name}' is for host '{step.host}', the hosts are {', '.join(hosts)}"
    if not step.argv:
        yield f"step '{step.name}' has no command"
    if not (step.deadline_s > 0 and math.isfinite(step.deadline_s)):
        yield f"step '{step.name}' has a deadline of {step.deadline_s} s"
    if step.ready and not step.background:
        yield f"step '{step.name}' has a ready line and is not a background step"
    for path in step.files:
        if not path.startswith("/"):
            yield f"step '{step.name}' collects '{path}', which is not an absolute path"
        if path in files:
            yield f"two steps collect {path}"


def _topology_problems(job: Job) -> Iterator[str]:
    if not job.ports():
        yield "it has no link"
    if both := {port.host for port in job.ports()} & {*job.beforehand}:
        yield f"{', '.join(sorted(both))} has links of the job and is configured before it"
    devices = [(port.host, port.device) for port in job.ports()]
    devices += [(bridge.host, bridge.device) for bridge in job.bridges]
    for host, device in devices:
        if not NAME.fullmatch(host):
            yield f"'{host}' is not a valid host name"
        if not NAME.fullmatch(device) or len(device) > DEVICE_NAME_LENGTH:
            yield f"'{device}' is not a valid device name"
        if devices.count((host, device)) > 1:
            yield f"device {device} of host {host} is not unique"
    for bridge in job.bridges:
        unlinked = [port for port in bridge.ports if (bridge.host, port) not in devices]
        if unlinked:
            yield f"bridge {bridge.device} of {bridge.host} has ports without a link: {unlinked}"
    for port in job.ports():
        for vlan in port.vlans:
            if not 1 <= vlan.vlan_id <= 4094:
                yield f"VLAN {vlan.vlan_id} on {port.host} {port.device}: it must be 1 to 4094"
