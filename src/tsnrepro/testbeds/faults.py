"""Fault injection: commands on the switches, each with the time at which it took effect.

Times are CLOCK_TAI in nanoseconds, which all hosts of the emulated testbed share. They are read in
the shell that runs the command, immediately before and after it. A rack's hosts have separate
clocks, see :mod:`tsnrepro.testbeds.rack.faults`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tsnrepro.common.errors import ConfigurationError, TestbedError, ToolError, TsnreproError
from tsnrepro.common.topology import CARD, HOST_PORT, LISTENER, SWITCHES, TALKER, member_names
from tsnrepro.config.frer import LatentSettings
from tsnrepro.config.testbeds import BenchSettings, EmulatedSettings, RackSettings
from tsnrepro.native import streams
from tsnrepro.testbeds.hosts.clocks import read_clocks
from tsnrepro.testbeds.hosts.host import (
    COMMAND_SECONDS,
    DEADLINE_PASSED,
    ENDED_BY_KILL,
    RemoteHost,
    RemoteProcess,
)
from tsnrepro.tools import frerctl
from tsnrepro.tools.frerctl import FrerctlAlarm

_MILLION = 1_000_000
# Copper negotiates a speed in two to four seconds.
_LINK_SECONDS, _POLL_SECONDS = 15, 0.05

# EPOCHREALTIME is a variable of bash: no process starts between the reading and the command. The
# locale would set its decimal separator.
_TIMED = 'LC_ALL=C; echo "$EPOCHREALTIME"; "$@"; status=$?; echo "$EPOCHREALTIME"; exit $status'


@dataclass(frozen=True)
class Event:
    """A command of a fault, which took effect between the two times.

    Times are CLOCK_TAI in nanoseconds, with a resolution of one microsecond.
    """

    fault: str
    host: str
    command: tuple[str, ...]
    before_ns: int
    after_ns: int


class LatentDetection:
    """Latent error detection, running on a switch."""

    ahead_ns = 0
    """How far the switch's clock is ahead of the one that dates the alarms."""

    def __init__(self, process: RemoteProcess) -> None:
        self._process = process
        self.started = process.read_line()
        if not self.started.startswith("{"):
            reason = process.wait().stderr.strip() or self.started
            raise ToolError(f"latent error detection did not start: {reason}")

    def next_alarm(self) -> FrerctlAlarm:
        """Wait for the next alarm, until the detection's deadline at the latest."""
        line = self._process.read_line()
        if not line:
            raise ToolError("latent error detection ended before it raised an alarm")
        return self._parse(line)[0]

    def stop(self) -> list[FrerctlAlarm]:
        """Stop detection and return the alarms that :meth:`next_alarm` has not returned.

        Raises ToolError if it had already ended: latent errors since then were not detected.
        """
        ended_before = not self._process.running
        if not ended_before:
            self._process.stop()
        completed = self._process.wait()
        if ended_before:
            raise ToolError(
                f"latent error detection ended with exit status {completed.exit_status}: "
                f"{completed.stderr.strip() or 'no output'}",
                f"{completed.host}: {' '.join(completed.argv)}",
                f"Status {DEADLINE_PASSED} or {ENDED_BY_KILL} is its deadline, which must be after "
                "the trial",
            )
        return self._parse(completed.stdout)

    def _parse(self, text: str) -> list[FrerctlAlarm]:
        alarms = frerctl.parse_alarms(text)
        return [replace(alarm, time_ns=alarm.time_ns - self.ahead_ns) for alarm in alarms]


class Faults:
    """Faults of the member paths and switches of a testbed.

    ``hosts``: the testbed's hosts by name. ``settings``: settings of the testbed: its paths and
    their delays. ``program``: path of frerctl on the hosts.
    """

    streams = 1
    """Number of streams that the switches distinguish."""
    data_planes: tuple[str, ...] = SWITCHES
    """The switches that run our data plane: on others only link faults are possible."""

    def __init__(
        self,
        hosts: Mapping[str, RemoteHost],
        settings: EmulatedSettings | RackSettings | BenchSettings,
        program: str,
    ) -> None:
        self._hosts, self._settings, self._program = hosts, settings, program

    def cut(self, path: int) -> Event:
        """Cut a member path: its link goes down at both switches.

        The frames in its queues are lost. A delayed path is cut at both ends, so that frames in
        transit are lost too.
        """
        return self._set_link("cut", path, "down")

    def repair(self, path: int) -> Event:
        """Set a member path's link up again."""
        return self._set_link("repair", path, "up")

    def impair(
        self, path: int, *, drop_ppm: int = 0, duplicate_ppm: int = 0, back: bool = True
    ) -> list[Event]:
        """Lose and duplicate frames at random on a member path, while its link stays up.

        ``path``: index of the member path. ``drop_ppm`` and ``duplicate_ppm``: probability for each
        frame, in millionths: 1,000,000 is a silently dead path, 0 removes the fault. ``back``: also
        in the direction from listener to talker. Loss takes effect with the first returned event,
        duplication with the second: frames are lost where they are received (sw2) and copied where
        they are sent (sw1). Raises ConfigurationError if a probability is outside [0, 1,000,000],
        or there is no such path.
        """
        for name, value in (("drop_ppm", drop_ppm), ("duplicate_ppm", duplicate_ppm)):
            if not 0 <= value <= _MILLION:
                raise ConfigurationError(f"{name}={value}", "impair", f"Set it to 0 ... {_MILLION}")
        port = self._port(path)
        at_sw2 = frerctl.fault(self._program, port, drop_ppm, duplicate_ppm if back else 0)
        at_sw1 = frerctl.fault(self._program, port, drop_ppm if back else 0, duplicate_ppm)
        return [self._timed("impair", "sw2", at_sw2), self._timed("impair", "sw1", at_sw1)]

    def heal(self, path: int) -> list[Event]:
        """Remove the faults of :meth:`impair` from a member path."""
        return self.impair(path)

    def stick_generator(self, stream: int = 0, *, stuck: bool = True, switch: str = "sw1") -> Event:
        """Stop the sequence generator of a stream at its present number, or release it."""
        command = frerctl.stuck_generator(self._program, HOST_PORT, stream, stuck)
        return self._timed("stuck generator" if stuck else "freed generator", switch, command)

    def restart_switch(self, name: str) -> Event:
        """Reset a switch's sequence numbers, as restarting it would.

        Its generators start at 0 and its recovery functions accept any number next. Counters
        continue, because a trial's accounting is a difference of counters; links stay up.
        """
        command = frerctl.restart(self._program, HOST_PORT)
        return self._timed("restart", name, command)

    def start_latent(
        self, latent: LatentSettings, *, deadline_s: float, switch: str = ""
    ) -> LatentDetection:
        """Start latent error detection (IEEE Std 802.1CB-2017, 7.4.4) at the eliminating host.

        It expects every member path to deliver each frame, and tests every FRER stream, for at most
        ``deadline_s``. With a ``switch`` it tests that switch's recovery.
        """
        switch, port = (switch, HOST_PORT) if switch else self._recovering
        command = frerctl.latent(self._program, port, latent, self._settings.paths)
        return LatentDetection(self._hosts[switch].start(command, deadline_s=deadline_s))

    @property
    def _recovering(self) -> tuple[str, str]:
        """The host that eliminates the talker's frames, and the port by which frerctl finds it."""
        at_listener = self._settings.elimination == "listener"
        return (LISTENER, CARD) if at_listener else (SWITCHES[1], HOST_PORT)

    def clear(self) -> None:
        """Remove all faults: links up, no impairment, generators released.

        A failure does not skip the others.

        Raises TestbedError if a fault remains: no further trial would have the network that it
        needs.
        """
        failures = []
        for remove in self._removals():
            try:
                remove()
            except TsnreproError as error:
                failures.append(error)
        if failures:
            raise TestbedError(
                f"faults remain on the testbed: {'; '.join(map(str, failures))}",
                "removal of a trial's faults",
                "Start the campaign again, which sets the testbed up anew",
            ) from failures[0]

    def _removals(self) -> Iterator[Callable[[], object]]:
        for path in range(self._settings.paths):
            yield partial(self.repair, path)
            if self.data_planes == SWITCHES:
                yield partial(self.heal, path)
        for stream in range(self.streams):
            for switch in self.data_planes:
                yield partial(self.stick_generator, stream, stuck=False, switch=switch)

    def _port(self, path: int) -> str:
        ports = member_names(self._settings.paths)
        if not 0 <= path < len(ports):
            remedy = f"Paths are 0 ... {len(ports) - 1}"
            raise ConfigurationError(f"no member path {path}", "faults", remedy)
        return ports[path]

    def _set_link(self, fault: str, path: int, state: str) -> Event:
        command = ["ip", "link", "set", "dev", self._port(path), state]
        event = self._timed(fault, "sw1", command)
        if path in self._settings.delayed_paths:  # the delay line is between the two ends
            event = replace(event, after_ns=self._timed(fault, "sw2", command).after_ns)
        return event

    def _timed(self, fault: str, host: str, command: list[str]) -> Event:
        argv = ["bash", "-c", _TIMED, "bash", *command]
        output = self._hosts[host].run(argv, deadline_s=COMMAND_SECONDS).check().stdout
        times = [line for line in output.splitlines() if line]
        if len(times) != 2:
            raise ToolError(f"{' '.join(command)} printed {output[:200]!r} between two times")
        before, after = (int(line.replace(".", "")) * 1000 + _tai_ahead_ns() for line in times)
        return Event(fault, host, tuple(command), before, after)


class CabledFaults(Faults):
    """Faults of ports that negotiate a speed when their link is set up again."""

    def repair(self, path: int) -> Event:
        """Set a member path's link up, and wait for the carrier at both ends.

        Raises TestbedError if there is no carrier in time.
        """
        event = super().repair(path)
        end = time.monotonic() + _LINK_SECONDS
        while not all(self._has_carrier(switch, path) for switch in SWITCHES):
            if time.monotonic() > end:
                raise TestbedError(
                    f"the link of member path {path} is not up {_LINK_SECONDS} s after it was set "
                    "up",
                    " and ".join(SWITCHES),
                    "Check `ip link` and `ethtool` of the ports at both ends",
                )
            time.sleep(_POLL_SECONDS)
        return replace(event, after_ns=self._now_ns(TALKER))

    def _has_carrier(self, switch: str, path: int) -> bool:
        argv = ["cat", f"/sys/class/net/{self._port(path)}/carrier"]
        completed = self._hosts[switch].run(argv, deadline_s=COMMAND_SECONDS)
        return completed.exit_status == 0 and completed.stdout.strip() == "1"

    def _now_ns(self, host: str) -> int:
        return read_clocks(self._hosts[host], str(streams.talker())).tai_ns


def _tai_ahead_ns() -> int:
    """Return how far CLOCK_TAI is ahead of CLOCK_REALTIME here: whole seconds, 0 if unset."""
    ahead = time.clock_gettime_ns(time.CLOCK_TAI) - time.clock_gettime_ns(time.CLOCK_REALTIME)
    return round(ahead / 1e9) * 1_000_000_000
