"""The trace of drops goes on from trial to trial: what it still has of others is not this one's."""

from dataclasses import replace

from test_accounting_apart import WHOLE, snapshot

from tsnrepro.records.accounting import account
from tsnrepro.tools.frerctl import Drops


def unread(stream, frames):
    """Return datagrams that a program left in its socket, which then know no device."""
    return Drops("udp_destruct_sock", "NOT_SPECIFIED", 0, 0, False, frames, stream)


def test_what_an_earlier_trial_of_several_streams_left_unread_is_not_of_this_one():
    earlier = [unread(0, 5), unread(1, 93)]
    before = replace(snapshot(), drops=earlier, apart=False)
    after = replace(snapshot(WHOLE), drops=earlier, apart=False)
    found = account(before, after, 1000, 1000, {}.get)
    assert (found.unaccounted, found.unread) == (0, 0)
