"""Changes to the files of a run after its analysis are detected, by seal and by full check."""

import json
import os
import shutil

import pytest
from analysed_run import Run

from tsnrepro.common.errors import RecordError
from tsnrepro.records.integrity import (
    changed_files,
    check_seals,
    verify,
    verify_run,
    write_sums,
)
from tsnrepro.records.store import SUMS, Trial, trial_files
from tsnrepro.records.tool_results import contradicted


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def alter(path) -> None:
    """Change one byte, as bit rot does; the size stays."""
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(bytes(data))


def messages(problems) -> list[str]:
    return [str(problem) for problem in problems]


def test_an_unchanged_run_is_sound(run, capsys):
    assert messages(changed_files(run.folder)) == []
    assert messages(verify_run(run.folder)) == []
    verify(run.folder.parents[2])
    assert f"{run.folder}: 3 trials, sound" in capsys.readouterr().out


def test_a_seal_with_sizes_and_times_of_the_outputs_is_read(run):
    """Seals have only their checksums, which alone were ever compared."""
    path = run.folder / "seal.json"
    seal = json.loads(path.read_bytes())
    assert all(isinstance(made, str) for made in seal["made"].values())
    older = {name: [[1, 2], checksum] for name, checksum in seal["made"].items()}
    path.write_text(json.dumps(seal | {"made": older}), encoding="utf-8")
    assert messages(changed_files(run.folder)) == []
    alter(run.folder / "values.json")
    assert any("values.json" in each for each in messages(changed_files(run.folder)))


@pytest.mark.parametrize("name", ["trial.json", "talker.json", SUMS])
def test_an_altered_record_stops_the_workflow(run, name):
    path = run.trials[1] / name
    alter(path)
    for problems in (changed_files(run.folder), verify_run(run.folder)):
        found = messages(problems)
        assert found
        assert all(run.trials[1].name in each for each in found)
    with pytest.raises(RecordError, match=run.trials[1].name):
        check_seals([str(run.folder)])


def test_a_consistent_record_that_the_run_does_not_list(run):
    """Changing a file and its checksum does not change the checksum in the run."""
    document = json.loads((run.trials[0] / "trial.json").read_bytes()) | {"values": {"lost": 0}}
    for name, data in trial_files(document, {"talker.json": "{}"}).items():
        (run.trials[0] / name).write_bytes(data)
    (found,) = messages(changed_files(run.folder))
    assert "not the one that the run lists" in found


@pytest.mark.parametrize("name", ["values.json", "testbed.json", "tables/summary.csv"])
def test_a_result_that_the_analysis_did_not_write_is_found(run, name):
    run.write(name, "[]\n")
    for problems in (changed_files(run.folder), verify_run(run.folder)):
        (found,) = messages(problems)
        assert f"not what the analysis wrote ({run.folder / name})" in found


def test_a_change_of_equal_size_and_time_is_found_by_verify_only(run):
    path = run.trials[2] / "trial.json"
    times = path.stat()
    alter(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert messages(changed_files(run.folder)) == []
    with pytest.raises(RecordError, match="altered"):
        verify(run.folder)


def test_a_result_of_equal_size_and_time_is_found_at_each_start(run):
    path = run.folder / "tables" / "summary.csv"
    times = path.stat()
    alter(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    (found,) = messages(changed_files(run.folder))
    assert "not what the analysis wrote" in found


def test_a_copy_with_new_times_is_still_the_record(run):
    for path in [*run.store.folder.rglob("*"), *run.folder.rglob("*.csv")]:
        os.utime(path)
    assert messages(changed_files(run.folder)) == []


def test_the_remedies_work(run):
    """After the files are removed the run is not up to date any more, so they are made again."""
    shutil.rmtree(run.trials[0])
    (found,) = messages(changed_files(run.folder))
    assert f"remove the trial's folder and {run.folder / 'run.json'}" in found
    kept = (run.folder / "run.json").read_bytes()
    (run.folder / "run.json").unlink()
    assert messages(changed_files(run.folder)) == []
    (run.folder / "run.json").write_bytes(kept)
    (run.folder / "values.json").unlink()
    assert messages(changed_files(run.folder)) == []


def test_a_run_that_was_measured_again_is_left_to_its_analysis(run):
    path = run.folder / "run.json"
    manifest = json.loads(path.read_bytes())
    manifest["trials"].pop()
    run.write("run.json", json.dumps(manifest))
    assert messages(changed_files(run.folder)) == []
    os.utime(path, ns=(0, 0))
    (found,) = messages(changed_files(run.folder))
    assert "not the one that was analysed" in found


def test_trials_of_other_runs_and_copies_are_named(run):
    shutil.copytree(run.trials[0], run.store.folder / "copied")
    (run.store.folder / "empty").mkdir()
    foreign = json.loads((run.trials[0] / "trial.json").read_bytes()) | {"campaign": "other"}
    place = run.store.folder / "foreign"
    place.mkdir()
    for name, data in trial_files(foreign, {}).items():
        (place / name).write_bytes(data)
    found = "\n".join(messages(verify_run(run.folder)))
    assert "its factors belong to frer-1472B-500M-r1" in found
    assert "a copy of trial" in found
    assert "it was measured as campaign other" in found
    assert f"a file of the record is missing ({place.parent / 'empty' / SUMS})" in found
    assert messages(changed_files(run.folder)) == []  # nothing uses them


def test_a_trial_that_is_listed_twice_is_named(run):
    manifest = json.loads((run.folder / "run.json").read_bytes())
    manifest["trials"].append(manifest["trials"][0])
    run.write("run.json", json.dumps(manifest))
    found = "\n".join(messages(verify_run(run.folder)))
    assert "2 times" in found
    assert "not the one that was analysed" in found


def test_forged_facts_of_the_testbed_are_refused(run):
    facts = json.loads(run.environment.read_bytes()) | {"processor": "a faster one"}
    run.environment.write_text(json.dumps(facts))
    (found,) = messages(verify_run(run.folder))
    assert "do not match their digest" in found
    with pytest.raises(RecordError, match="do not match their digest"):
        run.store.environment(run.environment.stem)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"run": 1}', "\x00"])
def test_an_altered_seal_is_an_error(run, text):
    run.write("seal.json", text)
    with pytest.raises(RecordError, match="the seal was altered"):
        check_seals([str(run.folder)])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"folder": "x", "trials": [1]}', "\x00"])
def test_an_invalid_manifest_is_an_error(run, text):
    run.write("run.json", text)
    with pytest.raises(RecordError, match=r"run\.json"):
        list(verify_run(run.folder))


def test_nothing_to_verify_is_an_error(tmp_path):
    with pytest.raises(RecordError, match="there is no run"):
        verify(tmp_path)


# --- generated files ---------------------------------------------------------------------------


@pytest.fixture
def paper(run):
    """Return the folder of a paper's generated files beside an analysed run."""
    folder = run.folder.parents[2] / "papers" / "one"
    (folder / "figures").mkdir(parents=True)
    (folder / "values.tex").write_text("934.7")
    (folder / "figures" / "loss.pdf").write_text("%PDF")
    write_sums(folder / "inputs.sha256", [folder / "values.tex", folder / "figures" / "loss.pdf"])
    return folder


@pytest.mark.parametrize("name", ["values.tex", "figures/loss.pdf"])
def test_a_generated_file_that_was_edited_is_found(run, paper, name):
    results = paper.parents[1]
    verify(results)
    check_seals([str(run.folder)], [str(paper)])
    (paper / name).write_text("1666.6")
    with pytest.raises(RecordError, match=f"not what the workflow wrote.*{name}"):
        verify(results)
    with pytest.raises(RecordError, match=f"not what the workflow wrote.*{name}"):
        check_seals([str(run.folder)], [str(paper)])


def test_a_generated_file_that_is_missing_is_made_again(run, paper):
    (paper / "values.tex").unlink()
    check_seals([str(run.folder)], [str(paper)])
    with pytest.raises(RecordError, match=r"generated file is missing.*values\.tex"):
        verify(paper.parents[1])


def test_a_list_of_checksums_names_no_file_elsewhere(paper):
    (paper / "inputs.sha256").write_text(f"{'0' * 64}  ../../../../etc/passwd\n")
    with pytest.raises(RecordError, match="list of checksums was altered"):
        verify(paper.parents[1])


# --- facts and values of every trial -------------------------------------------------------------


def measured(run, number, label, document, outputs, environment=None):
    """Put a trial into the record of a run."""
    trial = Trial("loss", label, {"configuration": "control"}, number)
    names = {"testbed": "model", "campaign": "quick", "experiment": "loss", "label": label}
    document |= names | {"factors": trial.factors, "repetition": number, "attempt": 1}
    return run.store.put(trial, 1, document | {"environment": environment}, outputs)


def test_facts_of_the_hosts_of_any_trial_are_verified(run):
    digest = run.store.put_environment({"testbed": "model", "settings": {"paths": 3}})
    measured(run, 7, "control", {"values": {}}, {}, digest)
    assert messages(verify_run(run.folder)) == []
    alter(run.environment.with_name(f"{digest}.json"))
    (found,) = messages(verify_run(run.folder))
    assert digest in found


def iperf3_json(received: int) -> str:
    """Return what iperf3 prints of 1000 datagrams of 100 bytes in a second."""
    received_sum = {"bytes": 100 * received, "jitter_ms": 0.1}
    streams = [{"udp": {"out_of_order": 0}}]
    return json.dumps(
        {
            "start": {"test_start": {"blksize": 100}},
            "end": {"sum_sent": {"seconds": 1.0, "packets": 1000}, "sum_received": received_sum},
            "server_output_json": {"end": {"streams": streams}},
        }
    )


@pytest.mark.parametrize(
    ("key", "value"), [("received", 1000), ("lost", 0), ("delivered_mbps", 1.6)]
)
def test_a_value_that_the_tools_output_contradicts_is_found(run, key, value):
    """Even where every checksum was computed again."""
    result = {"sent": 1000, "received": 990, "lost": 10, "delivered_mbps": 0.792}
    outputs = {"iperf3.json": iperf3_json(990)}
    measured(run, 8, "sound", {"values": {"result": result}}, outputs)
    assert messages(verify_run(run.folder)) == []
    measured(run, 9, "forged", {"values": {"result": result | {key: value}}}, outputs)
    (found,) = messages(verify_run(run.folder))
    assert f"not that of the tool's output: {key} is {value}" in found
    assert "forged-r9" in found


PING = """\
PING 192.0.2.2 (192.0.2.2) 56(84) bytes of data.
64 bytes from 192.0.2.2: icmp_seq=1 ttl=64 time=0.250 ms
64 bytes from 192.0.2.2: icmp_seq=3 ttl=64 time=0.750 ms

--- 192.0.2.2 ping statistics ---
3 packets transmitted, 2 received, 33.3333% packet loss, time 2000ms
rtt min/avg/max/mdev = 0.250/0.500/0.750/0.250 ms
"""


@pytest.mark.parametrize("changes", [{}, {"received": 3}, {"median_us": 200.0}, {"max_us": 75.0}])
def test_values_of_ping_are_derived_again(tmp_path, changes):
    (tmp_path / "ping.txt").write_text(PING)
    times = {"min_us": 250.0, "median_us": 250.0, "p99_us": 750.0, "max_us": 750.0}
    result = {"sent": 3, "received": 2} | times | changes
    document = {"experiment": "ping", "values": {"result": result}}
    found = list(contradicted(tmp_path, document))
    assert [message.split()[0] for message in found] == list(changes)


TALKER = {"tool": "talker", "sent": 1000, "late": 3, "payload_bytes": 100}
STREAM = {"port": 5202, "unique": 990, "duplicates": 2, "out_of_order": 4}


@pytest.mark.parametrize(
    "changes", [{}, {"sent": 990}, {"unique": 1000}, {"reordered": 0}, {"late": 0}]
)
def test_counts_of_our_programs_are_read_again(tmp_path, changes):
    (tmp_path / "run-001-talker.json").write_text(json.dumps(TALKER))
    listener = tmp_path / "run-001-listener.json"
    listener.write_text(json.dumps({"tool": "listener", "streams": [STREAM]}))
    counts = {"sent": 1000, "unique": 990, "lost": 10, "duplicated": 2, "reordered": 4, "late": 3}
    document = {"experiment": "failure", "values": {"result": counts | changes}}
    found = list(contradicted(tmp_path, document))
    assert [message.split()[0] for message in found] == list(changes)
    # A sum over streams is compared with none of them.
    listener.write_text(json.dumps({"tool": "listener", "streams": [STREAM, STREAM]}))
    document["values"]["result"] = counts | {"unique": 1980}
    assert list(contradicted(tmp_path, document)) == []


@pytest.mark.parametrize("changes", [{}, {"offered": 999}, {"received": 1000}])
@pytest.mark.parametrize("place", [0, 1])
def test_load_trials_of_rfc2544_are_derived_again(tmp_path, place, changes):
    found = [{"offered": 1000, "received": 990, "lost": 10}, {"offered": 500, "received": 500}]
    for number, one in enumerate(found, start=1):
        (tmp_path / f"run-{number:03d}-talker.json").write_text(
            json.dumps(TALKER | {"sent": one["offered"]})
        )
        (tmp_path / f"run-{number:03d}-listener.json").write_text(
            json.dumps({"tool": "listener", "streams": [STREAM | {"unique": one["received"]}]})
        )
    found[place] |= changes
    document = {"experiment": "rfc2544", "values": {"trials": found, "result": {"loss": 1}}}
    said = list(contradicted(tmp_path, document))
    assert [message.split()[0] for message in said] == list(changes)
    assert all(f"run-00{place + 1}-" in message for message in said)


@pytest.mark.parametrize("achieved", [5000.0, 5050.0])
def test_the_rate_of_mausezahn_is_derived_again(tmp_path, achieved):
    samples = [[0.1 * n, min(500 * n, 2200)] for n in range(8)]
    (tmp_path / "samples.json").write_text(json.dumps(samples))
    document = {"experiment": "mausezahn", "values": {"result": {"achieved_pps": achieved}}}
    assert len(list(contradicted(tmp_path, document))) == (achieved != 5000)
    (tmp_path / "samples.json").write_text("[1, 2")
    assert "no samples" in next(contradicted(tmp_path, document))
