"""Small networks that several tests of the model use."""

from tsnrepro.model.network import (
    DuplexLink,
    Duration,
    EgressPort,
    EndStation,
    Network,
    Recovery,
    Replicated,
    SinglePath,
    Switch,
    TrafficStream,
)

ROOMY = EgressPort(queue_bytes=4_000_000)
HOST = EndStation(port=ROOMY, send_buffer_bytes=3_000_000, receive_buffer_bytes=3_000_000)


def one_hop(streams, *, port=ROOMY, host=HOST, link=None, listener=HOST):
    """A talker and a listener on one link; ``streams`` are (send, payload, priority) triples."""
    link = link or DuplexLink(name="wire", a="talker", b="listener")
    return Network(
        hosts={"talker": host.model_copy(update={"port": port}), "listener": listener},
        links=[link],
        streams=[
            TrafficStream(
                name=f"s{number}",
                talker="talker",
                listener="listener",
                payload_bytes=payload,
                send=send,
                route=SinglePath(links=[link.name]),
                priority=priority,
            )
            for number, (send, payload, priority) in enumerate(streams)
        ],
    )


def two_switches(send, payload, members, *, host=HOST, switch_port=ROOMY, **options):
    """Talker, switch, one link (or several in a row) for each member path, switch, listener.

    ``members`` is a list of paths, each a list of DuplexLink arguments; without ``recovery`` among
    the options, the only path is used without FRER.
    """
    recovery = options.pop("recovery", None)
    processing_ns = options.pop("processing_ns", 0.0)
    access = options.pop("access_mbps", 1000.0)
    names, links, switches = [], [], {"first", "second"}
    for number, hops in enumerate(members):
        nodes = ["first", *[f"mid-{number}-{hop}" for hop in range(1, len(hops))], "second"]
        switches |= set(nodes)
        names.append([f"path-{number}-{hop}" for hop in range(len(hops))])
        links += [
            DuplexLink(name=name, a=a, b=b, **arguments)
            for name, a, b, arguments in zip(names[-1], nodes, nodes[1:], hops, strict=False)
        ]
    route = SinglePath(links=["in", *names[0], "out"])
    if recovery is not None:
        route = Replicated(before=["in"], members=names, after=["out"], recovery=recovery)
    return Network(
        hosts={"talker": host, "listener": options.pop("listener", HOST)},
        switches={name: Switch(port=switch_port, processing_ns=processing_ns) for name in switches},
        links=[
            DuplexLink(name="in", a="talker", b="first", rate_mbps=access),
            *links,
            DuplexLink(name="out", a="second", b="listener", rate_mbps=access),
        ],
        streams=[
            TrafficStream(
                name="s0",
                talker="talker",
                listener="listener",
                payload_bytes=payload,
                send=send,
                route=route,
                **options,
            )
        ],
    )


def exponential(mean_ns):
    return Duration(mean_ns=mean_ns, distribution="erlang", shape=1)


VECTOR = Recovery(algorithm="vector", history_length=64)
