"""Sizes and rates by layer, against numbers worked out by hand and RFC 2544's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.common.ethernet import udp_frames
from tsnrepro.experiments.rfc2544 import rates

# Payload: limit on 1 Gb/s in Mb/s of payload, without and with an R-TAG.
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
# RFC 2544, appendix B: maximum frames a second on 10 Mb/s Ethernet, rounded down there.
RFC2544_ETHERNET = {64: 14880, 128: 8445, 256: 4528, 512: 2349, 1024: 1197, 1280: 961, 1518: 812}


@pytest.mark.parametrize("payload", LIMITS)
def test_payload_limits_to_six_digits(payload):
    for tagged in (False, True):
        pps = rates.limit_pps(payload, 1000.0, tagged=tagged)
        at = rates.at_layers(payload, pps, tagged=tagged)
        assert at.payload_mbps == pytest.approx(LIMITS[payload][tagged], abs=5e-4)
        assert at.wire_mbps == pytest.approx(1000.0)


@pytest.mark.parametrize("frame", RFC2544_ETHERNET)
def test_maximum_frame_rates_of_rfc2544(frame):
    payload = rates.payload_of_frame(frame)
    assert udp_frames(payload) == (frame,)
    assert int(rates.limit_pps(payload, 10.0)) == RFC2544_ETHERNET[frame]


@pytest.mark.parametrize("frame", [size for size in RFC2544_ETHERNET if size > 64])
def test_a_tag_that_counts_keeps_the_frame_size(frame):
    payload = rates.payload_of_frame(frame, tag_counts=True)
    assert payload == frame - 52
    assert udp_frames(payload, tagged=True) == (frame,)


def test_the_smallest_frame_grows_with_its_tag():
    assert udp_frames(rates.payload_of_frame(64, tag_counts=True), tagged=True) == (70,)


def test_1518_bytes_of_payload_are_two_frames():
    assert udp_frames(1518) == (1518, 84)
    at = rates.at_layers(1518, 1000.0)
    assert at.frames_per_s == 2000.0
    assert at.frame_mbps == pytest.approx((1518 + 84) * 8 / 1000)
    assert at.wire_mbps == pytest.approx((1538 + 104) * 8 / 1000)


@pytest.mark.parametrize("frame", [0, 63, 1519])
def test_other_frames_are_refused(frame):
    with pytest.raises(ValueError, match=r"64 \.\.\. 1518"):
        rates.payload_of_frame(frame)


@given(st.integers(12, 4000), st.floats(1, 1e6), st.booleans())
def test_every_layer_leads_back_to_the_datagrams(payload, pps, tagged):
    at = rates.at_layers(payload, pps, tagged=tagged)
    assert at.payload_mbps < at.frame_mbps < at.wire_mbps
    assert rates.pps_of_payload_rate(payload, at.payload_mbps) == pytest.approx(pps)
    frames_bits = 8 * sum(udp_frames(payload, tagged=tagged))
    assert at.frame_mbps * 1e6 / frames_bits == pytest.approx(pps)
    assert rates.limit_pps(payload, at.wire_mbps, tagged=tagged) == pytest.approx(pps)
