"""Somebody's hosts while a campaign has them: reserved, changed, and as they were at the end."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Generic, TypeVar

from tsnrepro.config import parse
from tsnrepro.config.rack import ReachedHosts
from tsnrepro.testbeds.lock import TestbedLock
from tsnrepro.testbeds.rack.connections import Connected
from tsnrepro.testbeds.rack.journal import Journal
from tsnrepro.testbeds.rack.lease import Reservation
from tsnrepro.testbeds.rack.shell import CommandSink

Hosts = TypeVar("Hosts", bound=Connected)
Settings = TypeVar("Settings", bound=ReachedHosts)


class HostLease(Generic[Hosts]):
    """Hosts from ``with`` to its end; what a campaign that was killed has left is put back first.

    Parameters
    ----------
    settings
        Of the testbed.
    journal
        Of the testbed, whose name the lock bears too.
    purpose
        What for, as others are told who want the hosts meanwhile.
    connect
        Connects the hosts; the stack closes the connections.
    put_back
        Puts back what a killed campaign has left.
    """

    def __init__(
        self,
        settings: ReachedHosts,
        journal: Journal,
        purpose: str,
        connect: Callable[[ExitStack], Hosts],
        rollback: Callable[[], object],
    ) -> None:
        self._settings, self._journal, self._purpose = settings, journal, purpose
        self._connect, self._put_back = connect, rollback
        self._stack, self._undoing = ExitStack(), ExitStack()

    def __enter__(self) -> Hosts:
        try:
            return self._take()
        except BaseException:
            self._stack.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _take(self) -> Hosts:
        self._stack.enter_context(TestbedLock(self._journal.testbed, self._purpose))
        self._put_back()
        hosts = self._connect(self._stack)
        self._stack.enter_context(self._undoing)
        self._reservation = Reservation(hosts.shells, self._settings.lease_minutes, self._purpose)
        settings = self._settings.model_dump(mode="json")
        entry = {"settings": settings, "token": self._reservation.token, "state": None}
        # First, so that whoever finds our reservation after we were killed knows it for ours.
        self._journal.write(entry)
        try:
            self._reservation.take()
        except BaseException:
            self._journal.remove()
            raise
        self._undoing.callback(self._release)
        # Ends before anything is undone, and also where the hosts are left as they are.
        self._stack.enter_context(self._reservation.kept())
        state = hosts.save()
        hosts.refuse(state)
        self._journal.write(entry | {"state": state})
        # In the reverse order: restored first, and forgotten only if that succeeded.
        self._undoing.callback(partial(_undo, hosts, state, self._journal, entry))
        return hosts

    def _release(self) -> None:
        """Let the hosts go, and forget them where they are as they were.

        Last of all: as long as the journal has its token, a reservation of one that was killed is
        found for ours.
        """
        self._reservation.release()
        entry = self._journal.read()
        if entry is not None and entry["state"] is None:
            self._journal.remove()

    def renew(self) -> None:
        """Give the reservation a sign of life, now and then."""
        self._reservation.renew()

    def leave_as_they_are(self) -> None:
        """Let the hosts stay set up, and reserved, when this ends; the journal remembers them."""
        self._undoing.pop_all()


def _undo(
    hosts: Connected, state: dict[str, Any], journal: Journal, reserved: dict[str, Any]
) -> None:
    """Bring the hosts back; what the journal says then is that they are reserved, no more."""
    hosts.restore(state)
    journal.write(reserved)


def rollback(
    journal: Journal,
    model: type[Settings],
    connect: Callable[[Settings, ExitStack, CommandSink | None], Connected],
    purpose: str,
    tell: CommandSink | None = None,
) -> bool:
    """Bring hosts back to what they were before a campaign that did not end.

    Parameters
    ----------
    journal
        Of the testbed.
    model
        Of the testbed's settings, which the journal holds as they were.
    connect
        Connects the hosts.
    purpose
        What for, as others are told who want the hosts meanwhile.
    tell
        Where commands are told instead of run.

    Returns
    -------
    bool
        Whether there was something to bring back.

    Raises
    ------
    TestbedError
        A host cannot be reached, is meanwhile reserved by somebody else, or is not as it was.
    """
    entry = journal.read()
    if entry is None:
        return False
    settings = parse(model, entry["settings"], str(journal.path), from_record=True)
    with ExitStack() as stack:
        hosts = connect(settings, stack, tell)
        reserved = Reservation(hosts.shells, settings.lease_minutes, purpose, entry["token"])
        if tell is None:
            reserved.take()
            stack.callback(reserved.release)
        if entry["state"] is not None:
            hosts.restore(entry["state"])
    if tell is None:
        journal.remove()
    return True
