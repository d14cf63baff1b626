"""Gates toggled within a trial: the phases, the job on hosts, and what is refused."""

import numpy as np
import pytest
from gate_lists import two_windows
from hypothesis import given
from hypothesis import strategies as st
from shaping_parts import measured_on_hosts, part

from tsnrepro.experiments.shaping import on_hosts
from tsnrepro.experiments.shaping.log import LISTENER_DTYPE, LOG, decompress, latency_us
from tsnrepro.experiments.shaping.toggles import GatePhase, phases_between, phases_of
from tsnrepro.testbeds.emulated.local_jobs import LocalJobs
from tsnrepro.testbeds.jobs.job import Pause, Step, Stop


def toggled(**changes):
    values = {"modes": ["toggled"], "toggles": 3, "switch": "bridge", "link_rate_mbps": 100.0}
    return part(**values | changes)


# --- phases -------------------------------------------------------------------------------------


def test_phases_lie_between_togglings():
    phases = phases_between([(100, 110), (200, 215)], 10, 299)
    assert phases == [
        GatePhase(True, 10, 100),
        GatePhase(False, 110, 200),
        GatePhase(True, 215, 300),
    ]


@given(st.lists(st.integers(1, 50), min_size=2, max_size=20), st.lists(st.integers(0, 400)))
def test_each_datagram_is_of_one_phase_or_was_sent_while_toggling(steps, sent):
    edges = np.cumsum(steps).tolist()
    togglings = list(zip(edges[::2], edges[1::2], strict=False))
    log = np.zeros(len(sent), LISTENER_DTYPE)
    log["sent_ns"] = sorted(sent)
    phases = phases_between(togglings, 0, 400)
    of_phases = [time for phase in phases for time in phase.of(log)["sent_ns"].tolist()]
    assert all(phase.from_ns < phase.until_ns for phase in phases)
    beside = [t for t in sorted(sent) if any(begin <= t < end for begin, end in togglings)]
    assert sorted(of_phases + beside) == sorted(sent)


def test_a_phases_first_share_can_be_left_out():
    log = np.zeros(100, LISTENER_DTYPE)
    log["sent_ns"] = np.arange(100)
    assert GatePhase(True, 20, 70).of(log, 0.1)["sent_ns"].tolist() == list(range(25, 70))


# --- what is asked for --------------------------------------------------------------------------


def test_a_toggled_part_stands_alone():
    with pytest.raises(ValueError, match="mode toggled needs a part of its own"):
        toggled(modes=["toggled", "tas"])
    with pytest.raises(ValueError, match="mode toggled and toggles need each other"):
        toggled(toggles=None)
    with pytest.raises(ValueError, match="mode toggled and toggles need each other"):
        part(toggles=2)
    with pytest.raises(ValueError, match="mode toggled needs gates"):
        toggled(gates=None)


def test_kernels_and_cards_do_not_toggle():
    with pytest.raises(ValueError, match=r"testbeds.nic-pair: only model and emulated toggle"):
        toggled(switch="kernel", testbeds={"model": {}, "nic-pair": {}})
    with pytest.raises(ValueError, match=r"testbeds.emulated: toggled needs switch: bridge"):
        toggled(switch="kernel", testbeds={"emulated": {}})


# --- on hosts -----------------------------------------------------------------------------------


def test_the_bridge_is_told_the_other_state_while_the_talker_sends():
    settings = toggled()
    job = on_hosts.job_of(settings, "toggled", 1)
    names = [
        ("stop " + step.step) if isinstance(step, Stop) else getattr(step, "name", "pause")
        for step in job.steps
    ]
    sending = names[names.index("talker") : names.index("stop talker") + 1]
    toggles = [word for n in (1, 2, 3) for word in ("pause", f"toggle-{n}")]
    assert sending == ["talker", *toggles, "pause", "stop talker"]
    told = [s.argv[-1] for s in job.steps if isinstance(s, Step) and s.name.startswith("toggle")]
    assert told == ["/tmp/bridge.disabled", "/tmp/bridge.settings", "/tmp/bridge.disabled"]
    enabled, disabled = (job.inputs[path].decode() for path in (told[1], told[0]))
    assert "\ngate 0x20 20000\n" in enabled
    assert "\ngate " not in disabled
    pauses = [step.seconds for step in job.steps if isinstance(step, Pause)]
    assert sum(pauses) > settings.packets * settings.interval_us / 1e6


@pytest.mark.namespaces
def test_a_stream_waits_for_its_gate_only_while_gates_are_enabled(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # a lock of its own
    settings = toggled(
        gates=two_windows(5_000_000, 15_000_000, scheduled=5, others=[0]),
        packets=600,
        interval_us=5_000.0,
        interval_spread_us=0.0,
    )
    with LocalJobs(purpose="the test suite") as jobs:
        measured = measured_on_hosts(jobs, settings)
    result = measured.values["result"]
    assert result["sent"] == result["received"] == 600
    phases = phases_of(measured.values)
    assert [phase.enabled for phase in phases] == [True, False, True, False]
    log = decompress(measured.outputs[LOG])
    for phase in phases:
        found = latency_us(phase.of(log, 0.1))
        assert len(found) > 50  # of 150; starting each toggle takes some off the last phase
        # Every fourth datagram is in the window; the others wait for up to three quarters of it.
        waited = np.mean(found > 2_000)
        assert waited > 0.6 if phase.enabled else waited < 0.1
