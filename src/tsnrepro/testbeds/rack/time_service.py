"""linuxptp on hosts that cables join: started, waited for, watched and stopped.

The talker's clock is the grandmaster. With stamps of the cards, ptp4l keeps the listener's card on
the talker's; phc2sys carries the time from the talker's system to its card, and from the listener's
card to its system. With stamps of the kernel ptp4l keeps the listener's system clock itself. A
board between the two is a boundary clock (IEEE Std 1588-2019): its own clock, which its gates go
by, follows the talker's card, and the listener's card follows it. No phc2sys runs on it.

While ptp4l runs with stamps of the cards, igb and igc stamp every frame that arrives, not only
PTP's: they know no other filter.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from tsnrepro.common.errors import CommandError, TestbedError, ToolError
from tsnrepro.common.topology import LISTENER, TALKER
from tsnrepro.config.ptp import PtpSettings
from tsnrepro.testbeds.clocks import (
    ClockSync,
    ClockSyncFailure,
    TimeService,
    clock_agreement,
    judge_between,
    judge_stamping,
    phc2sys_offsets,
    ptp_state,
    read_clocks,
)
from tsnrepro.testbeds.host import RemoteHost, RemoteProcess
from tsnrepro.testbeds.rack import programs
from tsnrepro.testbeds.rack.shell import as_line

_BOARD = "sw"

# Where it goes with the programs, also after a kill.
_FOLDER = f"{programs.FOLDER}/linuxptp"
_CONFIGURATION, _SOCKET, _LOG = (f"{_FOLDER}/{n}" for n in ("ptp4l.conf", "ptp4l", "phc2sys.log"))
_STAMPING_LOG = f"{_FOLDER}/stamping.log"
_LOOK_SECONDS = 1.0
_TAI_AHEAD_S = 37
_COMMAND_SECONDS = 20
# Lower wins: the talker is the grandmaster.
_PRIORITY = {TALKER: 100, _BOARD: 150, LISTENER: 200}
# Ahead of a load that waits at the same port (ptp4l(8)).
_OF_BOARD = "socket_priority 7\n"
# Eight messages a second: the clocks are together in some seconds.
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


class ClockKeeper:
    """Keeps the clocks of a pair together during a block.

    Parameters
    ----------
    hosts
        The talker and the listener, and the board between them where one is.
    cards
        Their ports.
    program
        Path of a talker or listener program on each, which tells its clocks.
    settings
        Of linuxptp; None where the clocks are kept together otherwise, or are one.
    stamping
        Cards that stamp arrivals and that linuxptp does not speak over, by their hosts' roles: each
        is kept on its system's clock.
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
    def together(self, longest_s: float) -> Iterator[list[ClockSync | ClockSyncFailure]]:
        """Keep the clocks together for ``longest_s`` at most.

        The block begins when they agree. It gets a list, which holds how well they agreed before
        it and, once it has ended, after it too: a refusal where they no longer do, since what was
        measured meanwhile may be worth something without.

        Raises
        ------
        TestbedError
            They do not agree in time, or a program of linuxptp ended before they did.
        """
        with ExitStack() as stack:
            if self._settings:
                self._start(self._settings, longest_s, stack)
            agreed: list[ClockSync | ClockSyncFailure] = [self._wait()]
            yield agreed
            agreed.append(self._still_agreed())

    def _start(self, ptp: PtpSettings, longest_s: float, stack: ExitStack) -> None:
        deadline_s = longest_s + ptp.lock_timeout_s + _COMMAND_SECONDS
        ahead_s = read_clocks(self._hosts[TALKER], self._program).tai_offset_s
        for role, host in self._hosts.items():
            host.run(["mkdir", "-p", _FOLDER], deadline_s=_COMMAND_SECONDS).check()
            stack.callback(_run_quietly, host, ["rm", "-rf", _folder_of(role)])
            text = configuration(ptp, role, self._cards[role])
            host.write(_CONFIGURATION, text.encode(), deadline_s=_COMMAND_SECONDS)
            commands = programs_of(ptp, role, self._cards[role], ahead_s)
            if role in self._stamping:
                commands |= stamping_program(self._stamping[role], ahead_s)
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
        """Wait until the clocks agree as closely as is asked for."""
        ptp = self._settings
        end = time.monotonic() + (ptp.lock_timeout_s if ptp else 0.0)
        most_ns = ptp.max_clock_error_ns if ptp else float("inf")
        while True:
            self._see_that_all_run()
            found = self._agreement()
            if isinstance(found, ClockSync) and found.uncertainty_ns <= most_ns:
                return found
            if time.monotonic() >= end:
                break
            time.sleep(_LOOK_SECONDS)
        if isinstance(found, ClockSync):
            reason = f"only within {found.uncertainty_ns:.0f} ns, and {most_ns} are asked for"
        else:
            reason = found.reason
        raise TestbedError(
            f"the clocks do not agree: {reason}",
            "linuxptp" if ptp else "talker and listener",
            "Look at the cable and at the cards' clocks: tsnrepro doctor",
        )

    def _still_agreed(self) -> ClockSync | ClockSyncFailure:
        """Return how well the clocks agree after a block; not at all where a program ended."""
        try:
            self._see_that_all_run()
        except TestbedError as error:
            return ClockSyncFailure(str(error))
        return self._agreement()

    def _agreement(self) -> ClockSync | ClockSyncFailure:
        services = None
        if (ptp := self._settings) is not None:
            carried = ptp.time_stamping == "hardware" and not ptp.free_running
            service = TimeService(_SOCKET, ptp.domain, 0, _LOG if carried else None)
            services = (service, service)
        talker, listener = self._hosts[TALKER], self._hosts[LISTENER]
        programs = (self._program, self._program)
        try:
            found = clock_agreement(talker, listener, programs, services)
            if services and _BOARD in self._hosts and isinstance(found, ClockSync):
                found = judge_between(found, ptp_state(self._hosts[_BOARD], services[0]))
            return self._with_stamping(found)
        except (CommandError, ToolError) as error:  # linuxptp that has only just begun
            return ClockSyncFailure(str(error))

    def _with_stamping(self, found: ClockSync | ClockSyncFailure) -> ClockSync | ClockSyncFailure:
        """Add the doubt about the cards that stamp arrivals."""
        for role in self._stamping:
            if isinstance(found, ClockSync):
                service = TimeService(phc2sys_log=_STAMPING_LOG)
                found = judge_stamping(found, phc2sys_offsets(self._hosts[role], service))
        return found

    def _see_that_all_run(self) -> None:
        for name, process in self._running.items():
            if not process.running:
                said = process.wait()
                told = (said.stderr.strip() or said.stdout.strip())[-300:]
                raise TestbedError(f"it ended by itself: {told}", name)


def _folder_of(role: str) -> str:
    """Return the folder to remove: on a board there is nothing else in that of the programs."""
    return programs.FOLDER if role == _BOARD else _FOLDER


def configuration(ptp: PtpSettings, role: str, cards: Sequence[str]) -> str:
    """Return ptp4l's configuration file for a host, in the words of ptp4l(8)."""
    told = _GLOBAL.format(
        stamping=ptp.time_stamping,
        domain=ptp.domain,
        priority=_PRIORITY[role],
        free_running=int(ptp.free_running),
        socket=_SOCKET,
    )
    told += _OF_BOARD if role == _BOARD else ""
    return told + "".join(f"[{card}]\n" for card in cards)


def programs_of(
    ptp: PtpSettings, role: str, cards: Sequence[str], tai_ahead_s: int
) -> dict[str, list[str]]:
    """Return the commands of linuxptp that run on a host, by their programs' names."""
    commands = {"ptp4l": ["ptp4l", "-f", _CONFIGURATION]}
    if ptp.time_stamping == "hardware" and not ptp.free_running and role != _BOARD:
        carried = phc2sys(role, cards[0], tai_ahead_s)
        commands["phc2sys"] = ["sh", "-c", _LOGGED, "sh", _LOG, *carried]
    return commands


def stamping_program(card: str, tai_ahead_s: int) -> dict[str, list[str]]:
    """Return the command that keeps a card which stamps arrivals on its system's clock, in TAI."""
    carried = phc2sys(TALKER, card, tai_ahead_s)
    return {"phc2sys_stamping": ["sh", "-c", _LOGGED, "sh", _STAMPING_LOG, *carried]}


def told(
    ptp: PtpSettings, role: str, cards: Sequence[str], stamping: str | None = None
) -> tuple[list[str], list[str]]:
    """Return the lines that start linuxptp on a host, and those that end it and clear up.

    phc2sys is told TAI's lead as the host's kernel knows it; here it is that of 2017 and after.
    """
    write = ["sh", "-c", f'printf %s "$1" >{_CONFIGURATION}', "sh", configuration(ptp, role, cards)]
    running = programs_of(ptp, role, cards, _TAI_AHEAD_S)
    if stamping:
        running |= stamping_program(stamping, _TAI_AHEAD_S)
    first = [as_line(role, argv) for argv in (["mkdir", "-p", _FOLDER], write)]
    started = [f"{as_line(role, argv)} & {name}=$!" for name, argv in running.items()]
    ended = [f"{role}# kill -TERM ${name}" for name in reversed(running)]
    return [*first, *started], [*ended, as_line(role, ["rm", "-rf", _folder_of(role)])]


def phc2sys(role: str, card: str, tai_ahead_s: int) -> list[str]:
    """Return the command that joins a host's system clock and its card's.

    The words are those of phc2sys(8). The card keeps TAI, which is ``tai_ahead_s`` ahead of the
    system's UTC.
    """
    system = "CLOCK_REALTIME"
    source, sink, ahead_s = (
        (system, card, tai_ahead_s) if role == TALKER else (card, system, -tai_ahead_s)
    )
    return ["phc2sys", "-s", source, "-c", sink, "-O", str(ahead_s), "-R", "8", "-m"]


def _run_quietly(host: RemoteHost, argv: list[str]) -> None:
    with suppress(CommandError):
        host.run(argv, deadline_s=_COMMAND_SECONDS)
