"""A Linux PC as switch by its kernel alone: frames are forwarded, numbered and recovered by tc.

Every frame from the host port goes out over the member ports: as FRER numbered and tagged by the
action ``frer``, as control untagged over the first. What comes from a member port goes through
recovery to the host port. Control needs only what every kernel has. The action ``frer`` is that of
the patch series of June 2026 for Linux (net-next, "tc: introduce FRER action"), whose words these
are; a tc that does not know it says so, and nothing else is lost.

A rule chooses the stream that is measured by protocol and port, so that it has sequence numbers and
a recovery function of its own; what remains has others. Our programs count at every port.
"""

import json
import re
from dataclasses import dataclass

from tsnrepro.common.errors import TestbedError
from tsnrepro.config import Configuration, FrerSettings
from tsnrepro.config.frer import RECOVERY_COUNTERS
from tsnrepro.config.rack import KernelSwitch
from tsnrepro.testbeds.rack.linux_switch import Computer
from tsnrepro.testbeds.rack.shell import Shell
from tsnrepro.testbeds.rack.switch_counters import merge_kernel_counters
from tsnrepro.testbeds.rack.switch_counters import station as counted
from tsnrepro.tools import frerctl
from tsnrepro.tools.frerctl import StreamFilter

# The counting programs come first (frerctl's priority is 1).
_STREAM_RULE, _REST_RULE = 10, 20
_R_TAG = "0xf1c1"
_R_TAG_BYTES = 6
_PROTOCOLS = {"udp": 17, "tcp": 6}
# Where they stand behind an IPv4 header's beginning: protocol, place of a fragment, and the
# destination port behind a header without options.
_PROTOCOL, _FRAGMENT, _PORT = 9, 6, 22
_LONGEST_HISTORY = 32
"""Of the kernel's recovery function, whose history is a word."""

_VALUE = re.compile(r"\b([a-z][a-z_-]*)[=:]?\s*(\d{1,20})\b")


@dataclass(frozen=True)
class _Traffic:
    """The stream or the rest, with a sequence generator and a recovery function of its own."""

    rule: int
    generator: int
    recovery: int


_STREAM = _Traffic(_STREAM_RULE, 7110, 7111)
_REST = _Traffic(_REST_RULE, 7120, 7121)


class KernelDriver(Computer):
    """See :class:`tsnrepro.testbeds.rack.switch.SwitchDriver`."""

    def __init__(self, shell: Shell, settings: KernelSwitch, program: str) -> None:
        super().__init__(shell, settings, program)
        self._configured: tuple[Configuration, StreamFilter] | None = None
        # Priorities of the forwarding rules that are in place, by device.
        self._rules: list[tuple[str, int]] = []

    @property
    def _replicates(self) -> bool:
        return self._configured is not None and self._configured[0] == "frer"

    def prepare(self) -> None:
        """Set the ports up and count at each."""
        self._prepare_ports()
        for device in self.devices.values():
            self._shell.change([self._program, "station", device])

    # --- a configuration ----------------------------------------------------------------------

    def configure(
        self, configuration: Configuration, frer: FrerSettings, stream: StreamFilter
    ) -> None:
        """Set the rules to FRER or control, and the stream that counts."""
        if configuration == "frer":
            _refuse(frer, self._shell.name)
        self._shell.change_all(
            [
                frerctl.configure(self._program, device, configuration, frer, stream)
                for device in self.devices.values()
            ]
        )
        rules, self._rules = self._rules, []
        self._shell.change_all([_without(device, rule) for device, rule in rules])
        self._configured = configuration, stream
        if configuration == "control":
            self._forward_alone()
        else:
            self._replicate_and_recover(frer, stream)

    def _forward_alone(self) -> None:
        self._add(self._host_port, _REST_RULE, _EVERY_FRAME, _redirected(self._members[0]))
        for device in self._members:
            self._add(device, _REST_RULE, _EVERY_FRAME, _redirected(self._host_port))

    def _replicate_and_recover(self, frer: FrerSettings, stream: StreamFilter) -> None:
        first, *others = self._members
        # A redirection ends a chain of actions, so copies are made before it.
        copies = [word for device in others for word in _mirrored(device)]
        for traffic in (_STREAM, _REST):
            numbered = ["action", "frer", "push", "index", str(traffic.generator)]
            chosen = _EVERY_FRAME if traffic is _REST else _of_stream(stream, "ip", 0)
            self._add(
                self._host_port, traffic.rule, chosen, [*numbered, *copies, *_redirected(first)]
            )
            chosen = _EVERY_FRAME if traffic is _REST else _of_stream(stream, _R_TAG, _R_TAG_BYTES)
            for number, device in enumerate(self._members):
                # The first makes the recovery function, which the others share by its index.
                words = _recovery(frer) if number == 0 else []
                recovered = ["action", "frer", "recover", *words, "index", str(traffic.recovery)]
                self._add(device, traffic.rule, chosen, [*recovered, *_redirected(self._host_port)])

    def _add(self, device: str, rule: int, chosen: list[str], actions: list[str]) -> None:
        where = ["tc", "filter", "add", "dev", device, "ingress", "pref", str(rule)]
        argv = [*where, *chosen, *actions]
        try:
            self._shell.change(argv)
        except TestbedError as error:
            if "frer" not in actions:
                raise
            raise TestbedError(
                f"tc did not take the action frer: {error.what}",
                error.where,
                "The kernel and its tc need it; a switch of driver ebpf needs neither",
            ) from error
        self._rules.append((device, rule))

    def start_afresh(self, frer: FrerSettings) -> None:
        """Let the recovery functions take any number next, by setting them up once more."""
        if not self._replicates:
            return
        replaced = ["tc", "actions", "replace", "action", "frer", "recover", *_recovery(frer)]
        indices = [str(traffic.recovery) for traffic in (_STREAM, _REST)]
        self._shell.change_all([[*replaced, "index", index] for index in indices])

    # --- counters -----------------------------------------------------------------------------

    def counters(self) -> str:
        """Return what is counted at every port and in recovery, in frerctl's shape."""
        on = self._replicates
        devices = list(self.devices.values())
        asked = [[self._program, "counters", device] for device in devices]
        if on:
            asked.append(_shown(_STREAM.recovery))
        ended = self._shell.ask_all(asked)
        for argv, (status, printed) in zip(asked, ended, strict=True):
            if status:
                raise TestbedError(printed.strip()[-300:], f"{self._shell.name}: {argv}")
        at_ports = [json.loads(printed)[d] for d, (_, printed) in zip(devices, ended, strict=False)]
        recovery: dict[str, int] = {name: 0 for name in RECOVERY_COUNTERS}
        if on:
            recovery = parse_recovery(ended[-1][1], self._shell.name)
        station = {
            "frer": on,
            "replicates": len(self._members) if on else 1,
            "ports": dict(zip(self.devices, at_ports, strict=True)),
            "recovery": recovery,
            **self._places(recovery),
        }
        return merge_kernel_counters(station, self._shell, self._names)

    def _places(self, recovery: dict[str, int]) -> dict[str, dict[str, int]]:
        """Return what recovery refused of the stream, apart: it discards all that it refuses.

        A tool's handshake goes by the stream's port too, on every path; its copies are left out as
        at the ports.
        """
        rogue, tagless = recovery["rogue"], recovery["tagless"]
        shakes = self._configured is not None and self._configured[1].min_payload_bytes > 0
        of_handshake = len(self._members) - 1 if shakes else 0
        copies = max(0, recovery["discarded"] - rogue - tagless - of_handshake)
        places = {"eliminated": copies, "rogue": rogue, "tagless": tagless}
        return {place: counted(frames) for place, frames in places.items()}


# u32 rather than flower or matchall: it sees behind an R-TAG, and every kernel has it.
_EVERY_FRAME = ["protocol", "all", "u32", "match", "u32", "0", "0"]


def _of_stream(stream: StreamFilter, protocol: str, tag_bytes: int) -> list[str]:
    """Return the words that choose a stream's frames, but for later fragments."""
    matches = (
        ("u8", str(_PROTOCOLS[stream.protocol]), "0xff", _PROTOCOL),
        ("u16", "0", "0x1fff", _FRAGMENT),
        ("u16", str(stream.port), "0xffff", _PORT),
    )
    words = ["protocol", protocol, "u32"]
    for size, value, mask, place in matches:
        words += ["match", size, value, mask, "at", str(tag_bytes + place)]
    return words


def _redirected(device: str) -> list[str]:
    return ["action", "mirred", "egress", "redirect", "dev", device]


def _mirrored(device: str) -> list[str]:
    return ["action", "mirred", "egress", "mirror", "dev", device]


def _recovery(frer: FrerSettings) -> list[str]:
    return [
        *("alg", frer.algorithm, "history-length", str(frer.history_length)),
        *("reset-time", str(frer.reset_ms), "tag-pop"),
    ]


def _without(device: str, rule: int) -> list[str]:
    return ["tc", "filter", "del", "dev", device, "ingress", "pref", str(rule)]


def _shown(index: int) -> list[str]:
    return ["tc", "-s", "actions", "get", "action", "frer", "index", str(index)]


def _refuse(frer: FrerSettings, name: str) -> None:
    """Refuse what the kernel's recovery function cannot be told."""
    if frer.history_length > _LONGEST_HISTORY:
        raise TestbedError(
            f"a kernel remembers {_LONGEST_HISTORY} numbers at most, and frer.history_length is "
            f"{frer.history_length}",
            name,
            f"Set frer.history_length of the testbed to {_LONGEST_HISTORY} or less",
        )
    if frer.take_no_sequence:
        raise TestbedError(
            "frames without R-TAG cannot be let through by this driver",
            name,
            "Set frer.take_no_sequence of the testbed to false",
        )


def parse_recovery(printed: str, where: str) -> dict[str, int]:
    """Return the counters of a recovery function from what ``tc -s actions`` prints.

    Raises
    ------
    TestbedError
        One is missing.
    """
    found = {name.replace("-", "_"): int(value) for name, value in _VALUE.findall(printed)}
    if missing := [name for name in RECOVERY_COUNTERS if name not in found]:
        raise TestbedError(
            f"tc tells no {', '.join(missing)} of recovery: {printed.strip()[:300]!r}",
            where,
            "Is this the tc that came with the kernel's action frer?",
        )
    return {name: found[name] for name in RECOVERY_COUNTERS}
