"""The graph of a network: elements, flows, hops and edges, and the order of service.

An element is an egress port (node and link) or the receiving side of a host. In each window,
elements are served after those that feed them. Cycles (TCP and its acknowledgements, rings) are cut
at edges that take longer than a window to cross: a frame that enters such an edge in a window
arrives in a later one.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from tsnrepro.common.ethernet import (
    GAP_BYTES,
    PREAMBLE_BYTES,
    R_TAG_BYTES,
    tcp_frame,
    tcp_truesize,
    udp_frames,
    udp_truesizes,
)
from tsnrepro.model.network import (
    DuplexLink,
    EgressPort,
    Network,
    PingPong,
    Replicated,
    SinglePath,
    TcpBulk,
    TrafficStream,
    picoseconds,
    return_route,
)

_WINDOW_FRAMES = 512
"""Length of a window in shortest frames on the fastest link."""


@dataclass(frozen=True)
class Traffic:
    """The packets on one route: datagrams or segments of a stream, or their responses.

    ``returns`` is true for acknowledgements and answers. ``sender`` is the index of the traffic
    from the stream's talker.
    """

    index: int
    name: str
    stream: TrafficStream
    returns: bool
    talker: str
    listener: str
    route: SinglePath | Replicated
    frames: tuple[int, ...]
    truesizes: tuple[int, ...]
    sender: int


@dataclass(frozen=True)
class RouteFlow:
    """A stream on one part of its route; ``member`` is the number of the member path."""

    index: int
    traffic: Traffic
    part: str
    member: int | None
    frames: tuple[int, ...]


@dataclass(eq=False, kw_only=True)
class Element:
    """The receiving side of a host, or an egress port (:class:`Port`)."""

    node: str
    index: int = -1
    flows: list[RouteFlow] = field(default_factory=list)
    senders: list[Traffic] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The host's name."""
        return self.node

    @property
    def shortest_frame(self) -> int:
        """The smallest frame of all flows, in bytes."""
        return min(min(flow.frames) for flow in self.flows)


@dataclass(eq=False, kw_only=True)
class Port(Element):
    """An egress port, and the times of its link."""

    link: DuplexLink
    egress: EgressPort

    @property
    def name(self) -> str:
        """The port as node:link."""
        return f"{self.node}:{self.link.name}"

    @property
    def far_end(self) -> str:
        """The node at the other end of the port's link."""
        return self.link.b if self.node == self.link.a else self.link.a

    @property
    def delay_ps(self) -> int:
        """Propagation time from this port, in picoseconds."""
        backward = self.node == self.link.b and self.link.reverse_delay_ns is not None
        delay = self.link.reverse_delay_ns if backward else self.link.delay_ns
        return picoseconds(delay or 0.0)

    def line_ps(self, line_bytes: int) -> int:
        """Return the time of ``line_bytes`` on the link, in picoseconds, rounded up."""
        return -(-line_bytes * 8_000_000 * self._rate_mbps.denominator // self._rate_mbps.numerator)

    @cached_property
    def _rate_mbps(self) -> Fraction:
        return Fraction(self.link.rate_mbps).limit_denominator(10**6)

    @property
    def gap_ps(self) -> int:
        """The interpacket gap, in picoseconds."""
        return self.line_ps(GAP_BYTES)

    def done_ps(self, frame_bytes: int) -> int:
        """Return the time from the start of a frame to its last bit, in picoseconds."""
        return self.line_ps(frame_bytes + PREAMBLE_BYTES)

    @property
    def shortest_ps(self) -> int:
        """The shortest time between the starts of two frames."""
        return self.done_ps(self.shortest_frame) + self.gap_ps


@dataclass
class Hop:
    """The processing of a flow at an element."""

    outs: list[tuple[Element, RouteFlow]] = field(default_factory=list)
    splits: bool = False
    after: RouteFlow | None = None
    sender: int | None = None


@dataclass
class Edge:
    """A path of frames between two elements.

    ``to_sender`` is set for an edge within a host to the sender with this index, of
    acknowledgements or answers; ``answers`` for one from a host's process to its port, of the
    traffic with this index.
    """

    source: Element
    target: Element
    to_sender: int | None = None
    answers: int | None = None
    flows: list[RouteFlow] = field(default_factory=list)
    index: int = -1


class Graph:
    """The elements in the order of service, with their flows, hops and edges."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.traffic: list[Traffic] = []
        self.flows: list[RouteFlow] = []
        self.elements: list[Element] = []
        self.hops: dict[tuple[Element, int], Hop] = {}
        self.edges: list[Edge] = []
        self.window_ps = 0
        self._ports: dict[tuple[str, str], Port] = {}
        self._receivers: dict[str, Element] = {}
        self._edges: dict[tuple[Element, Element, int | None, int | None], Edge] = {}
        self._links = {link.name: link for link in network.links}

    def port(self, node: str, link: str) -> Port:
        """Return the port of ``node`` to ``link``, created once."""
        key = (node, link)
        if key not in self._ports:
            egress = self.network.port(node, link)
            self._ports[key] = Port(node=node, link=self._links[link], egress=egress)
            self.elements.append(self._ports[key])
        return self._ports[key]

    def receiver(self, host: str) -> Element:
        """Return the receiving side of a host, created once."""
        if host not in self._receivers:
            self._receivers[host] = Element(node=host)
            self.elements.append(self._receivers[host])
        return self._receivers[host]

    def hop(self, element: Element, flow: RouteFlow) -> Hop:
        """Return the hop of ``flow`` at ``element``, created once."""
        key = (element, flow.index)
        if key not in self.hops:
            self.hops[key] = Hop()
            element.flows.append(flow)
        return self.hops[key]

    def edge(
        self,
        source: Element,
        target: Element,
        to_sender: int | None = None,
        answers: int | None = None,
    ) -> Edge:
        """Return the edge between two elements, created once."""
        key = (source, target, to_sender, answers)
        if key not in self._edges:
            self._edges[key] = Edge(*key)
            self.edges.append(self._edges[key])
        return self._edges[key]

    def add_flow(
        self, traffic: Traffic, part: str, member: int | None = None, tagged: bool = False
    ) -> RouteFlow:
        """Add a flow of ``traffic``."""
        tag = R_TAG_BYTES if tagged else 0
        frames = tuple(size + tag for size in traffic.frames)
        flow = RouteFlow(len(self.flows), traffic, part, member, frames)
        self.flows.append(flow)
        return flow

    def look_ahead_ps(self, edge: Edge) -> int:
        """Return the shortest time from the selection of a frame to its arrival over the edge."""
        source = edge.source
        if not isinstance(source, Port):
            return 0
        return min(source.done_ps(min(flow.frames)) + self.ahead_ps(source) for flow in edge.flows)

    def ahead_ps(self, port: Port) -> int:
        """Return the time from a frame's last bit at the port to its arrival at the next one."""
        switch = self.network.switches.get(port.far_end)
        return port.delay_ps + (picoseconds(switch.processing_ns) if switch else 0)


def route_network(network: Network) -> Graph:
    """Return the graph of a network, its elements in order and its window set.

    Raises ValueError for a cycle of elements without delay.
    """
    graph = Graph(network)
    _add_traffic(graph)
    for traffic in graph.traffic:
        _lay_route(graph, traffic)
    for traffic in graph.traffic:
        if traffic.returns:
            _add_return_edges(graph, traffic)
    _sort_edges(graph)
    _order_elements(graph)
    return graph


def _add_traffic(graph: Graph) -> None:
    for stream in graph.network.streams:
        if isinstance(stream.send, TcpBulk):
            frames = (tcp_frame(stream.payload_bytes, vlan=stream.vlan),)
            truesizes = (tcp_truesize(stream.payload_bytes),)
        else:
            frames = udp_frames(stream.payload_bytes, vlan=stream.vlan)
            truesizes = udp_truesizes(stream.payload_bytes)
        graph.traffic.append(
            Traffic(
                index=len(graph.traffic),
                name=stream.name,
                stream=stream,
                returns=False,
                talker=stream.talker,
                listener=stream.listener,
                route=stream.route,
                frames=frames,
                truesizes=truesizes,
                sender=len(graph.traffic),
            )
        )
    for data in list(graph.traffic):
        if (back := return_route(data.stream)) is None:
            continue
        returning = replace(
            data,
            index=len(graph.traffic),
            name=f"{data.name}.answer",
            returns=True,
            talker=data.listener,
            listener=data.talker,
            route=back,
        )
        if isinstance(data.stream.send, TcpBulk):
            frames, truesizes = (tcp_frame(0, vlan=data.stream.vlan),), (tcp_truesize(0),)
            name = f"{data.name}.ack"
            returning = replace(returning, name=name, frames=frames, truesizes=truesizes)
        graph.traffic.append(returning)


def _lay_path(graph: Graph, flow: RouteFlow, start: str, links: list[str]) -> list[Port]:
    """Add a flow to its ports and return them."""
    nodes = graph.network.walk(flow.traffic.name, start, links)
    ports = [graph.port(node, link) for node, link in zip(nodes, links, strict=False)]
    for port, following in pairwise(ports):
        graph.hop(port, flow).outs.append((following, flow))
    if ports:
        graph.hop(ports[-1], flow)
    return ports


def _lay_route(graph: Graph, traffic: Traffic) -> None:
    receiver = graph.receiver(traffic.listener)
    route = traffic.route
    if isinstance(route, SinglePath):
        flow = graph.add_flow(traffic, "path")
        ports = _lay_path(graph, flow, traffic.talker, route.links)
        graph.hop(ports[-1], flow).outs.append((receiver, flow))
        graph.hop(receiver, flow)
        first, first_flow = ports[0], flow
    else:
        first, first_flow = _lay_replicated(graph, traffic, route, receiver)
    if not traffic.returns:
        first.senders.append(traffic)
        graph.hop(first, first_flow).sender = traffic.sender
    _add_edges(graph, traffic)


def _lay_replicated(
    graph: Graph, traffic: Traffic, route: Replicated, receiver: Element
) -> tuple[Element, RouteFlow]:
    before = graph.add_flow(traffic, "before")
    members = [
        graph.add_flow(traffic, "member", number, tagged=True)
        for number in range(len(route.members))
    ]
    after = graph.add_flow(traffic, "after")
    ports = _lay_path(graph, before, traffic.talker, route.before)
    split = ports[-1].far_end
    end = receiver
    meeting = graph.network.walk(traffic.name, split, route.members[0])[-1]
    trailing = _lay_path(graph, after, meeting, route.after)
    if trailing:
        end = trailing[0]
        graph.hop(trailing[-1], after).outs.append((receiver, after))
    graph.hop(end, after)
    graph.hop(receiver, after)
    splitting = graph.hop(ports[-1], before)
    splitting.splits = True
    for member, links in zip(members, route.members, strict=True):
        path = _lay_path(graph, member, split, links)
        splitting.outs.append((path[0], member))
        graph.hop(path[-1], member).outs.append((end, member))
        graph.hop(end, member).after = after
    return ports[0], before


def _add_edges(graph: Graph, traffic: Traffic) -> None:
    for element in list(graph.elements):
        for flow in element.flows:
            if flow.traffic is traffic:
                for target, label in graph.hop(element, flow).outs:
                    graph.edge(element, target).flows.append(label)


def _add_return_edges(graph: Graph, traffic: Traffic) -> None:
    """Add the edges from the listener's process or transport to its port, and to the sender.

    Answers of each stream have a separate edge, because they are put there ahead of time, which is
    in order for one stream only.
    """
    graph.edge(
        graph.receiver(traffic.talker),
        graph.port(traffic.talker, traffic.route.first_link),
        answers=traffic.index if isinstance(traffic.stream.send, PingPong) else None,
    )
    port = graph.port(traffic.listener, traffic.stream.route.first_link)
    graph.edge(graph.receiver(traffic.listener), port, traffic.sender)


def _sort_edges(graph: Graph) -> None:
    """Sort edges by the order in which frames of the same instant are processed."""
    position = {link.name: number for number, link in enumerate(graph.network.links)}

    def order(edge: Edge) -> tuple[int, int, int]:
        source = edge.source
        if isinstance(source, Port):
            return (position[source.link.name], int(source.node != source.link.a), 0)
        if edge.answers is not None:
            return (-1, 0, edge.answers)
        return (-1, 1, -1 if edge.to_sender is None else edge.to_sender)

    graph.edges.sort(key=order)
    for index, edge in enumerate(graph.edges):
        edge.index = index


def _order_elements(graph: Graph) -> None:
    """Sort the elements and set the window."""
    ports = [element for element in graph.elements if isinstance(element, Port)]
    longest = _WINDOW_FRAMES * min(port.shortest_ps for port in ports)
    order = _sorted_without(graph, None)
    window = longest
    if order is None:
        for cut in sorted({graph.look_ahead_ps(edge) for edge in graph.edges}, reverse=True):
            order = _sorted_without(graph, cut) if cut > 0 else None
            if order is not None:
                window = min(longest, cut)
                break
    if order is None:
        raise ValueError("elements feed each other in a cycle without delay")
    graph.elements = order
    for index, element in enumerate(order):
        element.index = index
    graph.window_ps = window


def _sorted_without(graph: Graph, cut_ps: int | None) -> list[Element] | None:
    """Sort topologically, without edges of ``cut_ps`` or longer; None if there is a cycle."""
    sorter: TopologicalSorter[Element] = TopologicalSorter(dict.fromkeys(graph.elements, ()))
    for edge in graph.edges:
        if cut_ps is None or graph.look_ahead_ps(edge) < cut_ps:
            sorter.add(edge.target, edge.source)
    try:
        return list(sorter.static_order())
    except CycleError:
        return None
