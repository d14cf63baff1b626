"""Settings files and command lines of the bridge's programs; tsn-bridge(8) has the format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tsnrepro.config.gates import GateControlList

CLASSES = range(8)
PTP_QUEUE = 8

Selection = Literal["standard", "by-kind"]


@dataclass(frozen=True)
class Shaper:
    """A class's credit: slopes in Mb/s, limits in bits (None: the standard's; no limit)."""

    idle_mbps: float
    send_mbps: float | None = None
    hi_bits: float | None = None
    lo_bits: float | None = None

    def values(self, rate_mbps: float) -> list[str]:
        """Return the values of a line ``shape`` after its class."""
        send = self.idle_mbps - rate_mbps if self.send_mbps is None else self.send_mbps
        slopes = [f"{self.idle_mbps:.10g}", f"{send:.10g}"]
        if self.hi_bits is None and self.lo_bits is None:
            return slopes
        # More than any port's credit, and within 64 bits.
        most = 9e9
        hi, lo = (most if self.hi_bits is None else self.hi_bits), self.lo_bits
        return [*slopes, f"{hi:.17g}", f"{-most if lo is None else lo:.17g}"]


@dataclass(frozen=True)
class PortSettings:
    """How a port of the bridge sends.

    ``guard`` is how long a gate must stay open from a frame's start: until the last bit of this
    frame, of the longest frame, or not at all; a number is a time in nanoseconds.
    """

    rate_mbps: float = 1000.0
    queue_bytes: int = 262144
    longest_bytes: int = 1522
    ahead_us: float = 0.0
    selection: Selection = "standard"
    scheduled: tuple[int, ...] = ()
    gates: GateControlList | None = None
    guard: Literal["frame", "longest", "none"] | int = "frame"
    shapers: Mapping[int, Shaper] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the lines of the file; they inherit nothing from lines before them."""
        lines = [
            f"rate_mbps {self.rate_mbps:.10g}",
            f"queue_bytes {self.queue_bytes}",
            f"longest_bytes {self.longest_bytes}",
            f"ahead_us {self.ahead_us:.10g}",
            f"selection {self.selection}",
            " ".join(["scheduled", *map(str, self.scheduled)]),
            f"guard {self.guard}",
        ]
        base_ns, cycle_ns = (self.gates.base_time_ns, self.gates.cycle) if self.gates else (0, 1)
        lines.append(f"gates {base_ns} {cycle_ns}")
        for entry in self.gates.entries if self.gates else ():
            lines.append(f"gate {entry.mask:#04x} {entry.interval_ns}")
        for number in CLASSES:
            shaper = self.shapers.get(number)
            values = shaper.values(self.rate_mbps) if shaper else ["0"]
            lines.append(" ".join(["shape", str(number), *values]))
        return lines


@dataclass(frozen=True)
class BridgeSettings:
    """The bridge as a whole: ``ports`` names those that differ from ``every_port``."""

    every_port: PortSettings = PortSettings()
    ports: Mapping[str, PortSettings] = field(default_factory=dict)
    classes: Sequence[tuple[int | None, int, int]] = ()
    """VLAN ID (None: any), PCP and the class of such frames; without a rule it is their PCP."""
    addresses: Sequence[tuple[str, int, str]] = ()
    """Static ones: MAC, VLAN ID and port."""
    ageing_s: int = 300
    burst: int = 32
    sleep_us: int = 50
    threads: int = 1
    receivers: Literal["one", "each"] = "one"
    realtime: bool = False

    def text(self) -> str:
        """Return the text of the file."""
        lines = [
            f"ageing_s {self.ageing_s}",
            f"burst {self.burst}",
            f"sleep_us {self.sleep_us}",
            f"threads {self.threads}",
            f"receivers {self.receivers}",
            f"realtime {'yes' if self.realtime else 'no'}",
            *(f"class {'*' if vlan is None else vlan} {pcp} {n}" for vlan, pcp, n in self.classes),
            *(f"address {mac} {vlan} {port}" for mac, vlan, port in self.addresses),
            *self.every_port.lines(),
        ]
        for name, port in self.ports.items():
            lines += [f"port {name}", *port.lines()]
        return "\n".join(lines) + "\n"


def command(program: str, settings: str, ports: Sequence[str]) -> list[str]:
    """Return the command that runs the bridge over devices of a host."""
    return [program, "--settings", settings, *(arg for port in ports for arg in ("--port", port))]


def query(program: str, *request: str) -> list[str]:
    """Return the command that queries the bridge of the same network namespace.

    ``request`` is ``counters``, ``addresses``, or ``settings`` and the path of a settings file.
    """
    return [program, "--query", *request]
