"""A timeline of faults as properties of the model's network and of a stream's route."""

from typing import Any

from tsnrepro.common.topology import LISTENER, SWITCHES
from tsnrepro.model.network import (
    DuplexLink,
    Duplication,
    LatentErrors,
    Network,
    RandomLoss,
    Replicated,
    SequenceFaults,
    SinglePath,
    Span,
)
from tsnrepro.runner.faults import Fault, Timeline

_NANO = 1e9


def faulty_network(network: Network, timeline: Timeline) -> Network:
    """Return a network whose member links fail as the timeline says.

    Raises
    ------
    ValueError
        A link is impaired in two ways, one after the other, which the model does not know.
    """
    links = {link.name: link for link in network.links}
    members = [name for name, link in links.items() if (link.a, link.b) == SWITCHES]
    for path, name in enumerate(members):
        links[name] = _faulty_link(links[name], [f for f in timeline.faults if f.path == path])
    return network.model_copy(update={"links": list(links.values())})


def _faulty_link(link: DuplexLink, faults: list[Fault]) -> DuplexLink:
    """Return a link with its cuts, losses and copies."""
    impaired = [fault for fault in faults if fault.kind == "impair"]
    begins = [f for f in impaired if f.loss_percent or f.duplicate_percent]
    if len(begins) > 1:
        raise ValueError(f"link {link.name} is impaired twice")
    values: dict[str, Any] = {"failures": _spans(faults, "cut", "repair")}
    for fault in begins:
        ends = [f.at_s for f in impaired if f.at_s > fault.at_s]
        span = {"from_ns": _ns(fault.at_s), "until_ns": _ns(ends[0]) if ends else None}
        if fault.loss_percent:
            values["loss"] = RandomLoss(probability=fault.loss_percent / 100, **span)
        if fault.duplicate_percent:
            values["duplication"] = Duplication(probability=fault.duplicate_percent / 100, **span)
    return link.model_copy(update=values)


def faulty_route(route: SinglePath | Replicated, timeline: Timeline) -> SinglePath | Replicated:
    """Return a stream's route with what befalls its sequence functions; a single path has none."""
    if isinstance(route, SinglePath):
        return route
    restarts = [fault for fault in timeline.faults if fault.kind == "restart"]
    # Where the listener eliminates, the second switch has no recovery function to restart.
    recovering = SWITCHES[1] if route.after else LISTENER
    faults = SequenceFaults(
        stuck=_spans(list(timeline.faults), "stick", "free"),
        generator_restarts_ns=[_ns(f.at_s) for f in restarts if f.switch == "sw1"],
        recovery_restarts_ns=[_ns(f.at_s) for f in restarts if f.switch == recovering],
    )
    latent = timeline.latent and LatentErrors(**timeline.latent.model_dump())
    return route.model_copy(update={"faults": faults, "latent_errors": latent})


def _spans(faults: list[Fault], begin: str, end: str) -> list[Span]:
    """Return the times between each beginning and the end that follows it."""
    ends = [fault.at_s for fault in faults if fault.kind == end]
    spans = []
    for fault in faults:
        if fault.kind == begin:
            until = [at for at in ends if at > fault.at_s]
            spans.append(Span(from_ns=_ns(fault.at_s), until_ns=_ns(until[0]) if until else None))
    return spans


def _ns(seconds: float) -> int:
    return round(seconds * _NANO)
