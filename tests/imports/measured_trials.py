"""Trials as the experiments record them, with numbers of a simple model."""

import json

import numpy as np
from tool_outputs import sockperf_log

from tsnrepro.records.accounting import SOCKET_BUFFER, SOCKET_CLOSED
from tsnrepro.records.store import RawStore, Trial

PLACES = (
    *("talker socket", "talker queue", "sw1 queue m0", "sw1 queue m1", "sw2 queue p0"),
    *("recovery: rogue", "recovery: tagless", SOCKET_BUFFER, SOCKET_CLOSED),
    *("listener reassembly", "listener network stack"),
)
CONFIGURATIONS = ("control", "frer")


def write_trials(root, repetitions=3, seed=5):
    """Write a sweep, TCP and latency trials to a store and return the paths of their manifests."""
    rng = np.random.default_rng(seed)
    make = {"loss": _loss, "tcp": _tcp, "latency": _latency}
    paths = {}
    for experiment, trials in make.items():
        store = RawStore(root, "own", "test", experiment)
        listed = []
        for order, (trial, values, outputs) in enumerate(trials(rng, repetitions)):
            document = {
                "experiment": experiment,
                "label": trial.label,
                "factors": trial.factors,
                "repetition": trial.repetition,
                "order": order,
                "environment": "none",
                "started": f"2026-03-01T10:{order // 60:02d}:{order % 60:02d}.125+00:00",
                "status": "measured",
                "values": values,
            }
            folder = store.put(trial, 1, document, outputs)
            listed.append({"trial": folder.name, "sha256": store.sha256(folder)})
        manifest = {
            "testbed": "own",
            "campaign": "test",
            "experiment": experiment,
            "folder": str(store.folder),
            "trials": listed,
        }
        paths[experiment] = root / f"own-{experiment}.json"
        paths[experiment].write_text(json.dumps(manifest), encoding="utf-8")
    return paths


def _loss(rng, repetitions):
    for repetition in range(1, repetitions + 1):
        for payload, rates in ((1472, (200, 400, 600, 800)), (18, (50,)), (466, (300,))):
            for rate in rates:
                for configuration in CONFIGURATIONS:
                    factors = {
                        "configuration": configuration,
                        "payload_bytes": payload,
                        "rate_mbps": rate,
                        "duration_s": 2,
                    }
                    yield (
                        Trial("loss", f"{configuration}-{payload}B-{rate}M", factors, repetition),
                        _udp(rng, configuration, payload, rate),
                        {},
                    )


def _udp(rng, configuration, payload, rate):
    sent = round(rate * 1e6 * 2 / 8 / payload)
    limit = 500 if configuration == "control" else 450
    lost = int(rng.binomial(sent, 0.01)) if rate > limit else 0
    drops = dict.fromkeys(PLACES, 0)
    drops[SOCKET_BUFFER] = lost
    copies = sent if configuration == "frer" else 0
    seconds = 2 + float(rng.uniform(0, 1e-3))
    return {
        "result": {
            "sent": sent,
            "received": sent - lost,
            "lost": lost,
            "out_of_order": int(rng.integers(0, 3)),
            "payload_bytes": payload,
            "send_seconds": seconds,
            "offered_mbps": sent * payload * 8 / seconds / 1e6,
            "delivered_mbps": (sent - lost) * payload * 8 / seconds / 1e6,
        },
        "accounting": {"copies": copies, "eliminated": copies, "drops": drops, "unaccounted": 0},
    }


def _tcp(rng, repetitions):
    for repetition in range(1, repetitions + 1):
        for duration in (1, 2, 3):
            for configuration in CONFIGURATIONS:
                factors = {"configuration": configuration, "duration_s": duration}
                goodput = float(rng.normal(936, 2))
                result = {
                    "goodput_mbps": goodput,
                    "sent_mbps": goodput + 1,
                    "retransmits": int(rng.poisson(3)),
                    "seconds": duration + 0.01,
                }
                label = f"{configuration}-{duration}s"
                yield Trial("tcp", label, factors, repetition), {"result": result}, {}


def _latency(rng, repetitions):
    for repetition in range(1, repetitions + 1):
        for configuration in CONFIGURATIONS:
            observed = np.round(rng.gamma(9, 4, 600) + 5, 3)
            quantiles = (25, 50, 75, 90, 99, 99.9)
            result = {
                "sent": 640,
                "received": 640,
                "observations": len(observed),
                "valid_seconds": 0.55,
                "mean_us": round(float(observed.mean()), 3),
                "sd_us": round(float(observed.std()), 3),
                "min_us": float(observed.min()),
                "max_us": float(observed.max()),
                "percentiles_us": {
                    f"{q:.3f}": float(np.percentile(observed, q, method="inverted_cdf"))
                    for q in quantiles
                },
            }
            factors = {"configuration": configuration, "payload_bytes": 1472, "duration_s": 1}
            log = sockperf_log(observed.tolist())
            yield (
                Trial("latency", f"{configuration}-1472B", factors, repetition),
                {"result": result},
                {"sockperf-log.csv.gz": log},
            )
