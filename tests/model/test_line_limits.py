"""Line-rate limits, to six digits, against numbers worked out by hand."""

import pytest
from model_networks import ROOMY, VECTOR, one_hop, two_switches

from tsnrepro.common.ethernet import payload_limit_mbps, tcp_limit_mbps, udp_truesizes
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import ConstantRate, Saturating

# Payload: limit on 1 Gb/s in Mb/s without and with an R-TAG.
LIMITS = {
    64: (492.308, 470.588),
    128: (659.794, 640.000),
    256: (795.031, 780.488),
    512: (885.813, 876.712),
    1024: (939.450, 934.307),
    1280: (950.966, 946.746),
    1472: (957.087, 953.368),
    1518: (924.482, 917.775),
}


@pytest.mark.parametrize("payload", LIMITS)
def test_limits_by_arithmetic(payload):
    plain, tagged = LIMITS[payload]
    assert payload_limit_mbps(payload) == pytest.approx(plain, abs=5e-4)
    assert payload_limit_mbps(payload, tagged=True) == pytest.approx(tagged, abs=5e-4)


def test_two_copies_of_each_frame_halve_what_a_line_carries():
    """1472 bytes of payload make 1544 on the wire with the R-TAG: 8 x 2 x 1544 ns for both."""
    assert payload_limit_mbps(1472, tagged=True, copies=2) == pytest.approx(476.684, abs=5e-4)


def test_tcp_limits_by_arithmetic():
    assert tcp_limit_mbps() == pytest.approx(941.482, abs=5e-4)
    assert tcp_limit_mbps(tagged=True) == pytest.approx(937.824, abs=5e-4)


@pytest.mark.parametrize("payload", LIMITS)
def test_saturated_line_carries_the_plain_limit(payload):
    result = simulate(one_hop([(Saturating(), payload, 0)]), duration_s=0.1, record=True)
    stream = result.streams["s0"]
    assert stream.lost == 0
    times = result.deliveries["delivered_ps"]
    rate = (len(times) - 1) * payload * 8 / float(times[-1] - times[0]) * 1e6
    assert rate == pytest.approx(LIMITS[payload][0], abs=5e-4)


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("payload", LIMITS)
def test_queue_grows_beyond_the_limit_and_only_there(payload, tagged):
    """Offered a part per million under the limit nothing waits; above it the wait grows as it must.

    The access links run at 10 Gb/s, so that the path between the switches is the only limit.
    """
    seconds, excess = 0.5, 1e-4
    exact = payload_limit_mbps(payload, tagged=tagged)
    recovery = VECTOR if tagged else None

    def run(rate_mbps):
        network = two_switches(
            ConstantRate(rate_mbps=rate_mbps),
            payload,
            [[{}]],
            recovery=recovery,
            access_mbps=10_000.0,
        )
        result = simulate(network, duration_s=seconds)
        assert result.streams["s0"].lost == 0
        waits = [flow.wait_max_ps for flow in result.ports["first:path-0-0"].streams]
        return max(waits) / 1e12

    fragments = len(udp_truesizes(payload))
    # The second fragment waits for the first even on an idle line.
    idle = 0.0 if fragments == 1 else 1538 * 8e-9
    assert run(exact * (1 - 1e-6)) <= idle + 1e-7
    assert run(exact * (1 + excess)) - idle == pytest.approx(seconds * excess, rel=0.01)


def test_queue_of_the_first_tagged_link_overflows_at_the_untagged_limit():
    """A plain line rate cannot pass a tagged line: the difference is lost in the switch."""
    network = two_switches(
        Saturating(),
        64,
        [[{}]],
        recovery=VECTOR,
        switch_port=ROOMY.model_copy(update={"queue_bytes": 20_000}),
    )
    result = simulate(network, duration_s=0.5, record=True)
    times = result.deliveries["delivered_ps"][-50_000:]
    rate = (len(times) - 1) * 64 * 8 / float(times[-1] - times[0]) * 1e6
    stream = result.streams["s0"]
    assert rate == pytest.approx(470.588, abs=5e-4)
    assert stream.lost == stream.frames.queue_drops["first:path-0-0"] > 0
