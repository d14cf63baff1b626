"""Rollback of what a job or a campaign changed on hosts, also after it was killed.

A job undoes its own changes by a :class:`Rollback`. A campaign on leased hosts saves their state
to a :class:`Journal` before the first change: the next campaign, or ``tsnrepro restore``, restores
it if the campaign was killed.
"""

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from tsnrepro.common.errors import ConfigurationError, RecordError, TsnreproError
from tsnrepro.common.repository import root
from tsnrepro.config import parse
from tsnrepro.config.base import ConfigModel
from tsnrepro.config.rack import ReachedHosts
from tsnrepro.records.files import read_json_object
from tsnrepro.testbeds.hosts.lease import HostLease, TestbedLock
from tsnrepro.testbeds.hosts.remote import RemoteHosts, Unreachable
from tsnrepro.testbeds.hosts.shell import CommandSink

Hosts = TypeVar("Hosts", bound=RemoteHosts)
Settings = TypeVar("Settings", bound=ReachedHosts)
Checked = TypeVar("Checked", bound=ConfigModel)

_KEYS = {"settings": dict, "token": str, "state": dict | None}
_RESET = "Reboot the testbed's hosts and switches, which resets them, and remove this file"


class Rollback(ExitStack):
    """Deferred actions that undo a job's changes, in reverse order, however it ends.

    All of them run: a failure neither skips the others nor replaces an earlier error.

    ``failures``: errors of the actions, once they have run.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[TsnreproError] = []

    def defer(self, action: Callable[..., Any], *arguments: Any) -> None:
        """Call ``action`` at the end."""

        def run(_kind: object, error: object, _trace: object) -> None:
            try:
                action(*arguments)
            except TsnreproError as failure:
                self.failures.append(failure)
                if error is None:
                    raise

        self.push(run)


class Journal:
    """Saved state of a testbed's hosts: a file on this machine until the state is restored.

    It includes the settings by which the hosts were reached, so that editing the testbed's file
    does not prevent a rollback. Private keys are named in it, not stored.
    """

    def __init__(self, testbed: str, folder: Path | None = None) -> None:
        self.testbed = testbed
        self.path = (folder or root() / "data" / "racks") / f"{testbed}.json"

    def write(self, entry: dict[str, Any]) -> None:
        """Write the file atomically; after this returns it survives a power failure."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial_file = self.path.with_suffix(".partial")
        descriptor = os.open(partial_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(entry, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial_file.rename(self.path)
        self._sync_folder()

    def read(self) -> dict[str, Any] | None:
        """Return the last entry, None if there is nothing to restore.

        Raises RecordError if the file is damaged.
        """
        if not os.path.lexists(self.path):
            return None
        what, remedy = f"the saved state of {self.testbed} cannot be read", _RESET
        entry = read_json_object(self.path, what, remedy)
        if damaged := [k for k, kind in _KEYS.items() if not isinstance(entry.get(k, ...), kind)]:
            raise RecordError(f"{what}: no valid {', '.join(damaged)}", str(self.path), remedy)
        return entry

    def settings(self, entry: dict[str, Any], model: type[Checked]) -> Checked:
        """Return the settings of an entry as a checked model.

        Raises ConfigurationError if they are damaged.
        """
        try:
            return parse(model, entry["settings"], str(self.path), from_record=True)
        except ConfigurationError as error:
            remedy = f"Correct its `settings` by config/testbeds/{self.testbed}.yaml"
            raise ConfigurationError(error.what, error.where, remedy) from error

    def remove(self) -> None:
        """Remove the file: the hosts are in their original state."""
        self.path.unlink(missing_ok=True)
        self._sync_folder()

    def _sync_folder(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class LeasedHosts(Generic[Hosts]):
    """Hosts leased for a ``with`` block and restored at its end.

    The state that a killed campaign left is rolled back first.

    ``settings``: settings of the testbed. ``journal``: journal of the testbed; the lock has the
    same name. ``purpose``: purpose of the campaign, for others who find the hosts leased.
    ``connect``: connects to the hosts; the stack closes the connections. ``rollback``: rolls back
    what a killed campaign left.
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
        self._connect, self._roll_back = connect, rollback
        self._stack, self._undo = ExitStack(), ExitStack()

    def __enter__(self) -> Hosts:
        try:
            return self._acquire()
        except BaseException:
            self._stack.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _acquire(self) -> Hosts:
        self._stack.enter_context(TestbedLock(self._journal.testbed, self._purpose))
        self._roll_back()
        hosts = self._connect(self._stack)
        self._stack.enter_context(self._undo)
        self._lease = HostLease(hosts.shells, self._settings.lease_minutes, self._purpose)
        settings = self._settings.model_dump(mode="json")
        entry = {"settings": settings, "token": self._lease.token, "state": None}
        # Before the lease, so that a rollback after a kill finds its token.
        self._journal.write(entry)
        try:
            self._lease.acquire()
        except BaseException:
            self._journal.remove()
            raise
        self._undo.callback(self._release)
        # Ends before anything is undone, and also if the hosts stay configured.
        self._stack.enter_context(self._lease.renewed_in_background())
        state = hosts.save()
        hosts.check(state)
        self._journal.write(entry | {"state": state})
        # In reverse order: the state is removed only once it is restored.
        self._undo.callback(partial(_restore, hosts, state, self._journal, entry))
        return hosts

    def _release(self) -> None:
        """Release the lease, then remove the journal if the state was restored.

        In this order: while the journal has its token, a lease left by a kill can be released.
        """
        self._lease.release()
        entry = self._journal.read()
        if entry is not None and entry["state"] is None:
            self._journal.remove()

    def renew(self) -> None:
        """Renew the lease, see :meth:`HostLease.renew`."""
        self._lease.renew()

    def keep_configured(self) -> None:
        """Leave the hosts configured and leased at the end; the journal keeps their state."""
        self._undo.pop_all()


def _restore(
    hosts: RemoteHosts, state: dict[str, Any], journal: Journal, leased: dict[str, Any]
) -> None:
    """Restore the hosts' state; the journal then has the lease alone."""
    hosts.restore(state)
    journal.write(leased)


def roll_back(
    journal: Journal,
    model: type[Settings],
    connect: Callable[[Settings, ExitStack, CommandSink | None, Unreachable], RemoteHosts],
    purpose: str,
    sink: CommandSink | None = None,
) -> bool:
    """Restore the state of hosts from before a campaign that was killed.

    ``journal``: journal of the testbed; ``model``: model of the testbed's settings, which the
    journal includes; ``purpose``: purpose of the lease meanwhile; ``sink``: receives the commands
    instead of the hosts, for a dry run. Returns whether there was anything to restore. Raises
    TestbedError if a host cannot be reached, is leased by another, or differs from its saved state.
    Those that can be reached are restored and released.
    """
    entry = journal.read()
    if entry is None:
        return False
    settings = journal.settings(entry, model)
    unreachable: Unreachable = {}
    with ExitStack() as stack:
        hosts = connect(settings, stack, sink, unreachable)
        lease = HostLease(hosts.shells, settings.lease_minutes, purpose, entry["token"])
        if sink is None:
            lease.acquire()
            stack.callback(lease.release)
        if entry["state"] is not None and hosts.shells:
            hosts.restore(entry["state"])
        elif unreachable:
            raise next(iter(unreachable.values()))
    if sink is None:
        journal.remove()
    return True
