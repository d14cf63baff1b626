"""A Linux PC as FRER switch by its kernel alone: tc(8) forwards, sequences and recovers frames.

Frames from the host port are sent over the member ports: with FRER sequenced and tagged by the
action ``frer``, as control untagged over the first. Frames from a member port pass through recovery
to the host port. Control needs no special kernel. The action ``frer`` is that of the patch series
of June 2026 for Linux (net-next, "tc: introduce FRER action"), whose syntax is used here; a tc
without it reports an error, and control remains available.

A rule selects the measured stream by protocol and port: it has sequence numbers and a recovery
function of its own; other traffic has another. Our programs count at every port.
"""

import json
import re
from dataclasses import dataclass

from tsnrepro.common.errors import TestbedError
from tsnrepro.config import Configuration, FrerSettings
from tsnrepro.config.frer import RECOVERY_COUNTERS
from tsnrepro.config.rack import KernelSwitch
from tsnrepro.testbeds.hosts.host import command_line
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.testbeds.rack.switch import LinuxSwitch, merge_kernel_counters, stream_frames
from tsnrepro.tools import frerctl
from tsnrepro.tools.frerctl import StreamFilter

# After our counting programs (frerctl's priority is 1).
_STREAM_RULE, _OTHERS_RULE = 10, 20
_R_TAG = "0xf1c1"
_R_TAG_BYTES = 6
_PROTOCOLS = {"udp": 17, "tcp": 6}
# Offsets in an IPv4 packet: protocol, fragment offset, destination port after a header without
# options.
_PROTOCOL, _FRAGMENT, _PORT = 9, 6, 22
_MAX_HISTORY = 32
"""Of the kernel's recovery function, whose history is one machine word."""

_VALUE = re.compile(r"\b([a-z][a-z_-]*)[=:]?\s*(\d{1,20})\b")


@dataclass(frozen=True)
class _Traffic:
    """The stream or other traffic, each with a sequence generator and a recovery function."""

    rule: int
    generator: int
    recovery: int


_STREAM = _Traffic(_STREAM_RULE, 7110, 7111)
_OTHERS = _Traffic(_OTHERS_RULE, 7120, 7121)


class KernelDriver(LinuxSwitch):
    """See :class:`tsnrepro.testbeds.rack.switch.SwitchDriver`."""

    def __init__(self, shell: Shell, settings: KernelSwitch, program: str) -> None:
        super().__init__(shell, settings, program)
        self._configured: tuple[Configuration, StreamFilter] | None = None
        # Devices and priorities of the forwarding rules.
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
        """Set the rules to FRER or control, and the stream to count."""
        if configuration == "frer":
            _check(frer, self._shell.name)
        self._shell.change_all(
            [
                frerctl.configure(self._program, device, configuration, frer, stream)
                for device in self.devices.values()
            ]
        )
        rules, self._rules = self._rules, []
        self._shell.change_all([_delete(device, rule) for device, rule in rules])
        self._configured = configuration, stream
        if configuration == "control":
            self._forward_alone()
        else:
            self._replicate_and_recover(frer, stream)

    def _forward_alone(self) -> None:
        self._add(self._host_port, _OTHERS_RULE, _EVERY_FRAME, _redirect(self._members[0]))
        for device in self._members:
            self._add(device, _OTHERS_RULE, _EVERY_FRAME, _redirect(self._host_port))

    def _replicate_and_recover(self, frer: FrerSettings, stream: StreamFilter) -> None:
        first, *others = self._members
        # A redirect ends the chain of actions, so the copies are made before it.
        copies = [word for device in others for word in _mirror(device)]
        for traffic in (_STREAM, _OTHERS):
            numbered = ["action", "frer", "push", "index", str(traffic.generator)]
            match = _EVERY_FRAME if traffic is _OTHERS else _match(stream, "ip", 0)
            self._add(self._host_port, traffic.rule, match, [*numbered, *copies, *_redirect(first)])
            match = _EVERY_FRAME if traffic is _OTHERS else _match(stream, _R_TAG, _R_TAG_BYTES)
            for number, device in enumerate(self._members):
                # The first creates the recovery function, which the others share by its index.
                options = _recovery(frer) if number == 0 else []
                recovered = ["action", "frer", "recover", *options, "index", str(traffic.recovery)]
                self._add(device, traffic.rule, match, [*recovered, *_redirect(self._host_port)])

    def _add(self, device: str, rule: int, match: list[str], actions: list[str]) -> None:
        where = ["tc", "filter", "add", "dev", device, "ingress", "pref", str(rule)]
        argv = [*where, *match, *actions]
        try:
            self._shell.change(argv)
        except TestbedError as error:
            if "frer" not in actions:
                raise
            raise TestbedError(
                f"tc does not support the action frer: {error.what}",
                error.where,
                "Install a kernel and a tc with it, or use the driver ebpf",
            ) from error
        self._rules.append((device, rule))

    def reset_recovery(self, frer: FrerSettings) -> None:
        """Reset the recovery functions by replacing them."""
        if not self._replicates:
            return
        replaced = ["tc", "actions", "replace", "action", "frer", "recover", *_recovery(frer)]
        indices = [str(traffic.recovery) for traffic in (_STREAM, _OTHERS)]
        self._shell.change_all([[*replaced, "index", index] for index in indices])

    # --- counters -----------------------------------------------------------------------------

    def counters(self) -> str:
        """Return the counters of all ports and of recovery, in the form of frerctl's."""
        on = self._replicates
        devices = list(self.devices.values())
        commands = [[self._program, "counters", device] for device in devices]
        if on:
            commands.append(_shown(_STREAM.recovery))
        completed = self._shell.query_all(commands)
        for argv, (status, output) in zip(commands, completed, strict=True):
            if status:
                raise TestbedError(output.strip()[-300:], command_line(self._shell.name, argv))
        at_ports = [
            json.loads(output)[device]
            for device, (_, output) in zip(devices, completed, strict=False)
        ]
        recovery: dict[str, int] = {name: 0 for name in RECOVERY_COUNTERS}
        if on:
            recovery = parse_recovery(completed[-1][1], self._shell.name)
        station = {
            "frer": on,
            "replicates": len(self._members) if on else 1,
            "ports": dict(zip(self.devices, at_ports, strict=True)),
            "recovery": recovery,
            **self._discarded(recovery),
        }
        return merge_kernel_counters(station, self._shell, self.devices, self._aliases)

    def _discarded(self, recovery: dict[str, int]) -> dict[str, dict[str, int]]:
        """Return the frames that recovery discarded, by reason: its counter includes all.

        A tool's handshake uses the stream's port too, on every path; its copies are excluded, as
        at the ports.
        """
        rogue, tagless = recovery["rogue"], recovery["tagless"]
        handshake = self._configured is not None and self._configured[1].min_payload_bytes > 0
        excluded = len(self._members) - 1 if handshake else 0
        copies = max(0, recovery["discarded"] - rogue - tagless - excluded)
        counts = {"eliminated": copies, "rogue": rogue, "tagless": tagless}
        return {reason: stream_frames(frames) for reason, frames in counts.items()}


# u32 rather than flower or matchall: it can match after an R-TAG, and every kernel has it.
_EVERY_FRAME = ["protocol", "all", "u32", "match", "u32", "0", "0"]


def _match(stream: StreamFilter, protocol: str, tag_bytes: int) -> list[str]:
    """Return the match of a stream's frames, without later fragments."""
    matches = (
        ("u8", str(_PROTOCOLS[stream.protocol]), "0xff", _PROTOCOL),
        ("u16", "0", "0x1fff", _FRAGMENT),
        ("u16", str(stream.port), "0xffff", _PORT),
    )
    words = ["protocol", protocol, "u32"]
    for size, value, mask, offset in matches:
        words += ["match", size, value, mask, "at", str(tag_bytes + offset)]
    return words


def _redirect(device: str) -> list[str]:
    return ["action", "mirred", "egress", "redirect", "dev", device]


def _mirror(device: str) -> list[str]:
    return ["action", "mirred", "egress", "mirror", "dev", device]


def _recovery(frer: FrerSettings) -> list[str]:
    return [
        *("alg", frer.algorithm, "history-length", str(frer.history_length)),
        *("reset-time", str(frer.reset_ms), "tag-pop"),
    ]


def _delete(device: str, rule: int) -> list[str]:
    return ["tc", "filter", "del", "dev", device, "ingress", "pref", str(rule)]


def _shown(index: int) -> list[str]:
    return ["tc", "-s", "actions", "get", "action", "frer", "index", str(index)]


def _check(frer: FrerSettings, name: str) -> None:
    """Refuse settings that the kernel's recovery function does not support."""
    if frer.history_length > _MAX_HISTORY:
        raise TestbedError(
            f"frer.history_length is {frer.history_length}, and the kernel supports at most "
            f"{_MAX_HISTORY}",
            name,
            f"Set frer.history_length of the testbed to {_MAX_HISTORY} or less",
        )
    if frer.take_no_sequence:
        raise TestbedError(
            "this driver cannot pass frames without R-TAG",
            name,
            "Set frer.take_no_sequence of the testbed to false",
        )


def parse_recovery(text: str, where: str) -> dict[str, int]:
    """Return the counters of a recovery function from ``tc -s actions``.

    Raises
    ------
    TestbedError
        A counter is missing.
    """
    found = {name.replace("-", "_"): int(value) for name, value in _VALUE.findall(text)}
    if missing := [name for name in RECOVERY_COUNTERS if name not in found]:
        raise TestbedError(
            f"tc prints no {', '.join(missing)} of recovery: {text.strip()[:300]!r}",
            where,
            "Install the tc of the kernel's action frer",
        )
    return {name: found[name] for name in RECOVERY_COUNTERS}
