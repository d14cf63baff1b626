"""The model's counts in the terms of the records: places, recovery counters, seeds."""

from tsnrepro.model.network import Network
from tsnrepro.model.result import Result, StreamResult
from tsnrepro.records.accounting import (
    REASSEMBLY,
    SOCKET_BUFFER,
    SOCKET_CLOSED,
    STACK,
    Accounting,
)
from tsnrepro.records.store import Trial
from tsnrepro.testbed.model import LISTENER_LINK, TALKER, TALKER_LINK, ModelTestbed


def seed_of(testbed: ModelTestbed, trial: Trial) -> int:
    """Return the seed of a trial's chances: each trial of a campaign has its own."""
    return int(trial.digest, 16) ^ testbed.seed


def recovery_of(result: Result, stream: str) -> dict[str, int] | None:
    """Return the clause 10 counters of a stream's recovery function, None without one."""
    found = [r.counters for r in result.recoveries if (r.stream, r.member) == (stream, None)]
    return found[0] if found else None


def account(network: Network, stream: StreamResult, result: Result) -> Accounting:
    """Return where a stream's frames went, by the places of the emulated testbed.

    Counted are frames: datagrams, unless a datagram is several frames.
    """
    ledger, parts = stream.frames, stream.fragments
    drops = {"talker socket": 0, "talker queue": _at(ledger.queue_drops, f"{TALKER}:{TALKER_LINK}")}
    members = [link.name for link in network.links if (link.a, link.b) == ("sw1", "sw2")]
    for member in members:
        drops[f"sw1 queue {member}"] = _at(ledger.queue_drops, f"sw1:{member}")
        lost = _at(ledger.lost_random, f"sw1:{member}") + _at(ledger.lost_down, f"sw1:{member}")
        drops[f"path {member}"] = lost
    drops["sw2 queue p0"] = _at(ledger.queue_drops, f"sw2:{LISTENER_LINK}")
    refused = recovery_of(result, stream.name) or {}
    drops["recovery: rogue"] = refused.get("rogue", 0)
    drops["recovery: tagless"] = refused.get("tagless", 0)
    drops[SOCKET_BUFFER] = stream.receiver_socket_drops * parts
    read = stream.delivered * parts
    drops[REASSEMBLY] = ledger.taken - read - drops[SOCKET_BUFFER]
    # The card's ring overflows where the stack is too slow; no program closes its socket early.
    drops |= {STACK: ledger.nic_drops, SOCKET_CLOSED: 0, "still on the way": ledger.left}
    return Accounting(
        sent=ledger.entered,
        copies=ledger.copied,
        received=read,
        eliminated=ledger.eliminated - drops["recovery: rogue"] - drops["recovery: tagless"],
        drops=drops,
    )


def _at(counts: dict[str, int], place: str) -> int:
    return counts.get(place, 0)
