"""The trace of drops continues over trials: drops of earlier trials do not count."""

from dataclasses import replace

from test_accounting_separate import WHOLE, snapshot

from tsnrepro.records.accounting import account
from tsnrepro.tools.frerctl import Drops


def unread(stream, frames):
    """Return drops of datagrams that a program left unread, which have no device."""
    return Drops("udp_destruct_sock", "NOT_SPECIFIED", 0, 0, False, frames, stream)


def test_unread_datagrams_of_an_earlier_trial_do_not_count():
    earlier = [unread(0, 5), unread(1, 93)]
    before = replace(snapshot(), drops=earlier, apart=False)
    after = replace(snapshot(WHOLE), drops=earlier, apart=False)
    found = account(before, after, 1000, 1000, {}.get)
    assert (found.unaccounted, found.unread) == (0, 0)
