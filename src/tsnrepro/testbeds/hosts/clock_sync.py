"""Clock synchronization by linuxptp during a trial.

The talker's clock is the grandmaster. With hardware time stamps ptp4l synchronizes the network
cards; phc2sys sets the talker's card to its system clock, and the listener's system clock to its
card. With software time stamps ptp4l sets the listener's system clock itself. A switch between the
two is a boundary clock (IEEE Std 1588-2019): its own clock, which drives its gates, follows the
talker's card, and the listener's card follows it. It runs no phc2sys.

While ptp4l runs with hardware time stamps, igb and igc stamp every received frame, not only PTP's:
they support no other filter.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from tsnrepro.common.errors import CommandError, TestbedError, ToolError
from tsnrepro.common.topology import INLINE_SWITCH, LISTENER, TALKER
from tsnrepro.config.ptp import PtpSettings
from tsnrepro.testbeds.hosts import programs
from tsnrepro.testbeds.hosts.clocks import (
    ClockSync,
    ClockSyncFailure,
    add_stamping_card,
    add_switch,
    compare_clocks,
    phc2sys_offsets,
    ptp_state,
    read_clocks,
)
from tsnrepro.testbeds.hosts.host import COMMAND_SECONDS, RemoteHost, RemoteProcess, command_line
from tsnrepro.tools.linuxptp import TimeService, phc2sys

# Removed with our programs, also after a kill.
_FOLDER = f"{programs.FOLDER}/linuxptp"
_CONFIGURATION, _SOCKET, _LOG = (f"{_FOLDER}/{n}" for n in ("ptp4l.conf", "ptp4l", "phc2sys.log"))
_STAMPING_LOG = f"{_FOLDER}/stamping.log"
_POLL_SECONDS = 1.0
_TAI_AHEAD_S = 37
# The lowest becomes the grandmaster.
_PRIORITY = {TALKER: 100, INLINE_SWITCH: 150, LISTENER: 200}
# Ahead of the load at the same port (ptp4l(8)).
_SWITCH_OPTIONS = "socket_priority 7\n"
# Eight messages a second synchronize the clocks within some seconds.
_GLOBAL = """\
[global]
network_transport L2
delay_mechanism P2P
time_stamping {stamping}
domainNumber {domain}
priority1 {priority}
free_running {free_running}
uds_address {socket}
logSyncInterval -3
logMinPdelayReqInterval -3
logAnnounceInterval 0
tx_timestamp_timeout 20
use_syslog 0
verbose 1
"""
_LOGGED = 'log=$1; shift; exec "$@" >"$log" 2>&1'


class ClockSynchronizer:
    """Synchronizes the clocks of talker and listener during a block.

    ``hosts``: the talker and the listener, and the switch between them if there is one; ``cards``:
    their ports; ``program``: path of a talker or listener program on each host, which prints its
    clocks. ``settings``: settings of linuxptp; None if the clocks are synchronized by other means,
    or are one. ``stamping``: cards that stamp received frames but are not ptp4l's, by their hosts'
    roles: each is set to its host's system clock.
    """

    def __init__(
        self,
        hosts: Mapping[str, RemoteHost],
        cards: Mapping[str, Sequence[str]],
        program: str,
        settings: PtpSettings | None,
        stamping: Mapping[str, str] | None = None,
    ) -> None:
        self._hosts, self._cards, self._stamping = hosts, cards, stamping or {}
        self._program, self._settings = program, settings
        self._running: dict[str, RemoteProcess] = {}

    @contextmanager
    def synchronized(self, max_s: float) -> Iterator[list[ClockSync | ClockSyncFailure]]:
        """Synchronize the clocks during a block of at most ``max_s``.

        The block starts once they are synchronized. It receives a list of the synchronization
        before it and, once it has ended, after it: a failure there is no error, since the
        measurement may be usable without.

        Raises TestbedError if the clocks are not synchronized in time, or a program of linuxptp has
        ended.
        """
        with ExitStack() as stack:
            if self._settings or self._stamping:
                self._start(max_s, stack)
            states: list[ClockSync | ClockSyncFailure] = [self._wait()]
            yield states
            states.append(self._final_state())

    @property
    def _lock_timeout_s(self) -> float:
        settings = self._settings or (PtpSettings() if self._stamping else None)
        return settings.lock_timeout_s if settings else 0.0

    def _start(self, max_s: float, stack: ExitStack) -> None:
        ptp = self._settings
        deadline_s = max_s + self._lock_timeout_s + COMMAND_SECONDS
        ahead_s = read_clocks(self._hosts[TALKER], self._program).tai_offset_s
        for role, host in self._hosts.items():
            host.run(["mkdir", "-p", _FOLDER], deadline_s=COMMAND_SECONDS).check()
            stack.callback(_run_quietly, host, ["rm", "-rf", _folder_of(role)])
            commands: dict[str, list[str]] = {}
            if ptp:
                text = ptp4l_configuration(ptp, role, self._cards[role])
                host.write(_CONFIGURATION, text.encode(), deadline_s=COMMAND_SECONDS)
                commands = linuxptp_commands(ptp, role, self._cards[role], ahead_s)
            if role in self._stamping:
                commands |= stamping_command(self._stamping[role], ahead_s)
            for name, argv in commands.items():
                process = host.start(argv, deadline_s=deadline_s)
                self._running[f"{role}: {name}"] = process
                stack.callback(self._stop, f"{role}: {name}")

    def _stop(self, name: str) -> None:
        process = self._running.pop(name)
        with suppress(CommandError):
            process.stop()
            process.wait()

    def _wait(self) -> ClockSync:
        """Wait until the clocks are synchronized as precisely as configured."""
        ptp = self._settings
        end = time.monotonic() + self._lock_timeout_s
        max_ns = ptp.max_clock_error_ns if ptp else float("inf")
        while True:
            self._check_running()
            sync = self._compare()
            if isinstance(sync, ClockSync) and sync.uncertainty_ns <= max_ns:
                return sync
            if time.monotonic() >= end:
                break
            time.sleep(_POLL_SECONDS)
        if isinstance(sync, ClockSync):
            reason = f"uncertainty is {sync.uncertainty_ns:.0f} ns, the limit {max_ns} ns"
        else:
            reason = sync.reason
        raise TestbedError(
            f"the clocks are not synchronized: {reason}",
            "linuxptp" if ptp or self._stamping else "talker and listener",
            "Check the cable and the cards' clocks: tsnrepro doctor",
        )

    def _final_state(self) -> ClockSync | ClockSyncFailure:
        """Return the synchronization after a block: a failure if a program has ended."""
        try:
            self._check_running()
        except TestbedError as error:
            return ClockSyncFailure(str(error))
        return self._compare()

    def _compare(self) -> ClockSync | ClockSyncFailure:
        services = None
        if (ptp := self._settings) is not None:
            by_card = ptp.time_stamping == "hardware" and not ptp.free_running
            service = TimeService(_SOCKET, ptp.domain, 0, _LOG if by_card else None)
            services = (service, service)
        talker, listener = self._hosts[TALKER], self._hosts[LISTENER]
        programs = (self._program, self._program)
        try:
            sync = compare_clocks(talker, listener, programs, services)
            if services and INLINE_SWITCH in self._hosts and isinstance(sync, ClockSync):
                sync = add_switch(sync, ptp_state(self._hosts[INLINE_SWITCH], services[0]))
            return self._add_stamping_cards(sync)
        except (CommandError, ToolError) as error:  # linuxptp has only just started
            return ClockSyncFailure(str(error))

    def _add_stamping_cards(
        self, sync: ClockSync | ClockSyncFailure
    ) -> ClockSync | ClockSyncFailure:
        """Add the uncertainty of the cards that stamp received frames."""
        for role in self._stamping:
            if isinstance(sync, ClockSync):
                service = TimeService(phc2sys_log=_STAMPING_LOG)
                sync = add_stamping_card(sync, phc2sys_offsets(self._hosts[role], service))
        return sync

    def _check_running(self) -> None:
        for name, process in self._running.items():
            if not process.running:
                completed = process.wait()
                output = (completed.stderr.strip() or completed.stdout.strip())[-300:]
                raise TestbedError(f"ended unexpectedly: {output}", name)


def _folder_of(role: str) -> str:
    """Return the folder to remove: a switch has none of our programs in it."""
    return programs.FOLDER if role == INLINE_SWITCH else _FOLDER


def ptp4l_configuration(ptp: PtpSettings, role: str, cards: Sequence[str]) -> str:
    """Return the configuration file of a host's ptp4l, see ptp4l(8)."""
    text = _GLOBAL.format(
        stamping=ptp.time_stamping,
        domain=ptp.domain,
        priority=_PRIORITY[role],
        free_running=int(ptp.free_running),
        socket=_SOCKET,
    )
    text += _SWITCH_OPTIONS if role == INLINE_SWITCH else ""
    return text + "".join(f"[{card}]\n" for card in cards)


def linuxptp_commands(
    ptp: PtpSettings, role: str, cards: Sequence[str], tai_ahead_s: int
) -> dict[str, list[str]]:
    """Return the commands of linuxptp on a host, by the programs' names."""
    commands = {"ptp4l": ["ptp4l", "-f", _CONFIGURATION]}
    if ptp.time_stamping == "hardware" and not ptp.free_running and role != INLINE_SWITCH:
        argv = _phc2sys(role, cards[0], tai_ahead_s)
        commands["phc2sys"] = ["sh", "-c", _LOGGED, "sh", _LOG, *argv]
    return commands


def stamping_command(card: str, tai_ahead_s: int) -> dict[str, list[str]]:
    """Return the command that sets a card that stamps received frames to the system clock's TAI."""
    argv = _phc2sys(TALKER, card, tai_ahead_s)
    return {"phc2sys_stamping": ["sh", "-c", _LOGGED, "sh", _STAMPING_LOG, *argv]}


def command_lines(
    ptp: PtpSettings, role: str, cards: Sequence[str], stamping: str | None = None
) -> tuple[list[str], list[str]]:
    """Return the command lines that start linuxptp on a host, and those that stop it.

    phc2sys takes the offset of TAI from the host's kernel; here it is that since 2017.
    """
    write = [
        "sh",
        "-c",
        f'printf %s "$1" >{_CONFIGURATION}',
        "sh",
        ptp4l_configuration(ptp, role, cards),
    ]
    running = linuxptp_commands(ptp, role, cards, _TAI_AHEAD_S)
    if stamping:
        running |= stamping_command(stamping, _TAI_AHEAD_S)
    first = [command_line(role, argv) for argv in (["mkdir", "-p", _FOLDER], write)]
    started = [f"{command_line(role, argv)} & {name}=$!" for name, argv in running.items()]
    ended = [f"{role}# kill -TERM ${name}" for name in reversed(running)]
    return [*first, *started], [*ended, command_line(role, ["rm", "-rf", _folder_of(role)])]


def _phc2sys(role: str, card: str, tai_ahead_s: int) -> list[str]:
    """Return the command that synchronizes a host's system clock and its card.

    The card is on TAI, which is ``tai_ahead_s`` ahead of the system's UTC.
    """
    system = "CLOCK_REALTIME"
    if role == TALKER:
        return phc2sys(system, card, tai_ahead_s)
    return phc2sys(card, system, -tai_ahead_s)


def _run_quietly(host: RemoteHost, argv: list[str]) -> None:
    with suppress(CommandError):
        host.run(argv, deadline_s=COMMAND_SECONDS)
