"""Analytic bounds against the model: never exceeded, and nearly reached."""

import pytest
from gate_lists import two_windows
from shaping_parts import trials_of

from tsnrepro.config import ModelSettings
from tsnrepro.config.gates import GateControlList, GateWindow
from tsnrepro.experiments.shaping import bounds as shaping_bounds
from tsnrepro.experiments.shaping import on_model
from tsnrepro.experiments.shaping.bounds import bound_ns, gate_wait_ns, shaped_wait_ns
from tsnrepro.experiments.shaping.log import LOG, decompress, latency_us
from tsnrepro.experiments.shaping.settings import ShapingPart
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.model import ModelTestbed

SETTINGS = ModelSettings.model_validate(
    {
        "forwarding_delay_us": {"low": 1, "high": 5},
        "talker": {"send_us": 3.307},
        "listener": {"receive_us": 2, "stack_us": 1},
    }
)
GATES = two_windows(20_000, 80_000, scheduled=5, others=[0])


def part(kind="end-station", **changes):
    values = {
        "name": "test",
        "kind": kind,
        "modes": ["tas"],
        "gates": GATES,
        "payload_bytes": 256,
        "packets": 4000,
        "interval_us": 300.0,
        "interval_spread_us": 100.0,
        "loads_mbps": [1000.0],
        "load_payload_bytes": 1460,
    }
    return ShapingPart.model_validate(values | changes)


def test_wait_for_a_gate_is_closed_time_and_guard_band():
    assert gate_wait_ns(GATES, 5, 2_480) == 80_000 + 2_480
    assert gate_wait_ns(GATES.model_copy(update={"guard_band": False}), 5, 2_480) == 80_000
    assert gate_wait_ns(GATES, 5, 20_001) == float("inf")
    open_always = GateControlList(entries=[GateWindow(open_classes=[5], interval_ns=10)])
    assert gate_wait_ns(open_always, 5, 2_480) == 0


def test_a_window_that_is_too_short_counts_as_closed():
    entries = [([5], 10_000), ([0], 30_000), ([5], 1_000), ([0], 59_000)]
    gates = GateControlList(
        entries=[GateWindow(open_classes=c, interval_ns=length) for c, length in entries]
    )
    assert gate_wait_ns(gates, 5, 2_000) == 90_000 + 2_000
    assert gate_wait_ns(gates, 5, 1_000) == 59_000 + 1_000


def test_best_effort_has_no_closed_form_under_load():
    assert shaped_wait_ns(part(modes=["fifo"]), "fifo") is None
    assert shaped_wait_ns(part(modes=["fifo"], loads_mbps=[0.0]), "fifo") == 0


def test_datagrams_that_may_wait_for_each_other_have_no_bound():
    settings = part(interval_us=100.0, interval_spread_us=50.0)
    trial = trials_of(settings, 1)[0]
    bound, reason = bound_ns({"factors": trial.factors, "values": {}})
    assert bound is None
    assert reason == shaping_bounds.MAY_QUEUE


def test_on_hosts_the_bound_is_the_ports_wait_alone():
    settings = part("bridge")
    trial = trials_of(settings, 1)[0]
    bound, _ = bound_ns({"factors": trial.factors, "values": {"medium": "emulated veth"}})
    assert bound == pytest.approx(shaped_wait_ns(settings, "tas"))
    idle = trials_of(part("bridge", modes=["prio"], loads_mbps=[0.0]), 1)[0]
    bound, reason = bound_ns({"factors": idle.factors, "values": {"medium": "emulated veth"}})
    assert bound is None
    assert "nothing waits" in reason


CASES = [
    ("end-station", "tas", {}),
    ("end-station", "prio", {}),
    ("bridge", "tas", {}),
    ("bridge", "prio", {}),
    ("bridge", "cbs", {"idle_slope_mbps": 50.0}),
    ("tas-frer", "tas", {}),
    ("tas-frer", "prio", {}),
    # Half of 2 us: after the load's last bit its gap delays the stream by up to 96 ns.
    (
        "end-station",
        "tas",
        {
            "gates": two_windows(1_000, 1_000, scheduled=5, others=[0]),
            "payload_bytes": 32,
            "load_payload_bytes": 59,
        },
    ),
]


@pytest.mark.parametrize(("kind", "mode", "changes"), CASES)
def test_no_datagram_takes_longer_and_some_nearly_as_long(kind, mode, changes):
    testbed = ModelTestbed(SETTINGS)
    trial = trials_of(part(kind, modes=[mode], **changes), 1)[0]
    measured = Measurement()
    on_model.measure(testbed, trial, measured)
    bound, reason = bound_ns({"factors": trial.factors, "values": measured.values})
    assert not reason
    assert bound is not None
    longest = latency_us(decompress(measured.outputs[LOG])).max()
    assert longest <= bound / 1000 + 0.001
    # Places in the cycle are met to within a tenth of a microsecond.
    assert longest > bound / 1000 - max(0.02 * bound / 1000, 0.1)
