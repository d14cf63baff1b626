"""Made-up results in the form that the analysis writes, for building papers and reports."""

import csv
import hashlib
import json
from fnmatch import fnmatchcase
from functools import cache
from io import BytesIO
from itertools import product
from pathlib import Path

from tsnrepro.common.repository import root
from tsnrepro.papers.data_sources import DataSource, DataSources
from tsnrepro.records.values import IMPORT_FACTS, MODEL_PARAMETERS

CONFIGURATIONS = ("control", "frer")
FRAMES = (64, 128, 256, 512, 1024, 1518)
STATISTICS = {
    **{"mean": 21.4, "sd": 6.2, "min": 11.0, "p25": 17.8, "p50": 20.2},
    **{"p75": 23.9, "p90": 28.4, "p99": 41.7, "p99_9": 83.0, "max": 1204.0},
}
COMPARED = ("mean", "p50", "p90", "p99", "p99_9")
PLACES = {"listener_socket": 92.4, "talker": 0.0, "switches": 7.6, "other": 0.0}
DURATIONS = {"short": 1.0, "middle": 2.0, "long": 3.0}
RATES = (100, 200, 300, 400, 500, 530, 600, 700, 800, 900)
FIGURES = {
    "loss": ("loss-against-load", "where-lost", "frame-size"),
    "tcp": (),
    "latency": ("latency-distribution",),
    "study": ("threshold-dependence", "threshold-replication"),
}
EXPERIMENTS = ("loss", "tcp", "latency")
SUMMARY_COLUMNS = (
    *("configuration", "target_mbps", "offered_mbps", "trials", "trials_with_loss"),
    *("sent", "lost", "loss_percent", "loss_low_percent", "loss_high_percent"),
    "loss_limits",
)
COMMIT = "0123456789abcdef0123456789abcdef01234567+changes"


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def trials(experiment, configuration, count=4):
    names = (f"{configuration}-{i}" for i in range(count))
    return [f"{name}-r1-{digest(experiment + name)[:10]}-a1" for name in names]


def entry(key, value, low=None, high=None, *, unit="", digits=0, method="count", run="", names=()):
    return {
        **{"key": key, "value": value, "low": low, "high": high, "unit": unit},
        **{"digits": digits, "method": method, "run": run, "trials": list(names)},
        "sha256": digest("".join(names)) if names else "",
    }


def entry_by_pattern(key, patterns, *, units, run, decimals, prefix=""):
    """Return a result with the value of the first pattern that matches ``prefix`` and key.

    Three numbers are a value with its limits. The unit is that of the last part of the key.
    """
    value = next(value for pattern, value in patterns if fnmatchcase(prefix + key, pattern))
    limits = value if isinstance(value, tuple) else (value, None, None)
    digits = 0 if isinstance(value, int) else decimals
    unit = units.get(key.split(".")[-1], "")
    return entry(key, *limits, digits=digits, run=run, unit=unit, names=trials(run, "all", 12))


def estimate(key, value, spread, *, known=True, **kept):
    limits = (value - spread, value + spread) if known else (None, None)
    method = "Student t over runs" if known else "one run, no interval"
    return entry(key, value, *limits, method=method, **kept)


def loss(verdict="cannot tell", lost=48_213, known=True):
    """Return the values of a sweep; without loss, thresholds and shares are unknown."""
    names = {c: trials("loss", c, 27) for c in CONFIGURATIONS}
    both = names["control"] + names["frer"]
    kind = {"run": "loss"}
    method = "logistic dose-response, profile likelihood"
    items = [
        entry("loss.threshold.verdict", verdict, method="the ratio's interval", names=both, **kind)
    ]
    for c, threshold in zip(CONFIGURATIONS, (612.0, 574.0), strict=True):
        some = {"names": names[c], **kind}
        limits = (threshold, threshold - 60, threshold + 71) if lost else (None, 700.0, None)
        clean = 500 if lost else 900
        for scope in ("", ".socket"):
            key = f"loss.threshold{scope}.{c}.mbps"
            items.append(entry(key, *limits, unit="Mb/s", method=method, **some))
            key = f"loss.highest_clean{scope}.{c}.mbps"
            items.append(entry(key, clean, unit="Mb/s", method="highest load", **some))
    ratio, difference = ((0.94, 0.81, 1.09), (-38.0, -121.0, 55.0)) if lost else ((None,) * 3,) * 2
    mover = {"names": both, "method": "MOVER", **kind}
    items.append(entry("loss.threshold.ratio", *ratio, digits=2, **mover))
    items.append(entry("loss.threshold.difference.mbps", *difference, unit="Mb/s", **mover))
    for frame in FRAMES:
        items += _frame(frame, names, lost, known)
    for (place, share), suffix in product(PLACES.items(), ("", ".control", ".frer")):
        value = share if lost else None
        key = f"loss.share.{place}{suffix}.percent"
        some = names.get(suffix[1:], both)
        items.append(entry(key, value, unit="%", digits=2, method="share", names=some, **kind))
    counts = {"lost": lost, "sent": 21_204_817, "unaccounted": 0, "eliminated": 10_602_311}
    counts |= {"untraced": 3, "unread": 404 if lost else 0}
    counts["socket_lost"] = lost - counts["unread"]
    items.append(entry("loss.unread.trials.count", 15 if lost else 0, names=both, **kind))
    for name, count in counts.items():
        items.append(entry(f"loss.{name}.total.count", count, names=both, **kind))
    items.append(entry("loss.trials.count", len(both), names=both, **kind))
    duration = {"unit": "s", "method": "configuration", "names": both}
    items.append(entry("loss.duration_s", 2.0, **duration, **kind))
    sizes = duration | {"unit": "bytes"}
    items.append(entry("loss.payload_bytes", 1472, **sizes, **kind))
    items.append(entry("loss.sizes.loads.count", 2, names=both, **kind))
    return items


def _frame(frame, names, lost, known):
    name, both = f"loss.frame_{frame}", names["control"] + names["frer"]
    target = entry(f"{name}.target_mbps", 100.0, unit="Mb/s", run="loss", names=both)
    items = [target]
    for c in CONFIGURATIONS:
        percent = 1.234 if lost else 0.0
        key = f"{name}.{c}.percent"
        items.append(
            estimate(
                key,
                percent,
                percent / 2,
                known=known,
                unit="%",
                digits=3,
                run="loss",
                names=names[c],
            )
        )
        key = f"{name}.{c}.offered_mbps"
        items.append(
            estimate(key, 98.7, 0.4, known=known, unit="Mb/s", digits=1, run="loss", names=names[c])
        )
    key = f"{name}.difference.percent"
    unit = "percentage points"
    return [
        *items,
        estimate(key, -0.04, 0.3, known=known, unit=unit, digits=3, run="loss", names=both),
    ]


def tcp(verdict="equivalent", known=True):
    names = {c: trials("tcp", c, 12) for c in CONFIGURATIONS}
    both = names["control"] + names["frer"]
    kind = {"run": "tcp"}
    goodput = {"control": 939.2, "frer": 935.4}
    items = []
    for c, value in goodput.items():
        key = f"tcp.goodput.{c}.mbps"
        items.append(
            estimate(key, value, 0.8, known=known, unit="Mb/s", digits=1, run="tcp", names=names[c])
        )
        items.append(entry(f"tcp.retransmits.{c}.count", 0, names=names[c], **kind))
    for c, limit in {"control": 941.48, "frer": 937.82}.items():
        key, method = f"tcp.line_limit.{c}.mbps", "closed form"
        items.append(entry(key, limit, unit="Mb/s", digits=2, method=method, **kind))
    for d, seconds in DURATIONS.items():
        four = both[:8]
        items.append(entry(f"tcp.duration.{d}.s", seconds, unit="s", names=four, **kind))
        for c, value in goodput.items():
            key = f"tcp.goodput.{c}.{d}.mbps"
            items.append(
                estimate(
                    key,
                    value,
                    1.2,
                    known=known,
                    unit="Mb/s",
                    digits=1,
                    run="tcp",
                    names=names[c][:4],
                )
            )
        key = f"tcp.difference.{d}.percent"
        items.append(
            estimate(key, -0.41, 0.2, known=known, unit="%", digits=2, run="tcp", names=four)
        )
    test = {"names": both, "method": "two one-sided Welch tests", **kind}
    items.append(
        estimate(
            "tcp.difference.percent",
            -0.41,
            0.12,
            known=known,
            unit="%",
            digits=2,
            run="tcp",
            names=both,
        )
    )
    items.append(entry("tcp.equivalence.verdict", verdict, **test))
    items.append(entry("tcp.equivalence.p", 1.2e-7 if known else None, digits=4, **test))
    margin = {"unit": "%", "method": "chosen before measuring", **kind}
    items.append(entry("tcp.equivalence.margin.percent", 2.0, **margin))
    return [*items, *tcp_limit(verdict, known)]


def tcp_limit(verdict, known):
    names, kind = trials("tcp", "limit", 12), {"run": "tcp"}
    common = {"names": names, **kind}
    items = [
        entry("tcp.limit.link_rate.mbps", 500, unit="Mb/s", **common),
        entry("tcp.limit.duration.s", 2, unit="s", **common),
        entry("tcp.limit.trials.count", 6, **common),
        entry("tcp.limit.equivalence.verdict", verdict, **common),
        entry("tcp.limit.equivalence.p", 1.2e-7 if known else None, digits=4, **common),
    ]
    for c, value, limit in (("control", 470.1, 470.74), ("frer", 468.3, 468.91)):
        line = {"unit": "Mb/s", "digits": 2, "method": "closed form", **kind}
        items.append(entry(f"tcp.limit.line_limit.{c}.mbps", limit, **line))
        key, mbps = f"tcp.limit.goodput.{c}.mbps", {"unit": "Mb/s", "digits": 1, **common}
        items.append(estimate(key, value, 0.3, known=known, **mbps))
    percent = {"unit": "%", "digits": 2, **common}
    return [*items, estimate("tcp.limit.difference.percent", -0.38, 0.1, known=known, **percent)]


def latency(verdict="cannot tell", known=True):
    names = {c: trials("latency", c, 4) for c in CONFIGURATIONS}
    both = names["control"] + names["frer"]
    kind = {"run": "latency"}
    common = {"method": "configuration", "names": both, **kind}
    items = [
        entry("latency.duration_s", 3.0, unit="s", names=both, **kind),
        entry("latency.quantity", "half round trip", **common),
        entry("latency.payload_bytes", 1472, unit="bytes", **common),
    ]
    for c, (name, value) in product(CONFIGURATIONS, STATISTICS.items()):
        key = f"latency.{name}.{c}.us"
        items.append(
            estimate(
                key,
                value,
                value / 20,
                known=known,
                unit="us",
                digits=2,
                run="latency",
                names=names[c],
            )
        )
    for c in CONFIGURATIONS:
        items.append(entry(f"latency.observations.{c}.count", 271_033, names=names[c], **kind))
    word = {"cannot tell": "equivalent"}.get(verdict, "different")
    items.append(entry("latency.p50.equivalence.verdict", word, names=both, **kind))
    margin = {"unit": "%", "method": "chosen before measuring", **kind}
    items.append(entry("latency.p50.equivalence.margin.percent", 10.0, **margin))
    for name in COMPARED:
        key = f"latency.{name}.difference.percent"
        items.append(
            estimate(key, 3.1, 4.4, known=known, unit="%", digits=1, run="latency", names=both)
        )
        items.append(entry(f"latency.{name}.verdict", verdict, names=both, **kind))
        items.append(entry(f"latency.{name}.p", 0.21, digits=3, names=both, **kind))
    return items


def study():
    """Return the values of a study of thresholds, as its analysis names them."""
    ratios = ("hosts", "loss_1e_6", "loss_1e_4", "background_300", "background_600")
    method = "bound: median over runs, order statistics (seeds)"
    items = [
        entry(f"study.ratio.{name}", 1.2, 1.1, 1.3, digits=2, method=method) for name in ratios
    ]
    items += [entry(f"study.ratio.hosts.{end}", 1.0, digits=3) for end in ("lowest", "highest")]
    shares = ("receive_buffer", "stall_length", "payload", "switch_queue", "configuration")
    for name in shares:
        key = f"study.share.kpps.{name}.percent"
        items.append(entry(key, 20.0, 15.0, 25.0, unit="%", digits=1))
    items.append(entry("study.third.hosts", "nowhere", method=method))
    for name in ("loss_1e_4", "background_600"):
        items.append(entry(f"study.third.{name}", "in some combinations", method=method))
    for name, count in (("points", 2250), ("seeds", 5), ("combinations.hosts", 144)):
        items.append(entry(f"study.{name}.count", count))
    return items


RACK = {
    **{"kind": "rack", "queue_bytes": None, "drivers": "lan966x"},
    "label": "rack testbed (hosts and switches of a rack, reached over SSH)",
}


def facts_of_testbed(**others):
    facts = {
        **{"kind": "emulated", "campaign": "synthetic", "kernel": "6.1.0-18_amd64 #1"},
        "label": "emulated testbed (network namespaces on one machine, eBPF switches)",
        **{"processor": "Example CPU @ 2.00 GHz", "processors": 2, "memory": 16, "commit": COMMIT},
        **{"iperf3": "iperf 3.12", "sockperf": "version 3.7", "queue_bytes": 262_144},
        **{"paths": 2, "history_length": 512, "reset_ms": 2000, "link_rate_mbps": 1000},
        "elimination": "switch",
        **{"receive_buffer_bytes": 212_992, "environment": "0123456789abcdef"},
        **{"verb": "Measured on", "model_sources": None},
        **dict.fromkeys(IMPORT_FACTS),
        **{f"model.{name}": None for name in MODEL_PARAMETERS},
        **others,
    }
    method = "environment of the run"
    return [entry(f"testbed.{name}", value, method=method) for name, value in facts.items()]


def write_values(path, items):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(items), encoding="utf-8")


def write_run(folder, items, facts=None, experiment=None, testbed="emulated"):
    """Write a run's values and facts, and the list of its trials."""
    name = experiment or folder.name
    write_values(folder / "values.json", items)
    write_values(folder / "testbed.json", facts_of_testbed() if facts is None else facts)
    manifest = {
        **{"testbed": testbed, "campaign": "synthetic", "experiment": name},
        "folder": str(root() / "data/raw" / testbed / "synthetic" / name),
        "trials": [{"trial": "a", "sha256": "0"}] * 12,
        "failed_attempts": [{"trial": "frer-1s-r1-0-a1", "reason": "no <answer> in time"}],
    }
    (folder / "run.json").write_text(json.dumps(manifest), encoding="utf-8")


def write_summary(path, rates=RATES, known=True):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(SUMMARY_COLUMNS)
        for configuration, rate in product(CONFIGURATIONS, rates):
            percent = max(0.0, (rate - 450) / 100)
            interval = (percent * 0.7, percent * 1.3 + 0.0004) if known else ("", "")
            lossy = 3 if percent else 0
            sent = rate * 500
            counts = [3, lossy, sent, round(sent * percent / 100)]
            limits = "bound" if known else "no interval"
            rows.writerow([configuration, rate, rate - 0.1, *counts, percent, *interval, limits])


def write_by_payload(path, loads):
    """Write a table by payload: loads in Mb/s by payload and frame size in bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("payload_bytes", "frame_bytes", *SUMMARY_COLUMNS))
        for (payload, frame), rates in loads.items():
            for configuration, rate in product(CONFIGURATIONS, rates):
                counts = [3, 3, 1000, 20, 2.0, 1.5, 2.5, "bound"]
                rows.writerow([payload, frame, configuration, rate, rate - 0.1, *counts])


def write_by_phase(path, loads):
    """Write a table by phase: loads in Mb/s by phase, its duration and the published one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("phase", "duration_s", *SUMMARY_COLUMNS, "published_duration_s"))
        for (phase, length, printed), rates in loads.items():
            for configuration, rate in product(CONFIGURATIONS, rates):
                counts = [1.0, 1.0, 1000, 10, 1.0, "", "", "no interval", printed]
                rows.writerow([phase, length, configuration, rate, rate - 0.1, *counts])
            # A load that is only published.
            rows.writerow([phase, "", "", 999.0, *[""] * 9, printed])


@cache
def _figure(name):
    """Return a drawing as PDF."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure, drawn = Figure(figsize=(3.4, 2.2)), BytesIO()
    axes = figure.subplots()
    axes.plot([0, 1, 2], [0, 1, 4])
    axes.set_title(f"synthetic: {name}", fontsize=8)
    figure.savefig(drawn, format="pdf", metadata={"CreationDate": None})
    return drawn.getvalue()


def write_figures(folder, names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.pdf").write_bytes(_figure(name))


def write_results(
    folder,
    *,
    higher="cannot tell",
    equivalent="equivalent",
    lower="cannot tell",
    lost=48_213,
    known=True,
    rates=RATES,
    facts=None,
):
    """Write the results of a campaign, one folder per experiment, and return their folder."""
    folder = Path(folder)
    items = {
        "loss": loss(higher, lost, known),
        "tcp": tcp(equivalent, known),
        "latency": latency(lower, known),
    }
    for name, found in items.items():
        write_run(folder / name, found, facts)
    write_values(folder / "study" / "values.json", study())
    write_summary(folder / "loss" / "tables" / "summary.csv", rates, known)
    small = {(18, 64): (100, 200), (1472, 1518): (500, 600)}
    write_by_payload(folder / "loss" / "tables" / "by-payload.csv", small)
    for name, figures in FIGURES.items():
        write_figures(folder / name / "figures", figures)
    return folder


def runs_of(results):
    """Return the folders of the runs of a campaign."""
    return [results / name for name in EXPERIMENTS if (results / name).is_dir()]


def data_sources_of(results, **others):
    """Return the data sources of a manuscript: one folder as the first, and others by name."""
    sources = [
        DataSource(name, {run.name: run for run in runs_of(folder)})
        for name, folder in {"measured": results, **others}.items()
    ]
    return DataSources(sources, results / "study")


def widen(values):
    """Make every interval so wide that it includes zero, as with few runs."""
    for path in values.glob("*/values.json"):
        items = json.loads(path.read_text(encoding="utf-8"))
        for item in items:
            if item["low"] is not None and item["high"] is not None:
                item["low"], item["high"] = item["low"] - 1234.5, item["high"] + 1234.5
        path.write_text(json.dumps(items), encoding="utf-8")
