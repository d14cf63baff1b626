"""The bridge's scheduler against the model's shapers: the same frames at the same picoseconds."""

import pytest
from gate_lists import gate_lists
from hypothesis import given, settings
from hypothesis import strategies as st
from replayed import replay, sent

from tsnrepro.common.ethernet import udp_frames
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import (
    DuplexLink,
    EgressPort,
    EndStation,
    Listed,
    Network,
    SinglePath,
    TrafficStream,
)
from tsnrepro.native.bridge.settings_file import PortSettings, Shaper

HORIZON_S = 0.002
# What the gates hold back for ever would still wait at any end.
DRAIN_S = 0.02
END_PS = 22_000_000_000
GATES = gate_lists(closed=6, interval_ns=(1_000, 80_000), entries=6, base_ns=300_000)


@st.composite
def slopes(draw, rate):
    """Idle slopes of up to three classes that the line can hold together."""
    classes = draw(st.lists(st.integers(0, 7), unique=True, max_size=3))
    return {n: float(draw(st.integers(rate // 20, rate // 3 - 1))) for n in classes}


@st.composite
def streams(draw):
    """Classes with the payload and the times (ns) of their frames."""
    classes = draw(st.lists(st.integers(0, 7), unique=True, min_size=1, max_size=4))
    one_time = st.integers(0, 400_000)
    return [
        (
            number,
            draw(st.sampled_from([18, 46, 200, 900, 1472])),
            sorted(draw(st.lists(one_time, min_size=1, max_size=25))),
        )
        for number in classes
    ]


def modelled(port, rate, offered):
    """Return (class, start, end) of what leaves the model's port before the end."""
    host = EndStation(port=port, send_buffer_bytes=3_000_000, receive_buffer_bytes=3_000_000)
    listener = EndStation(port=EgressPort(queue_bytes=4_000_000))
    network = Network(
        hosts={"talker": host, "listener": listener},
        links=[DuplexLink(name="wire", a="talker", b="listener", rate_mbps=float(rate))],
        streams=[
            TrafficStream(
                name=f"s{place}",
                talker="talker",
                listener="listener",
                payload_bytes=payload,
                send=Listed(times_ns=times),
                route=SinglePath(links=["wire"]),
                priority=number,
            )
            for place, (number, payload, times) in enumerate(offered)
        ],
    )
    result = simulate(network, duration_s=HORIZON_S, drain_s=DRAIN_S, departures=["talker:wire"])
    rows = result.logs.departures
    leaves = ((offered[row["stream"]][0], int(row["start_ps"]), int(row["end_ps"])) for row in rows)
    return sorted(row for row in leaves if row[1] < END_PS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("replay")


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_departures_are_the_models(folder, data):
    rate = data.draw(st.sampled_from([100, 1000]))
    gates = data.draw(st.one_of(st.none(), GATES))
    idle = data.draw(slopes(rate))
    offered = data.draw(streams())
    queue_bytes = data.draw(st.sampled_from([100_000, 3_000]))
    theirs = modelled(
        EgressPort(
            queue_bytes=queue_bytes,
            scheduler="strict_priority",
            gates=gates,
            idle_slopes_mbps=idle,
        ),
        rate,
        offered,
    )
    ours = PortSettings(
        rate_mbps=rate,
        queue_bytes=queue_bytes,
        gates=gates,
        guard="frame" if gates is None or gates.guard_band else "none",
        shapers={number: Shaper(slope) for number, slope in idle.items()},
    )
    arrivals = sorted(
        (time * 1000, number, udp_frames(payload)[0])
        for number, payload, times in offered
        for time in times
    )
    rows = replay(folder, ours, arrivals, "--until-ps", END_PS)
    assert sorted((row.queue, row.start_ps, row.done_ps) for row in sent(rows)) == theirs
