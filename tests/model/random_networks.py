"""Random small networks for hypothesis: two talkers, a diamond of switches, two listeners."""

from gate_lists import gate_lists
from hypothesis import strategies as st

from tsnrepro.model.network import (
    BurstLoss,
    Bursts,
    ConstantRate,
    DuplexLink,
    Duplication,
    Duration,
    EgressPort,
    EndStation,
    LatentErrors,
    Listed,
    Network,
    PingPong,
    Poisson,
    RandomLoss,
    Recovery,
    Replicated,
    Saturating,
    SequenceFaults,
    SinglePath,
    Span,
    Stalls,
    Switch,
    TrafficStream,
)

DURATION_NS = 400_000
PATHS = {"direct": ["direct"], "upper": ["upper-1", "upper-2"], "lower": ["lower-1", "lower-2"]}
ENDS = {
    "talk-1": ("t1", "s1"),
    "talk-2": ("t2", "s1"),
    "direct": ("s1", "s2"),
    "upper-1": ("s1", "upper"),
    "upper-2": ("upper", "s2"),
    "lower-1": ("s1", "lower"),
    "lower-2": ("lower", "s2"),
    "listen-1": ("s2", "l1"),
    "listen-2": ("s2", "l2"),
}
HOST_LINK = {"t1": "talk-1", "t2": "talk-2", "l1": "listen-1", "l2": "listen-2"}

times_ns = st.one_of(st.just(0), st.integers(0, 20_000), st.sampled_from([672, 1_000, 12_304]))


def one_in(count):
    return st.integers(0, count - 1).map(lambda number: number == count - 1)


@st.composite
def spans(draw, kind=Span, **arguments):
    begins = draw(st.just(0) | st.integers(0, DURATION_NS))
    lasts = draw(st.none() | st.integers(1, DURATION_NS))
    return kind(
        from_ns=begins,
        until_ns=None if lasts is None else begins + lasts,
        **{name: draw(strategy) for name, strategy in arguments.items()},
    )


@st.composite
def durations(draw, mean_ns, *, least_ns=0):
    return Duration(
        mean_ns=float(draw(st.one_of(st.just(least_ns), st.integers(least_ns, mean_ns)))),
        distribution=draw(st.sampled_from(["constant", "erlang"])),
        shape=draw(st.integers(1, 3)),
    )


gates = gate_lists(closed=7, interval_ns=(2_000, 60_000), entries=4, base_ns=100_000)


@st.composite
def ports(draw, rate_mbps, sizes=(100_000, 3_000, 10_000, 400)):
    scheduler = draw(st.sampled_from(["fifo", "strict_priority"]))
    classed = scheduler == "strict_priority"
    listed = draw(gates) if classed and draw(st.booleans()) else None
    toggled = listed is not None and draw(st.booleans())
    return EgressPort(
        queue_bytes=draw(st.sampled_from(sizes)),
        scheduler=scheduler,
        gates=listed,
        gate_toggle_ns=draw(st.integers(10_000, 200_000)) if toggled else None,
        gate_toggle_from_ns=draw(st.integers(0, 100_000)) if toggled else 0,
        clock_offset_ns=float(draw(st.integers(-5_000, 5_000))),
        idle_slopes_mbps=draw(
            st.dictionaries(
                st.integers(0, 7),
                st.integers(rate_mbps // 10, rate_mbps - 1).map(float),
                max_size=3,
            )
        )
        if classed and not toggled
        else {},
    )


@st.composite
def links(draw, name):
    rate = draw(st.sampled_from([100, 1_000, 1_000, 2_500]))
    loss = None
    if draw(one_in(5)):
        loss = draw(
            spans(RandomLoss, probability=st.sampled_from([0.0, 0.05, 0.3, 1.0]))
            | spans(
                BurstLoss,
                good_to_bad=st.sampled_from([0.02, 0.2]),
                bad_to_good=st.sampled_from([0.1, 0.5]),
                loss_in_bad=st.sampled_from([0.5, 1.0]),
                loss_in_good=st.sampled_from([0.0, 0.01]),
            )
        )
    duplication = None
    if draw(one_in(6)):
        duplication = draw(spans(Duplication, probability=st.sampled_from([0.0, 0.1, 0.5, 1.0])))
    failures = []
    if draw(one_in(8)):
        down = draw(st.integers(0, DURATION_NS))
        lasts = draw(st.none() | st.integers(1, DURATION_NS))
        failures = [Span(from_ns=down, until_ns=None if lasts is None else down + lasts)]
    return DuplexLink(
        name=name,
        a=ENDS[name][0],
        b=ENDS[name][1],
        rate_mbps=float(rate),
        delay_ns=float(draw(times_ns)),
        reverse_delay_ns=draw(st.none() | times_ns.map(float)),
        jitter_ns=draw(st.just(0.0) | times_ns.map(float)),
        loss=loss,
        duplication=duplication,
        failures=failures,
    )


hosts = st.builds(
    EndStation,
    port=st.just(EgressPort(queue_bytes=500_000)),
    send_buffer_bytes=st.sampled_from([212_992, 9_216, 2_000, 1]),
    when_full=st.sampled_from(["wait", "drop"]),
    send_cost=durations(5_000),
    receive_buffer_bytes=st.sampled_from([212_992, 9_216, 2_304, 1]),
    truesize_bytes=st.none() | st.just(4_608),
    receive_time=durations(20_000),
    stack_time=durations(8_000),
    nic_ring_frames=st.sampled_from([256, 4, 1]),
    stalls=st.none()
    | st.builds(Stalls, interval=durations(80_000, least_ns=5_000), length=durations(40_000)),
)

recoveries = st.builds(
    Recovery,
    algorithm=st.sampled_from(["vector", "match"]),
    history_length=st.sampled_from([2, 8, 64]),
    reset_ms=st.none() | st.sampled_from([0.01, 0.05, 0.5]),
)


moments = st.lists(st.integers(0, DURATION_NS), max_size=3).map(sorted)


@st.composite
def sequence_faults(draw):
    edges = draw(st.lists(st.integers(0, DURATION_NS), max_size=4, unique=True).map(sorted))
    pairs = zip(edges[::2], edges[1::2], strict=False)
    return SequenceFaults(
        stuck=[Span(from_ns=since, until_ns=until) for since, until in pairs],
        generator_restarts_ns=draw(moments),
        recovery_restarts_ns=draw(moments),
    )


latent_errors = st.builds(
    LatentErrors,
    difference=st.sampled_from([0, 1, 5]),
    period_ms=st.sampled_from([0.02, 0.05]),
    reset_ms=st.sampled_from([0.1, 0.15]),
)


@st.composite
def routes(draw, talker, listener, *, replicated=True):
    forward = talker.startswith("t")
    before, after = [HOST_LINK[talker]], [HOST_LINK[listener]]
    names = draw(
        st.lists(st.sampled_from(sorted(PATHS)), unique=True, min_size=1, max_size=3)
        if replicated
        else st.sampled_from(sorted(PATHS)).map(lambda name: [name])
    )
    members = [PATHS[name] if forward else PATHS[name][::-1] for name in names]
    if len(members) == 1 and (not replicated or draw(st.booleans())):
        return SinglePath(links=before + members[0] + after)
    return Replicated(
        before=before,
        members=members,
        after=after,
        recovery=draw(recoveries),
        individual=draw(st.none() | recoveries),
        latent_errors=draw(st.none() | latent_errors),
        faults=draw(st.just(SequenceFaults()) | sequence_faults()),
    )


@st.composite
def ping_pongs(draw, talker, listener):
    return PingPong(
        answer_route=draw(routes(listener, talker)),
        timeout_ms=draw(st.sampled_from([10.0, 0.3, 0.1, 0.02])),
        interval_us=draw(st.sampled_from([0.0, 30.0])),
    )


@st.composite
def streams(draw, number):
    talker, listener = draw(
        st.sampled_from([("t1", "l1"), ("t1", "l2"), ("t2", "l1"), ("t2", "l2"), ("l1", "t1")])
    )
    payload = draw(st.sampled_from([1, 64, 256, 1_000, 1_472, 1_473, 1_518, 4_000]))
    rate = float(draw(st.sampled_from([10, 100, 300, 900, 2_000])))
    send = draw(
        st.one_of(
            st.just(ConstantRate(rate_mbps=rate)),
            st.just(Poisson(rate_mbps=rate)),
            st.builds(Bursts, rate_mbps=st.just(rate), timer_us=st.sampled_from([7.0, 50.0])),
            st.builds(
                Listed,
                times_ns=st.lists(st.integers(0, DURATION_NS), max_size=40).map(sorted),
            ),
            st.just(Saturating()),
            ping_pongs(talker, listener),
        )
    )
    return TrafficStream(
        name=f"stream-{number}",
        talker=talker,
        listener=listener,
        payload_bytes=payload,
        send=send,
        route=draw(routes(talker, listener)),
        priority=draw(st.integers(0, 7)),
        vlan=draw(st.booleans()),
        start_ns=draw(times_ns),
        datagrams=draw(st.integers(0, 60)),
    )


@st.composite
def networks(draw):
    made_links = [draw(links(name)) for name in draw(st.permutations(sorted(ENDS)))]
    made_streams = [draw(streams(number)) for number in range(draw(st.integers(1, 4)))]
    made_hosts = {}
    for name in HOST_LINK:
        host = draw(hosts)
        saturated = any(
            stream.talker == name and stream.send.kind == "saturating" for stream in made_streams
        )
        pings = any(
            stream.talker == name and stream.send.kind == "ping_pong" for stream in made_streams
        )
        if pings:
            host = host.model_copy(update={"when_full": "wait"})
        if saturated:
            host = host.model_copy(
                update={"when_full": "wait", "port": EgressPort(queue_bytes=2_000_000)}
            )
        made_hosts[name] = host
    special = {}
    for link in made_links:
        for end in (link.a, link.b):
            if end not in made_hosts and draw(st.booleans()):
                special[f"{end}:{link.name}"] = draw(ports(int(link.rate_mbps)))
            elif end in made_hosts and draw(st.integers(0, 3)) == 0:
                special[f"{end}:{link.name}"] = draw(ports(int(link.rate_mbps), sizes=[2_000_000]))
    return Network(
        hosts=made_hosts,
        switches={
            name: Switch(
                port=EgressPort(queue_bytes=draw(st.sampled_from([200_000, 20_000, 4_000]))),
                processing_ns=float(draw(times_ns)),
            )
            for name in ("s1", "s2", "upper", "lower")
        },
        links=made_links,
        streams=made_streams,
        ports=special,
    )
