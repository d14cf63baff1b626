"""A record as a sound campaign leaves it, made up: tables that agree with each other.

Counts make the rates, samples make the latency statistics, and every datagram lost has a place.
"""

import copy
import math
import random
import statistics

from tsnrepro.common.ethernet import payload_limit_mbps, tcp_limit_mbps
from tsnrepro.published.measured_runs import table_from_columns
from tsnrepro.published.tables import Catalog, NotMeasuredError

PAYLOADS = (64, 256, 512, 1472, 1518)
LOADS = (0.2, 0.4, 0.6, 0.8, 0.95)
REPETITIONS = 3
# Student's t, 97.5 %, 2 degrees of freedom.
T_QUANTILE = 4.302652729911275
# What no network does at a constant loss: the share of datagrams lost above half the line.
LOSS = {"control": 0.004, "frer": 0.006}


def tables(seed=1):
    """Return the columns of every table by name."""
    random_source = random.Random(seed)
    return {
        "loss": _loss(random_source),
        "tcp": _tcp(random_source),
        "latency": _latency(random_source),
        "values": _values(),
        "by-size": _by_size(random_source),
        "set-up": _set_up(),
        "shaping": _shaping(),
    }


def catalog(columns):
    """Return tables as the source ``measured`` of a catalog."""

    def read(name):
        if name not in columns:
            raise NotMeasuredError(f"no table {name}")
        plain = {key: list(values) for key, values in columns[name].items()}
        return table_from_columns("model/quick", name, plain, 1000.0)

    return Catalog({"measured": read})


def changed(columns, table, row, **cells):
    """Return the tables with some cells of one row changed."""
    copied = copy.deepcopy(columns)
    for column, value in cells.items():
        copied[table][column][row] = value
    return copied


def rows(columns, table, **wanted):
    """Return the positions of rows with these values."""
    chosen = columns[table]
    length = len(next(iter(chosen.values())))
    return [n for n in range(length) if all(chosen[k][n] == v for k, v in wanted.items())]


def _collect(records):
    return {key: [record[key] for record in records] for key in records[0]}


def _shuffled(records, random_source, prefix):
    """Number the trials in the random order that they were run in."""
    random_source.shuffle(records)
    for order, record in enumerate(records):
        record["trial"] = f"{prefix}-{order:04d}"
        record["order"] = order
        record["started"] = 1.7e9 + 7 * order
    return records


def _loss(random_source):
    records = []
    for configuration in ("control", "frer"):
        for payload in PAYLOADS:
            limit = payload_limit_mbps(payload, tagged=True)
            for load in LOADS:
                for repetition in range(REPETITIONS):
                    target = round(load * limit, 1)
                    records.append(
                        _sweep_trial(random_source, configuration, payload, target, repetition)
                    )
    return _collect(_shuffled(records, random_source, "loss"))


def _sweep_trial(random_source, configuration, payload, target, repetition):
    seconds = 2 + random_source.uniform(0, 0.01)
    sent = round(target * random_source.uniform(0.998, 1) * 1e6 * seconds / 8 / payload)
    share = LOSS[configuration] * random_source.uniform(0.5, 1.5)
    lost = round(sent * share) if target > 500 else 0
    in_switch = round(0.1 * lost)
    received = sent - lost
    return {
        "configuration": configuration,
        "repetition": repetition,
        "payload_bytes": payload,
        "target_mbps": target,
        "offered_mbps": sent * 8 * payload / seconds / 1e6,
        "delivered_mbps": received * 8 * payload / seconds / 1e6,
        "sent": sent,
        "received": received,
        "lost": lost,
        "out_of_order": 0,
        "loss_percent": 100 * lost / sent,
        "duration_s": 2,
        "send_seconds": seconds,
        "copies": sent if configuration == "frer" else 0,
        "eliminated": sent if configuration == "frer" else 0,
        "drop_listener_socket": lost - in_switch,
        "drop_switch_queue": in_switch,
        "link_rate_mbps": 1000.0,
        "unaccounted": 0,
    }


def _tcp(random_source):
    records = []
    for configuration, limit in (
        ("control", tcp_limit_mbps()),
        ("frer", tcp_limit_mbps(tagged=True)),
    ):
        for duration in (2, 5):
            for repetition in range(REPETITIONS):
                records.append(
                    {
                        "configuration": configuration,
                        "repetition": repetition,
                        "duration_s": duration,
                        "seconds": duration + random_source.uniform(0, 0.01),
                        "goodput_mbps": limit * random_source.uniform(0.98, 0.999),
                        "retransmits": random_source.randrange(5),
                    }
                )
    return _collect(_shuffled(records, random_source, "tcp"))


def _latency(random_source):
    records = []
    for configuration in ("control", "frer"):
        for payload, middle in ((64, 22.0), (512, 31.0), (1472, 48.0)):
            for repetition in range(REPETITIONS):
                sample = sorted(
                    middle * math.exp(random_source.gauss(0, 0.15)) for _ in range(2000)
                )
                valid = 2 - random_source.uniform(0.4, 0.5)
                observations = int(0.98 * valid / (2e-6 * statistics.fmean(sample)))
                records.append(
                    {
                        "configuration": configuration,
                        "repetition": repetition,
                        "payload_bytes": payload,
                        "duration_s": 2,
                        "valid_seconds": valid,
                        "observations": observations,
                        "received": observations + 40,
                        "sent": observations + 41,
                        **_statistics(sample),
                    }
                )
    return _collect(_shuffled(records, random_source, "latency"))


def _statistics(sample):
    def quantile(share):
        return sample[min(len(sample) - 1, int(share * len(sample)))]

    return {
        "mean_us": statistics.fmean(sample),
        "sd_us": statistics.stdev(sample),
        "min_us": sample[0],
        "p25_us": quantile(0.25),
        "p50_us": quantile(0.5),
        "p75_us": quantile(0.75),
        "p90_us": quantile(0.9),
        "p99_us": quantile(0.99),
        "p99_9_us": quantile(0.999),
        "max_us": sample[-1],
    }


def _values():
    """Return named results as the table that the audit makes of them."""
    entries = [
        ("loss.threshold.control.mbps", "Mb/s", 520.0, 505.0, 534.0, 75),
        ("loss.threshold.frer.mbps", "Mb/s", 511.0, 498.0, 525.0, 75),
        ("loss.threshold.ratio", "", 0.98, 0.94, 1.02, 150),
        ("latency.mean.control.us", "us", 31.2, 30.9, 31.6, 9),
        # Beyond a bound, below a prediction, over two paths, ahead of a launch time, and of
        # searches in place of trials.
        ("shaping.tas_frer.fifo.loaded.load.mbps", "Mb/s", 1884.8, None, None, 3),
        ("shaping.long_cycle.etf.idle.deviation.p50.us", "us", -4.9, -5.0, -4.8, 1),
        ("latency.payload_64.margin.control.percent", "%", -12.0, -63.8, 20.1, 4),
        (
            "occupancy.size_2mb.rate_420.frer.shared.equation.error.percent",
            "%",
            -9.0,
            -11.0,
            -7.0,
            3,
        ),
        ("rfc2544.accuracy.mlrsearch.zero_loss.calm.within_percent", "%", 100.0, 83.2, 100.0, 0),
    ]
    columns = ("trial", "unit", "value", "low", "high", "trials")
    table = dict(zip(columns, map(list, zip(*entries, strict=True)), strict=True))
    return {**table, "frame_bytes": [None] * len(entries)}


def _by_size(random_source):
    """Return one row a size with numbers that follow from each other."""
    records = []
    for payload in (64, 128, 256, 512, 1024, 1472):
        limit = payload_limit_mbps(payload)
        clean = limit * (0.3 + 0.4 * payload / 1472) * random_source.uniform(0.9, 1.1)
        records.append(
            {
                "trial": str(payload),
                "payload_bytes": payload,
                "limit_mbps": limit,
                "clean_mbps": clean,
                "share_percent": 100 * clean / limit,
                "idle_us": 20 + payload / 100,
                "loaded_us": 30 + payload / 80,
                "gate_us": 100.0,
                "part_low_percent": 10.0,
                "part_high_percent": 12.0,
                "phase_high_ns": 1000.0 * random_source.uniform(5, 9),
            }
        )
    return _collect(records)


def _shaping():
    """Return one row a mode: a gate's latencies, none's, equal ones, those behind FRER, ETF's."""
    names = ("min_us", "mean_us", "p50_us", "p90_us", "p95_us", "p99_us", "p99_9_us", "max_us")
    ordered = (5.0, 14.0, 12.0, 20.0, 22.0, 30.0, 34.0, 36.0)
    columns = {
        # ETF hands frames over ahead of their launch time.
        name: [value, 2 * value, 31.783, 3 * value, value - 40]
        for name, value in zip(names, ordered, strict=True)
    }
    # The mean of equal values, as binary arithmetic gives it.
    columns["mean_us"][2] = math.nextafter(31.783, math.inf)
    return {
        "trial": ["tas", "fifo", "fifo-idle", "tas-frer", "etf"],
        "kind": ["end-station", "end-station", "bridge", "tas-frer", "end-station"],
        "quantity": [*["latency"] * 4, "deviation from the launch time"],
        "load_delivered_mbps": [0.0, 950.0, 0.0, 1884.8, 0.0],
        **columns,
    }


def _set_up():
    """Return what is known of the hosts and plans of each configuration."""
    trials = (521.0, 522.0, 522.0)
    half = T_QUANTILE * statistics.stdev(trials) / math.sqrt(len(trials))
    three_trials = (statistics.fmean(trials) - half, statistics.fmean(trials) + half)
    return {
        "trial": ["control", "frer"],
        "iperf3": ["iperf 3.12", "iperf 3.12"],
        "topology": ["both switches", "both switches"],
        "packets_per_second": [45_000.0, 45_000.0],
        "history_length": [1024, 1024],
        "duration_s": [30.0, 30.0],
        "drain_mbps": [1000.0, 1000.0],
        "threshold_mbps": [520.0, 511.0],
        "half_round_trip_us": [49.0, 48.0],
        "limit_us": [150.0, 150.0],
        "interval_low_mbps": [three_trials[0], 528.0],
        "interval_high_mbps": [three_trials[1], 537.0],
        "total_percent": [66.0, 66.0],
    }
