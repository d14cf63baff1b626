"""The testbed's facts as results, so that a page can name what made its numbers."""

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd

from tsnrepro.common.topology import HOST_PORT, LISTENER, TALKER, member_names
from tsnrepro.config.base import CURRENT_KINDS
from tsnrepro.records.store import open_run
from tsnrepro.records.values import IMPORT_FACTS, MODEL_PARAMETERS, UNKNOWN
from tsnrepro.results.results import Results
from tsnrepro.stats.estimate import DEFAULT_LEVEL, Estimate

_LABELS = {
    "bench": "bench testbed (two ends in namespaces of one machine, with ports of its own)",
    "emulated": "emulated testbed (network namespaces on one machine, eBPF switches)",
    "guest": "guest testbed (namespaces in a virtual machine with a kernel of its own)",
    "model": "model testbed (simulated queues, no measurement)",
    "nic-pair": "NIC pair testbed (two hosts whose network cards a cable joins, reached over SSH)",
    "rack": "rack testbed (hosts and switches of a rack, reached over SSH)",
}
# A NIC pair with a switch between its hosts.
_AROUND_A_BOARD = "NIC pair testbed (three hosts around a LAN966x board, reached over SSH)"
# What a bench has between its ports, unless that has a name.
_BETWEEN = {"none": "a cable", "unmanaged": "an unmanaged device"}
# The emulated testbed without its switches: jobs, each with links and queues of its own.
_JOBS = "emulated testbed (network namespaces on one machine, queues of its own kernel)"
_BRIDGED = "emulated testbed (network namespaces on one machine, shaping by the software bridge)"
# What is measured in virtual time is labelled so wherever its testbed is named.
_VIRTUAL = (
    ", in virtual time: good for gate order, shaping, priority and loss, "
    "not for absolute latency or jitter"
)
_STAMPED_BY_CARD = ", arrivals of one-way latency stamped by the listener's card"
# How a page introduces its numbers. A model's are not measured, and no page calls them so.
_SIMULATED, _MEASURED = "Simulated on", "Measured on"

_IMPORTED, _MODEL = "imported", "model"
_NAME_AND_VERSION = re.compile(r"\b(Mausezahn|Dumpcap)\b\D*?(\d+(?:\.\d+)+)")


def facts_of(manifest_path: str | Path) -> tuple[str, dict[str, Any]]:
    """Return the environment that the run's last trial was measured in: its digest and facts.

    Of an imported run it is the environment of the import, also where no trial was imported. The
    kind of testbed has today's name, whatever the record calls it.
    """
    store, manifest = open_run(manifest_path)
    digest = manifest.get("environment")
    if digest is None:
        last = manifest["trials"][-1]["trial"]
        digest = store.read(store.folder / last)["environment"]
    facts = store.environment(digest)
    return digest, facts | {"testbed": CURRENT_KINDS.get(facts["testbed"], facts["testbed"])}


def settings_of(manifest_path: str | Path) -> dict[str, Any]:
    """Return the testbed's settings during the run."""
    return facts_of(manifest_path)[1]["settings"]


def label_of(manifest_path: str | Path) -> str:
    """Return the label that every page and figure of this testbed carries."""
    facts = facts_of(manifest_path)[1]
    kind: str = facts["testbed"]
    if kind == _IMPORTED:
        return _imported_label(facts)
    label = _LABELS.get(kind) or kind
    if facts.get("jobs") and kind == "emulated":
        # Trials from before there was the software bridge do not tell.
        label = _JOBS if facts.get("kernel_queues", True) else _BRIDGED
    if kind == "nic-pair" and facts.get("switch"):
        label = _AROUND_A_BOARD
    if kind == "bench":
        device = facts["settings"]["device"]
        label += f", {_BETWEEN.get(device, device)} between them"
    if facts.get("settings", {}).get("receive_stamps") == "hardware":
        label += _STAMPED_BY_CARD
    return label + _VIRTUAL if facts.get("virtual_time") else label


def short_label_of(manifest_path: str | Path) -> str:
    """Return the label that fits above a figure."""
    facts = facts_of(manifest_path)[1]
    kind: str = facts["testbed"]
    if kind == _IMPORTED:
        return _imported_label(facts)
    if facts.get("virtual_time"):
        return f"{kind} testbed (virtual time)"
    return f"{kind} testbed (simulated)" if kind == _MODEL else f"{kind} testbed"


def _imported_label(facts: dict[str, Any]) -> str:
    generated = " (generated, not measured)" if facts["generated"] else ""
    return f"imported: {facts['name']}{generated}"


def analyse(manifest_path: str | Path, trials: pd.DataFrame) -> Results:
    """Return the testbed's facts as results."""
    _, manifest = open_run(manifest_path)
    digest, facts = facts_of(manifest_path)
    values = {
        "kind": facts["testbed"],
        "label": label_of(manifest_path),
        "verb": _SIMULATED if facts["testbed"] == _MODEL else _MEASURED,
        "campaign": manifest["campaign"],
        **_description(facts),
        "environment": digest,
    }
    results = Results(manifest["experiment"], trials)
    for name, value in values.items():
        results.value(f"testbed.{name}", value, [], method="environment of the run")
    memory, method = _memory_gib(facts), "environment of the run"
    results.value("testbed.memory", memory, [], unit="GiB", digits=1, method=method)
    _ranges(results, facts)
    return results


def write_facts(manifest_path: str | Path, output: str | Path) -> None:
    """Write the facts of a run's testbed as values.

    Raises RecordError if there is no such run, or its environment is missing.
    """
    analyse(manifest_path, pd.DataFrame(columns=["trial", "sha256"])).write(output)


def _ranges(results: Results, facts: dict[str, Any]) -> None:
    """Add the model's parameters: a range where the settings give one."""
    for name, (place, unit) in MODEL_PARAMETERS.items():
        setting: Any = facts["settings"] if facts["testbed"] == _MODEL else None
        for key in place:
            setting = (setting or {}).get(key)
        key, method = f"testbed.model.{name}", "configuration"
        if isinstance(setting, dict):
            limits = (setting["low"], setting["high"])
            span = Estimate(math.nan, *limits, DEFAULT_LEVEL, f"{method}: a range", 1, unit)
            results.estimate(key, span, 2, [])
        else:
            results.value(key, setting, [], unit=unit, digits=2, method=method)


def _memory_gib(facts: dict[str, Any]) -> float | None:
    """Return the memory of the machine with the processor; None where a record lacks it."""
    machine = facts.get("ran_on", facts.get("controller", {}))
    memory_bytes = machine.get("memory_bytes")
    return None if memory_bytes is None else memory_bytes / 2**30


def _network(facts: dict[str, Any]) -> dict[str, int | float | str | None]:
    """Return the machine that ran the network, and the network's settings."""
    settings, controller = facts["settings"], facts["controller"]
    # Hosts that are machines of their own, or the machine that runs the campaign.
    machine = facts.get("ran_on", controller)
    return {
        **{name: machine[name] for name in ("kernel", "processor", "processors")},
        "commit": controller["commit"],
        **{name: settings[name] for name in ("queue_bytes", "link_rate_mbps", "paths")},
        **{name: settings["frer"][name] for name in ("history_length", "reset_ms")},
        "python": controller.get("python"),
        "member_ports": ", ".join(member_names(settings["paths"])),
        "host_ports": HOST_PORT,
        # Older records are of testbeds that had no choice.
        "elimination": settings.get("elimination", "switch"),
    }


def _simulated(facts: dict[str, Any]) -> dict[str, int | float | str | None]:
    """Return the facts of the model; its programs are modelled after the named ones."""
    settings = facts["settings"]
    return {
        **_network(facts),
        "iperf3": "as modelled",
        "sockperf": "as modelled",
        "mausezahn": "as modelled",
        "receive_buffer_bytes": settings["listener"]["receive_buffer_bytes"],
        "model_sources": facts["model_sources"],
        **dict.fromkeys(IMPORT_FACTS),
    }


def _description(facts: dict[str, Any]) -> dict[str, int | float | str | None]:
    describe = _jobs if facts.get("jobs") else _DESCRIPTIONS.get(facts["testbed"], _measured)
    return describe(facts)


def _measured(facts: dict[str, Any]) -> dict[str, int | float | str | None]:
    talker = facts["hosts"]["talker"]
    return {
        **_network(facts),
        "iperf3": talker["iperf3"].split("(")[0].strip(),
        "sockperf": talker["sockperf"].splitlines()[0].split(",")[-1].strip(),
        **{name: _version(talker.get(name)) for name in ("mausezahn", "dumpcap")},
        **{f"{name}_address": facts.get("addresses", {}).get(name) for name in (TALKER, LISTENER)},
        "receive_buffer_bytes": _sysctl(talker["sysctl"], "net.core.rmem_default"),
        # Of a rack alone: other testbeds have one kind of switch.
        "drivers": " and ".join(sorted({*facts.get("drivers", {}).values()})) or None,
        "model_sources": None,
        **dict.fromkeys(IMPORT_FACTS),
    }


def _imported(facts: dict[str, Any]) -> dict[str, int | float | str | None]:
    """Return what the data set has of its testbed; the rest is unknown."""
    settings = {name: UNKNOWN if v is None else v for name, v in facts["settings"].items()}
    return settings | {
        "model_sources": None,
        "commit": facts["importer"]["commit"],
        "description": facts["description"],
        "imported_from": facts["import"]["folder"],
        "imported_by": facts["import"]["mapping"]["name"],
    }


def _jobs(facts: dict[str, Any]) -> dict[str, int | float | str | None]:
    controller = facts["controller"]
    # Hosts that are machines of their own, or the machine that runs the campaign.
    machine = facts.get("ran_on", controller)
    return {
        **{name: machine[name] for name in ("kernel", "processor", "processors")},
        "commit": controller["commit"],
        "acceleration": facts["acceleration"],
        "iproute2": facts["iproute2"],
    }


def _virtual_machine(facts: dict[str, Any]) -> dict[str, int | float | str | None]:
    controller = facts["controller"]
    return {
        "kernel": ", ".join(facts["kernel_packages"]),
        **{name: controller[name] for name in ("processor", "processors", "commit")},
        "acceleration": facts["acceleration"],
        "qemu": facts["qemu"],
    }


_DESCRIPTIONS = {"guest": _virtual_machine, _IMPORTED: _imported, _MODEL: _simulated}


def _version(text: str | None) -> str | None:
    """Return a program's name and version as it prints them; records of old lack them."""
    found = _NAME_AND_VERSION.search(text or "")
    return f"{found[1].lower()} {found[2]}" if found else None


def _sysctl(lines: list[str], name: str) -> int | str:
    for line in lines:
        if line.startswith(f"{name} ="):
            return int(line.split("=")[1])
    return UNKNOWN
