"""What some hosts are asked to do, as data, and what came back.

A guest in virtual time cannot be talked to: while its hosts are idle its clock runs ahead of ours
by minutes, so that every time-out of an SSH session fires, on both sides. Therefore everything
that its hosts shall do goes in before it boots, as a job. Each step's ``argv`` is the one that
:meth:`tsnrepro.testbeds.host.Host.run` would take on the emulated and the hardware testbeds, and
each comes back as the same :class:`tsnrepro.testbeds.host.Completed`. The same job runs in a guest
(:mod:`tsnrepro.testbeds.guest.testbed`), on this machine (:mod:`tsnrepro.testbeds.jobs.local`) and
on hosts with cables of their own (:mod:`tsnrepro.testbeds.jobs.sessions`).
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
from tsnrepro.testbeds.clocks import ClockSync, ClockSyncFailure
from tsnrepro.testbeds.host import ENDED_BY_TERM, Completed

_VIRTUAL_TIME_NOTE = (
    "Times are virtual: one instruction of the guest is one nanosecond. They are good for gate"
    " order, shaping, priority and loss, and for nothing that asks for absolute latency, jitter,"
    " clock synchronisation or hardware offload."
)

# A name becomes a folder, a namespace or a device: no slash, no space, no leading dash.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_PRIORITIES = range(8)
_IDENTITY = tuple((priority, priority) for priority in _PRIORITIES)


@dataclass(frozen=True)
class Vlan:
    """A VLAN device on a port, named ``<device>.<vlan_id>``.

    A packet's priority does not cross from one host to another, its PCP does
    (IEEE 802.1Q-2022 clause 6.9.3). Both maps are pairs: priority to PCP for what is sent, PCP
    to priority for what is received; by default each of the eight maps to itself.
    """

    vlan_id: int
    addresses: tuple[str, ...] = ()
    egress_pcp: tuple[tuple[int, int], ...] = _IDENTITY
    ingress_priority: tuple[tuple[int, int], ...] = _IDENTITY


@dataclass(frozen=True)
class LinkEnd:
    """One end of a link: a veth device of a host, or a network card that is there.

    ``addresses`` are IPv4 with prefix length (``10.0.0.1/24``). ``queues`` is the number of
    transmit (and receive) queues, which taprio and mqprio need one of for each traffic class;
    a card has those that it has. All offloads are off. Hosts know each other's addresses
    beforehand: no ARP is sent.
    """

    host: str
    device: str
    addresses: tuple[str, ...] = ()
    vlans: tuple[Vlan, ...] = ()
    mtu: int = 1500
    queues: int = 8


@dataclass(frozen=True)
class Link:
    """A cable between two ports. veth claims 10 Gb/s and serializes nothing: add a tbf for that."""

    one: LinkEnd
    other: LinkEnd


@dataclass(frozen=True)
class Cable:
    """A cable that is there, between the network cards of a talker and a listener.

    ``talker`` and ``listener`` are their ends, by the names of the hosts' devices. ``chip`` says
    what the queues of the talker's card can do, ``stamps`` what stamps the listener's arrivals.
    Where there is a ``switch``, it stands between, and a ``loader`` has a cable to it too.
    """

    talker: LinkEnd
    listener: LinkEnd
    chip: Chip
    stamps: Stamps
    switch: "CabledSwitch | None" = None
    loader: LinkEnd | None = None


@dataclass(frozen=True)
class CabledSwitch:
    """A switch that forwards between its ports for a whole campaign, set up beforehand.

    ``ports`` are its devices by whom their cables lead to: ``talker``, ``loader``, ``listener``.
    It knows a frame's priority by its tag in ``vlan``.
    """

    host: str
    ports: Mapping[str, str]
    vlan: int


@dataclass(frozen=True)
class Bridge:
    """A bridge over ports of one host, that is, a switch. Tagged frames pass it as they are."""

    host: str
    ports: tuple[str, ...]
    device: str = "br0"


@dataclass(frozen=True)
class Step:
    """One command on one host.

    Attributes
    ----------
    name
        Unique in its job; the result's key.
    host
        A host of the topology.
    argv
        The command, as an SSH host would get it. A program that is not there gives exit
        status 127: see :attr:`Job.programs`.
    deadline_s
        Seconds of the job's clock after which the command is ended (exit status 124).
    background
        Start it and go on. A :class:`Stop` ends it with TERM; otherwise the job's end waits for
        it, until its deadline.
    ready
        A line that a background step prints once it does what it is for. Later steps begin after
        it, or after the end of a step that never printed it; its output may lack it.
    files
        Absolute paths to collect when the job's last step has ended. The hosts share one file
        system: a path may occur once in a job.
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
    """End a background step with TERM and wait for its end."""

    step: str


@dataclass(frozen=True)
class Pause:
    """Let the job's time pass; nearly free where time is virtual."""

    seconds: float


@dataclass(frozen=True)
class Job:
    """Everything one guest does between boot and power-off, or machines in its place.

    Attributes
    ----------
    name
        For messages.
    links, bridges
        The topology. Hosts are the network namespaces that ports name.
    ends
        Further ports of hosts, whose cables lead to a switch that was set up before the job.
    beforehand
        Hosts without a link of the job's: what leads to them was set up before it.
    configure
        Commands while every link is still down: a child qdisc added under a taprio that is
        passing traffic stops it, so queues belong here.
    meanwhile
        What starts while the links are set up, and settle: a program that takes its time to be
        ready. On namespaces and in a guest its devices are still down then, over SSH they are up.
    set_up
        Commands once the links are up and the hosts' clocks agree: the gates of a switch belong
        here, which go by its own clock. The job ends where one fails.
    steps
        What follows once the links are up, in order.
    programs
        Programs of this machine, by name or absolute path, that the guest gets at the same
        path, with the libraries they load. A host reached over SSH has to have them.
    inputs
        Further files by absolute path; executable.
    seed
        Of the moment at which the steps begin, and of a guest's random numbers.
    deadline_s
        Seconds of wall time after which all of it is killed. A sender that blocks lets virtual
        time run for ever, so this one counts outside.
    memory_mb
        The guest's memory; files and output lie in it too. On this machine it bounds only those,
        over SSH each of them.

    Raises
    ------
    TestbedError
        A name that cannot be one, occurs twice or is not in the topology.
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
        """Return both ports of every link, in order, and then the further ends."""
        of_links = [port for link in self.links for port in (link.one, link.other)]
        return [*of_links, *self.ends]

    def hosts(self) -> list[str]:
        """Return the hosts in the order in which the links name them, then those beforehand."""
        return list(dict.fromkeys([*(port.host for port in self.ports()), *self.beforehand]))

    def commands(self) -> list[Step]:
        """Return every step that is a command, in order."""
        steps = (*self.configure, *self.meanwhile, *self.set_up, *self.steps)
        return [step for step in steps if isinstance(step, Step)]

    def describe(self) -> dict:
        """Return the job as data for a record; inputs by their size."""
        values = asdict(self)
        values["inputs"] = {path: len(content) for path, content in self.inputs.items()}
        values["steps"] = [{"kind": type(s).__name__.lower(), **asdict(s)} for s in self.steps]
        return values


# What a guest's processor is, or ``none``: the job ran in no guest.
Acceleration = Literal["kvm", "tcg", "none"]


@dataclass(frozen=True)
class JobResult:
    """What a job brought back.

    ``testbed`` is the kind of testbed that it ran on.

    ``started_s`` and ``seconds`` of each step are a guest's clock, virtual where
    ``virtual_time`` is set, or this machine's. A guest's TAI clock equals its UTC clock (offset 0);
    this machine's is as its administrator set it. Where no guest ran, ``acceleration`` is ``none``,
    ``qemu`` is None, and there are no ``kernel_packages``. ``clocks`` says how well the clocks of
    hosts apart agreed, before the steps and after them, or why they no longer did; None where all
    hosts share one.
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
        """Return this result, or raise the first step's failure.

        Steps that a :class:`Stop` ended (exit status 143, TERM) do not count as failed.

        Raises
        ------
        CommandError
            See :meth:`tsnrepro.testbeds.host.Completed.check`.
        """
        for done in self.steps.values():
            if done.exit_status != ENDED_BY_TERM:
                done.check()
        return self

    def file(self, path: str) -> bytes:
        """Return a collected file.

        Raises
        ------
        TestbedError
            No step wrote it or asked for it.
        """
        if path not in self.files:
            raise TestbedError(
                f"the job brought back no {path}",
                f"job {self.job}",
                f"It brought: {', '.join(self.files) or 'no file'}",
            )
        return self.files[path]

    @property
    def note(self) -> str:
        """The sentence that every table and figure from this result carries, or nothing."""
        return _VIRTUAL_TIME_NOTE if self.virtual_time else ""

    def describe(self) -> dict:
        """Return the facts that a record of this job carries."""
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
                yield f"it stops '{step.step}', which no earlier background step is called"
            running.discard(step.step)
        else:
            yield from _step_problems(step, hosts, seen, files)
            seen.add(step.name)
            files.update(step.files)
            if step.background:
                running.add(step.name)
    yield from (f"input {path} is no absolute path" for path in job.inputs if path[:1] != "/")
    if not (job.deadline_s > 0 and math.isfinite(job.deadline_s)):
        yield f"a deadline of {job.deadline_s} s"


def _step_problems(step: Step, hosts: list[str], seen: set[str], files: set[str]) -> Iterator[str]:
    if not NAME.fullmatch(step.name):
        yield f"'{step.name}' cannot be a step's name"
    if step.name in seen:
        yield f"two steps are called '{step.name}'"
    if step.host not in hosts:
        yield f"step '{step.name}' is for host '{step.host}'; there are {', '.join(hosts)}"
    if not step.argv:
        yield f"step '{step.name}' has no command"
    if not (step.deadline_s > 0 and math.isfinite(step.deadline_s)):
        yield f"step '{step.name}' has a deadline of {step.deadline_s} s"
    if step.ready and not step.background:
        yield f"step '{step.name}' is waited for to its end, and not until it is ready"
    for path in step.files:
        if not path.startswith("/"):
            yield f"step '{step.name}' collects '{path}', which is no absolute path"
        if path in files:
            yield f"two steps collect {path}"


def _topology_problems(job: Job) -> Iterator[str]:
    if not job.ports():
        yield "it has no link"
    if both := {port.host for port in job.ports()} & {*job.beforehand}:
        yield f"{', '.join(sorted(both))} has links of the job's and was set up before it"
    devices = [(port.host, port.device) for port in job.ports()]
    devices += [(bridge.host, bridge.device) for bridge in job.bridges]
    for host, device in devices:
        if not NAME.fullmatch(host):
            yield f"'{host}' cannot be a host's name"
        if not NAME.fullmatch(device) or len(device) > DEVICE_NAME_LENGTH:
            yield f"'{device}' cannot be a device's name"
        if devices.count((host, device)) > 1:
            yield f"host {host} has two devices {device}"
    for bridge in job.bridges:
        lacks = [port for port in bridge.ports if (bridge.host, port) not in devices]
        if lacks:
            yield f"bridge {bridge.device} of {bridge.host} names ports without a link: {lacks}"
    for port in job.ports():
        for vlan in port.vlans:
            if not 1 <= vlan.vlan_id <= 4094:
                yield f"VLAN {vlan.vlan_id} on {port.host} {port.device}: it must be 1 to 4094"
