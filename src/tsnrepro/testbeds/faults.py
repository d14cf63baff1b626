"""Faults of a network: commands on its switches, each with the time it took effect.

Times are CLOCK_TAI of the machine in nanoseconds, which all hosts of the emulated testbed share:
read on the host in the shell that runs the command, right before and right after it. A rack's
hosts have clocks of their own, see :mod:`tsnrepro.testbeds.rack.faults`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tsnrepro.common.errors import ConfigurationError, TestbedError, ToolError, TsnreproError
from tsnrepro.common.topology import CARD, HOST_PORT, LISTENER, SWITCHES, member_names
from tsnrepro.config.frer import LatentSettings
from tsnrepro.config.testbeds import EmulatedSettings, RackSettings
from tsnrepro.testbeds.host import DEADLINE_PASSED, ENDED_BY_KILL, RemoteHost, RemoteProcess
from tsnrepro.tools import frerctl
from tsnrepro.tools.frerctl import FrerctlAlarm

_MILLION = 1_000_000
_FAULT_SECONDS = 20

# EPOCHREALTIME is bash's own: no process starts between the reading and the command. What the
# locale would make of its decimal point is kept out.
_TIMED = 'LC_ALL=C; echo "$EPOCHREALTIME"; "$@"; status=$?; echo "$EPOCHREALTIME"; exit $status'


@dataclass(frozen=True)
class Event:
    """One command of a fault: it took effect between the two times.

    Times are CLOCK_TAI in nanoseconds, with a resolution of one microsecond.
    """

    fault: str
    host: str
    command: tuple[str, ...]
    before_ns: int
    after_ns: int


class LatentDetection:
    """Latent error detection that runs on a switch."""

    ahead_ns = 0
    """How far the switch's clock is ahead of the one that alarms are told by."""

    def __init__(self, process: RemoteProcess) -> None:
        self._process = process
        self.started = process.read_line()
        if not self.started.startswith("{"):
            said = process.wait().stderr.strip()
            raise ToolError(f"latent error detection did not start: {said or self.started}")

    def next_alarm(self) -> FrerctlAlarm:
        """Wait for the next alarm (the deadline of the detection bounds this)."""
        line = self._process.read_line()
        if not line:
            raise ToolError("latent error detection ended before it raised an alarm")
        return self._parse(line)[0]

    def stop(self) -> list[FrerctlAlarm]:
        """End detection and return the alarms that :meth:`next_alarm` has not returned.

        Raises
        ------
        ToolError
            It had ended before: nobody looked for latent errors in the time since.
        """
        ended_before = not self._process.running
        if not ended_before:
            self._process.stop()
        done = self._process.wait()
        if ended_before:
            raise ToolError(
                f"latent error detection ended by itself, with exit status {done.exit_status}: "
                f"{done.stderr.strip() or 'it said nothing'}",
                f"{done.host}: {' '.join(done.argv)}",
                f"Status {DEADLINE_PASSED} or {ENDED_BY_KILL} is its deadline, which has to be "
                "later than the trial's end",
            )
        return self._parse(done.stdout)

    def _parse(self, text: str) -> list[FrerctlAlarm]:
        alarms = frerctl.parse_alarms(text)
        return [replace(alarm, time_ns=alarm.time_ns - self.ahead_ns) for alarm in alarms]


class Faults:
    """What may go wrong on the member paths and in the switches of a testbed.

    Parameters
    ----------
    hosts
        The testbed's hosts by name.
    settings
        Of the testbed: its paths and their delays.
    program
        Path of frerctl, which every host sees.
    """

    streams = 1
    """Number of streams that the switches tell apart now."""
    data_planes: tuple[str, ...] = SWITCHES
    """The switches that our data plane runs on: on others nothing but a link fails on request."""

    def __init__(
        self,
        hosts: Mapping[str, RemoteHost],
        settings: EmulatedSettings | RackSettings,
        program: str,
    ) -> None:
        self._hosts, self._settings, self._program = hosts, settings, program

    def cut(self, path: int) -> Event:
        """Cut a member path: its link goes down, and both switches see that.

        What waits in its queues is lost. A path with a delay is cut at both its ends, so what is on
        its way arrives at no port.
        """
        return self._set_link("cut", path, "down")

    def repair(self, path: int) -> Event:
        """Plug a member path's link in again."""
        return self._set_link("repair", path, "up")

    def impair(
        self, path: int, *, drop_ppm: int = 0, duplicate_ppm: int = 0, back: bool = True
    ) -> list[Event]:
        """Let a member path lose and duplicate frames at random, while its link stays up.

        Parameters
        ----------
        path
            Index of the member path.
        drop_ppm, duplicate_ppm
            Probability for each frame, in millionths: 1,000,000 is a path that is silently dead;
            zero takes the fault back.
        back
            Also from the listener to the talker.

        Returns
        -------
        list of Event
            Loss takes effect with the first event, duplication with the second: the loss is where
            frames arrive (sw2), the copies are made where they depart (sw1).

        Raises
        ------
        ConfigurationError
            A probability is outside [0, 1,000,000] or there is no such path.
        """
        for name, value in (("drop_ppm", drop_ppm), ("duplicate_ppm", duplicate_ppm)):
            if not 0 <= value <= _MILLION:
                raise ConfigurationError(
                    f"{name}={value}", "impair", f"It lies in 0 ... {_MILLION}"
                )
        port = self._port(path)
        at_sw2 = frerctl.fault(self._program, port, drop_ppm, duplicate_ppm if back else 0)
        at_sw1 = frerctl.fault(self._program, port, drop_ppm if back else 0, duplicate_ppm)
        return [self._timed("impair", "sw2", at_sw2), self._timed("impair", "sw1", at_sw1)]

    def kill_silently(self, path: int) -> list[Event]:
        """Let every frame on a member path vanish, in both directions; its link stays up."""
        return self.impair(path, drop_ppm=_MILLION)

    def heal(self, path: int) -> list[Event]:
        """Take back what :meth:`impair` or :meth:`kill_silently` did to a member path."""
        return self.impair(path)

    def stick_generator(self, stream: int = 0, *, stuck: bool = True, switch: str = "sw1") -> Event:
        """Stop (or free) the sequence generator of a stream: its number stays the same."""
        command = frerctl.stuck_generator(self._program, HOST_PORT, stream, stuck)
        return self._timed("stuck generator" if stuck else "freed generator", switch, command)

    def restart_switch(self, name: str) -> Event:
        """Let a switch forget its sequence numbers, as one that restarts does.

        Its generators begin at 0 again and its recovery functions take any number next. Counters
        go on, because the accounting of a trial is a difference of counters; links stay up.
        """
        command = frerctl.restart(self._program, HOST_PORT)
        return self._timed("restart", name, command)

    def start_latent(
        self, latent: LatentSettings, *, deadline_s: float, switch: str = ""
    ) -> LatentDetection:
        """Start latent error detection (IEEE Std 802.1CB-2017, 7.4.4), where copies are eliminated.

        It expects every member path to deliver each frame, and tests every FRER stream, for
        ``deadline_s`` at most. With a ``switch`` it is that switch's recovery that is watched.
        """
        switch, port = (switch, HOST_PORT) if switch else self._recovering
        command = frerctl.latent(self._program, port, latent, self._settings.paths)
        return LatentDetection(self._hosts[switch].start(command, deadline_s=deadline_s))

    @property
    def _recovering(self) -> tuple[str, str]:
        """Who eliminates what comes from the talker, and the port by which frerctl finds it."""
        at_listener = self._settings.elimination == "listener"
        return (LISTENER, CARD) if at_listener else (SWITCHES[1], HOST_PORT)

    def clear(self) -> None:
        """Take back every fault: links up, nothing impaired, generators free.

        One that stays keeps no other from being taken back.

        Raises
        ------
        TestbedError
            A fault stays: no further trial would have the network that it asks for.
        """
        failures = []
        for take_back in self._steps_back():
            try:
                take_back()
            except TsnreproError as error:
                failures.append(error)
        if failures:
            raise TestbedError(
                f"faults stay on the testbed: {'; '.join(map(str, failures))}",
                "taking the faults of a trial back",
                "Start the campaign again: the testbed is then brought up afresh",
            ) from failures[0]

    def _steps_back(self) -> Iterator[Callable[[], object]]:
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
        if path in self._settings.delayed_paths:  # the delay line lies between the two ends
            event = replace(event, after_ns=self._timed(fault, "sw2", command).after_ns)
        return event

    def _timed(self, fault: str, host: str, command: list[str]) -> Event:
        argv = ["bash", "-c", _TIMED, "bash", *command]
        done = self._hosts[host].run(argv, deadline_s=_FAULT_SECONDS).check()
        said = [line for line in done.stdout.splitlines() if line]
        if len(said) != 2:
            raise ToolError(f"{' '.join(command)} printed {done.stdout[:200]!r} between two times")
        before, after = (int(line.replace(".", "")) * 1000 + _tai_ahead_ns() for line in said)
        return Event(fault, host, tuple(command), before, after)


def _tai_ahead_ns() -> int:
    """Return how far CLOCK_TAI is ahead of CLOCK_REALTIME here: whole seconds, 0 where unset."""
    ahead = time.clock_gettime_ns(time.CLOCK_TAI) - time.clock_gettime_ns(time.CLOCK_REALTIME)
    return round(ahead / 1e9) * 1_000_000_000
