"""Keys and kinds that were renamed: former names are read with one notice, and stay in records."""

import copy
import json
from importlib import import_module
from pkgutil import walk_packages

import pytest
import yaml

import tsnrepro
from tsnrepro.cli.schemas import described_by
from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config import RackSettings, load, load_testbed, parse
from tsnrepro.config.base import CURRENT_KINDS, ConfigModel
from tsnrepro.config.campaigns import Campaign, Selection
from tsnrepro.config.papers import Sources
from tsnrepro.experiments.rfc2544.plan import Factors as Rfc2544Factors
from tsnrepro.experiments.rfc2544.plan import plan as rfc2544_plan
from tsnrepro.experiments.shaping.plan import Factors as ShapingFactors
from tsnrepro.experiments.shaping.plan import plan as shaping_plan
from tsnrepro.experiments.studies.study import Study
from tsnrepro.imports.mapping import ImportMapping
from tsnrepro.records.store import RawStore
from tsnrepro.results.testbed import facts_of, label_of

ACCESS = {"address": "192.0.2.1"}
LAN966X = {
    **ACCESS,
    "driver": "lan966x",
    "host_port": {"device": "eth4", "chip_port": 4},
    "member_ports": [{"device": "eth1", "chip_port": 1}],
}
OTHER_LAN966X = LAN966X | {"address": "192.0.2.4"}
TALKER = {"address": "192.0.2.2", "interface": "eth0", "ipv4": "10.0.0.1"}
LISTENER = {"address": "192.0.2.3", "interface": "eth0", "ipv4": "10.0.0.2"}
PTP = {"lock_timeout_s": 5.0, "max_clock_error_ns": 9}
GATES = {"entries": [{"open_classes": [5], "interval_ns": 50_000}], "cycle_time_ns": 50_000}
SIZES = {"repetitions": 2, "max_repetitions": 4, "ratio_precision_percent": 1.0}
FILES = {
    "emulated": (
        load_testbed,
        {"kind": "emulated", "listener_sched_fifo": True, "trace_drops": False},
    ),
    "rack": (
        load_testbed,
        {
            **{"kind": "rack", "jump_host": ACCESS, "lease_minutes": 5},
            **{"rx_timestamping": "hardware", "listener_sched_fifo": True},
            "ptp": PTP | {"interfaces": {"talker": "eth9", "listener": "eth9"}},
            "hosts": {"talker": TALKER, "listener": LISTENER, "sw1": LAN966X, "sw2": OTHER_LAN966X},
        },
    ),
    "nic-pair": (
        load_testbed,
        {"kind": "nic-pair", "ptp": PTP, "hosts": {"talker": TALKER, "listener": LISTENER}},
    ),
    "model": (
        load_testbed,
        {
            **{"kind": "model", "propagation_delay_ns": 5.0, "forwarding_delay_us": 2.0},
            "talker": {"send_us": 1.0},
            "listener": {"receive_us": 1.0, "stack_us": 1.0},
        },
    ),
    "campaign": (
        lambda path: load(Campaign, path),
        {
            **{"description": "a campaign", "compare_with": ["guest"]},
            "loss": {
                "repetitions": 2,
                "parts": [
                    SIZES
                    | {"objective": "limit", "payload_bytes": 1472, "rates_mbps": [100.0]}
                    | {"duration_s": 1.0, "listener_sched_fifo": [True]}
                ],
            },
            "latency": SIZES | {"payloads_bytes": [64], "duration_s": 1},
            "rfc2544": {
                **{"line_rate_trial_s": 0.5, "rfc2544_waits": True},
                "throughput": {
                    **{"frames_bytes": [512], "include_r_tag": True},
                    "mlrsearch": {"min_load_percent": 2.0},
                    "systematic": {"max_refinements": 2},
                },
                "back_to_back": {"max_burst_s": 0.5},
            },
            "occupancy": {
                **{"repetitions": 1, "rates_mbps": [100.0], "duration_s": 1.0},
                "buffer_allocation": ["shared"],
            },
            "shaping": {
                "repetitions": 1,
                "parts": [
                    {
                        **{"name": "a", "kind": "end-station", "modes": ["tas", "etf"]},
                        **{"gates": GATES, "payload_bytes": 64, "packets": 9, "interval_us": 9.0},
                        "txtime_offset_us": 7.0,
                        "testbeds": {"nic-pair": {"txtime_offset_us": 8.0}},
                    }
                ],
            },
        },
    ),
    "study": (
        lambda path: load(Study, path),
        {
            **{"description": "a study", "duration_s": 0.1, "replications": 1},
            "measure": {"kind": "threshold", "min_rate_mbps": 3.0},
            "parts": {"all": {"factors": {"payload_bytes": [64]}}},
        },
    ),
    "import": (
        lambda path: load(ImportMapping, path),
        {
            "description": "a mapping",
            "tables": {
                "a": {
                    **{"files": ["*"], "format": "csv", "experiment": "latency"},
                    "fields": {"configuration": "frer", "payload_bytes": 64},
                    **{"latency_quantity": "one way", "ignored_columns": {"sd": "a guess"}},
                }
            },
            "ignored_files": [{"files": ["*.txt"], "reason": "notes"}],
        },
    ),
    "sources": (
        lambda path: load(Sources, path),
        {
            **{"document": "frer-udp", "experiments": ["loss"], "columns": {"a": "selected"}},
            **{"optional_experiments": ["tcp"], "optional_columns": {"b": "guest"}},
            "testbed_kinds": ["rack", "nic-pair"],
        },
    ),
}


KINDS = {new: old for old, new in CURRENT_KINDS.items()}


def renamed_keys() -> dict[str, set[str]]:
    """Return the former names of every key that was renamed, by today's name."""
    for module in walk_packages(tsnrepro.__path__, "tsnrepro."):
        if module.name.endswith((".settings", ".study", ".mapping")):
            import_module(module.name)
    models: list[type[ConfigModel]] = [ConfigModel]
    found: dict[str, set[str]] = {}
    for model in models:
        models += model.__subclasses__()
        for name, field in model.model_fields.items():
            if field.serialization_alias:
                found.setdefault(name, set()).add(field.serialization_alias)
    return found


RENAMED = renamed_keys()


def places(values, above=()):
    """Yield the place of every key and item of nested values."""
    for key in list(values) if isinstance(values, dict) else range(len(values)):
        yield (*above, key)
        if isinstance(values[key], dict | list):
            yield from places(values[key], (*above, key))


def former_of(name, place):
    """Return the former name of the key at a place of a file, None where it was not renamed."""
    key = place[-1]
    if len(RENAMED.get(key, ())) == 2:  # a testbed's, and the list of values that a part tries
        return "realtime_listeners" if name == "campaign" else "realtime_listener"
    return next(iter(RENAMED.get(key, ())), KINDS.get(key))


def written_before():
    """Yield every file with one key, or kind of testbed, as it was written before."""
    for name, (_, values) in FILES.items():
        for place in places(values):
            file = copy.deepcopy(values)
            node = file
            for step in place[:-1]:
                node = node[step]
            key = place[-1]
            if old := former_of(name, place):
                node[old], new = node.pop(key), key
            elif isinstance(node[key], str) and node[key] in KINDS:
                new = node[key]
                node[key] = old = KINDS[new]
            else:
                continue
            yield pytest.param(name, old, new, file, id="-".join(map(str, (name, *place))))


def read(name, values, folder):
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return FILES[name][0](path)


@pytest.mark.parametrize(("name", "old", "new", "file"), [*written_before()])
def test_a_former_name_is_read_with_one_notice(name, old, new, file, tmp_path, capsys):
    today = read(name, FILES[name][1], tmp_path)
    assert capsys.readouterr().err == ""
    assert read(name, file, tmp_path) == today
    assert read(name, file, tmp_path) == today
    (notice,) = capsys.readouterr().err.splitlines()
    assert notice.startswith(f"{tmp_path / name}.yaml: {old} is now {new};")


def test_every_former_name_is_tried():
    tried = {(case.values[1], case.values[2]) for case in written_before()}
    assert tried >= {(old, new) for new, names in RENAMED.items() for old in names}
    assert tried >= {*CURRENT_KINDS.items()}


READERS = {
    "selection": Selection,
    "campaign": Campaign,
    "study": Study,
    "import": ImportMapping,
    "sources": Sources,
}


@pytest.mark.parametrize(
    ("name", "path"),
    [(name, path) for name in [*READERS, "testbed"] for path in described_by(name)],
)
def test_the_repositorys_files_have_todays_names(name, path, capsys):
    load(READERS[name], path) if name in READERS else load_testbed(path)
    assert capsys.readouterr().err == ""


def test_several_former_names_are_one_notice(tmp_path, capsys):
    old = {"kind": "emulated", "realtime_listener": True, "locate_drops": False}
    assert read("emulated", old, tmp_path).listener_sched_fifo
    (notice,) = capsys.readouterr().err.splitlines()
    assert (
        "locate_drops is now trace_drops, realtime_listener is now listener_sched_fifo;" in notice
    )


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        (
            "emulated",
            {"locate_drops": True},
            "file: locate_drops is the former name of trace_drops",
        ),
        ("emulated", {"realtime_listener": True}, "give listener_sched_fifo alone"),
        ("sources", {"also": ["ping"]}, "also is the former name of optional_experiments"),
    ],
)
def test_both_names_at_once_are_refused(name, change, says, tmp_path):
    with pytest.raises(ConfigurationError, match=says):
        read(name, FILES[name][1] | change, tmp_path)


@pytest.mark.parametrize(
    ("name", "old", "value", "says"),
    [
        ("emulated", "locate_drops", "maybe", "locate_drops: Input should be a valid boolean"),
        ("rack", "jump", {"address": "a", "port": 0}, "jump.port: Input should be greater"),
        ("rack", "jump", {"adress": "a"}, "jump.adress: Extra inputs"),
        ("model", "switch_us", {"low": 2, "high": 1}, "switch_us.range: low 2 is above high 1"),
    ],
)
def test_an_error_names_the_key_as_it_was_written(name, old, value, says, tmp_path):
    (new,) = {new for new, names in RENAMED.items() if old in names}
    values = {key: value for key, value in FILES[name][1].items() if key != new} | {old: value}
    with pytest.raises(ConfigurationError) as error:
        read(name, values, tmp_path)
    assert says in error.value.what
    if "Extra" in says:
        assert error.value.remedy == "Known keys of jump: address, port, user, key_file"


def test_a_kind_in_a_part_is_named_as_it_was_written(tmp_path):
    values = copy.deepcopy(FILES["campaign"][1])
    values["shaping"]["parts"][0]["testbeds"] = {"cards": {"packets": 0}}
    with pytest.raises(ConfigurationError, match=r"shaping\.parts\.0\.testbeds\.cards\.packets:"):
        read("campaign", values, tmp_path)


def test_records_keep_former_names(tmp_path, capsys):
    """Trials are named by a digest of what they record, and read without a notice."""
    settings = read("campaign", FILES["campaign"][1], tmp_path)
    planned = [item.trial.factors for item in rfc2544_plan(settings.rfc2544, 1, "model")]
    burst = next(factors for factors in planned if factors["benchmark"] == "back-to-back")
    assert (burst["ceiling_s"], burst["full_waits"]) == (0.5, True)
    assert burst["settings"] == {"longest_s": 0.5, "searches": 50, "resolution_percent": 1.0}
    assert Rfc2544Factors.read(burst).method_settings.max_burst_s == 0.5
    gated = shaping_plan(settings.shaping, 1, "nic-pair")[0].trial.factors
    assert (gated["launch_phase_us"], gated["gates"]["cycle_ns"]) == (8.0, 50_000)
    assert ShapingFactors.read(gated).part.txtime_offset_us == 8.0
    model = read("model", FILES["model"][1], tmp_path).recorded()
    assert (model["cable_ns"], model["switch_us"]) == (5.0, 2.0)
    assert capsys.readouterr().err == ""


def test_a_journal_of_before_is_read_without_a_notice(capsys):
    settings = load_testbed(root() / "config" / "testbeds" / "d10-example.yaml")
    before = settings.recorded() | {"kind": "hardware"}
    assert parse(RackSettings, before, "a journal", from_record=True) == settings
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("kind", "says"), [("hardware", "rack testbed"), ("cards", "NIC pair")])
def test_a_record_of_before_has_todays_kind(kind, says, tmp_path):
    store = RawStore(tmp_path / "data", "mine", "quick", "loss")
    digest = store.put_environment({"testbed": kind, "settings": {}})
    manifest = {
        **{"testbed": "mine", "campaign": "quick", "experiment": "loss", "environment": digest},
        **{"folder": "data/mine/quick/loss", "trials": []},
    }
    (tmp_path / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert label_of(tmp_path / "run.json").startswith(says)
    assert facts_of(tmp_path / "run.json")[1]["testbed"] == CURRENT_KINDS[kind]
