"""Run every kind of port and process with bounds checks; a test reads "checked ok" from it.

The kernels are compiled anew, on an array instead of a pointer, so this takes a while.
"""

import os

os.environ["TSNREPRO_MODEL_CHECKED"] = "1"
os.environ["NUMBA_OPT"] = "0"  # what the code does is the same, and it compiles in half the time

import numpy as np

from tsnrepro.model.compiled import CHECKED
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import Network
from tsnrepro.model.variates import draw_bits

PORT = {"queue_bytes": 2_000_000}
GATES = {
    "entries": [
        {"open_classes": [5, 0], "interval_ns": 40_000},
        {"open_classes": [0], "interval_ns": 60_000},
    ],
    "cycle_ns": 100_000,
}
SHAPED = PORT | {
    "scheduler": "strict_priority",
    "gates": GATES,
    "idle_slopes_mbps": {5: 300.0},
}
HOST = {
    "port": PORT,
    "receive_time": {"mean_ns": 12_000.0, "distribution": "erlang"},
    "stack_time": {"mean_ns": 2_000.0},
    "stalls": {"interval": {"mean_ns": 1e6}, "length": {"mean_ns": 1e5}},
}


def frer(before, after, reverse):
    members = [["a1", "a2"], ["b"]]
    if reverse:
        members = [member[::-1] for member in members]
    return {
        "kind": "frer",
        "before": [before],
        "members": members,
        "after": [after],
        "individual": {"algorithm": "match", "reset_ms": 1.0},
        "latent_errors": {"difference": 3, "period_ms": 2.0, "reset_ms": 5.0},
        "faults": {
            "stuck": [{"from_ns": 4_000_000, "until_ns": 5_000_000}],
            "generator_restarts_ns": [9_000_000],
            "recovery_restarts_ns": [9_000_000, 11_000_000],
        },
    }


def stream(name, payload, send, **options):
    ends = {"name": name, "talker": "t", "listener": "l", "payload_bytes": payload}
    return ends | {"send": send, "route": frer("in", "out", False)} | options


tcp = {"kind": "tcp", "ack_route": frer("out", "in", True), "window_bytes": 300_000}
ping_pong = {"kind": "ping_pong", "answer_route": frer("out", "in", True), "timeout_ms": 1.0}
network = Network.model_validate(
    {
        "hosts": {"t": HOST, "l": HOST},
        "switches": {
            "s1": {"port": {"queue_bytes": 30_000}, "processing_ns": 1_000.0},
            "s2": {"port": SHAPED},
            "m": {"port": SHAPED},
        },
        "links": [
            {"name": "in", "a": "t", "b": "s1"},
            {"name": "a1", "a": "s1", "b": "m", "loss": {"kind": "random", "probability": 0.01}},
            {"name": "a2", "a": "m", "b": "s2", "failures": [{"from_ns": 3_000_000}]},
            {
                "name": "b",
                "a": "s1",
                "b": "s2",
                "delay_ns": 9_000.0,
                "loss": {"kind": "burst", "good_to_bad": 0.01, "bad_to_good": 0.3},
            },
            {"name": "out", "a": "s2", "b": "l", "duplication": {"probability": 0.1}},
        ],
        "streams": [
            stream("bursts", 1518, {"kind": "bursts", "rate_mbps": 60.0}, priority=5),
            stream("poisson", 64, {"kind": "poisson", "rate_mbps": 10.0}, priority=5),
            stream("tcp", 1448, tcp),
            stream("pings", 2000, ping_pong),
        ],
    }
)
for general in (False, True):
    result = simulate(
        network, duration_s=0.02, general_ports=general, record=True, departures=["s2:out"]
    )
    assert CHECKED
    assert all(found.unique > 0 for found in result.streams.values())

# The checks are on: an address beyond the memory is an error.
try:
    draw_bits(np.zeros(8, np.int64), 100)
except IndexError:
    print("checked ok")
