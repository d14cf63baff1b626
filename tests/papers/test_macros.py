"""The generated inputs of a manuscript."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from synthetic_results import COMMIT, data_sources_of, entry, write_results, write_run

from tsnrepro.common.code_digest import code_digest
from tsnrepro.common.errors import PublishError
from tsnrepro.common.latex import breakable, escape
from tsnrepro.config.papers import sources_of
from tsnrepro.papers import macros
from tsnrepro.papers.data_sources import DataSource, DataSources
from tsnrepro.papers.macros import write_paper_inputs

REPOSITORY = Path(__file__).resolve().parents[2]
PAPER = REPOSITORY / "paper" / "frer-udp"
NAMES = [f"control-{i}-r1-0123456789-a1" for i in range(9)]


@pytest.fixture
def written(tmp_path):
    """Write the inputs of a small manuscript and return its folder."""

    def write(text, items=(), figures=(), **others):
        facts = [entry("testbed.commit", COMMIT)]
        write_run(tmp_path / "tcp", list(items), facts)
        for name, found in others.items():
            write_run(tmp_path / name / "tcp", found, facts)
        for name in figures:
            path = tmp_path / "tcp" / "figures" / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"figure")
        manuscript = tmp_path / "frer-udp"
        manuscript.mkdir(exist_ok=True)
        (manuscript / "main.tex").write_text(text)
        folders = {"measured": tmp_path, **{name: tmp_path / name for name in others}}
        sources = [DataSource(name, {"tcp": folder / "tcp"}) for name, folder in folders.items()]
        write_paper_inputs(manuscript, tmp_path / "out", DataSources(sources))
        return tmp_path / "out"

    return write


def fields(path, key):
    lines = path.read_text().splitlines()
    start = f"\\tsnset{{{key}}}{{"
    pairs = [line.removeprefix(start).split("}{", 1) for line in lines if line.startswith(start)]
    return {name: text.removesuffix("}") for name, text in pairs}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            r"\pub{table-4-1/frer-dual-path/throughput_mbps}",
            "table-4-1/frer-dual-path/throughput_mbps",
        ),
        (r"\tablerows{tables/loss-rows.tex}", r"tables/loss-rows\.tex"),
    ],
)
def test_a_paper_of_no_document_prints_cells_by_their_whole_path(written, monkeypatch, text, found):
    sources = sources_of("frer-udp").model_copy(update={"document": None})
    monkeypatch.setattr(macros, "sources_of", lambda _: sources)
    with pytest.raises(PublishError, match=rf"{found}.*names none \(main.tex:1"):
        written(text)
    key = "frer-udp/table-4-1/frer-dual-path/throughput_mbps"
    assert fields(written(rf"\pub{{{key}}}") / "published.tex", key)["raw"]


def test_a_measured_value_has_every_field(written):
    item = entry("tcp.x.mbps", 12345.67, -0.004, 20000.0, unit="Mb/s", digits=1)
    found = fields(written(r"\val{tcp.x.mbps}", [item]) / "values.tex", "tcp.x.mbps")
    assert found == {
        "print": r"12\,345.7",
        "lo": "0.0",
        "hi": r"20\,000.0",
        "bounds": r"[0.0,~20\,000.0]",
        "interval": r"12\,345.7 [0.0,~20\,000.0]",
        "unit": "Mb/s",
        "decimals": "1",
        "raw": "12345.67",
        "rawlo": "(-0.004)",
        "rawhi": "20000.0",
    }


def test_limits_that_print_as_the_value_are_left_out_of_a_cell_of_their_own(written):
    item = entry("tcp.x.us", 2.301, 2.299, 2.302, unit="us", digits=2)
    found = fields(written(r"\bounds{tcp.x.us}", [item]) / "values.tex", "tcp.x.us")
    assert (found["print"], found["bounds"], found["interval"]) == ("2.30", "--", "2.30")


def test_words_are_escaped_and_have_no_number(written):
    item = entry("testbed.kernel", "6.1_x #1 & 100%")
    found = fields(written(r"\val{testbed.kernel}", [item]) / "values.tex", "testbed.kernel")
    assert found["print"] == found["raw"] == r"6.1\_x \#1 \& 100\%"
    assert found["rawlo"] == "nil"


def test_an_unknown_value_is_a_dash_and_nil(written):
    found = fields(written(r"\val{a.b}", [entry("a.b", None)]) / "values.tex", "a.b")
    assert found["print"] == found["bounds"] == "--"
    assert found["raw"] == found["rawhi"] == "nil"


def test_a_published_cell_keeps_its_printed_digits_and_sign(written):
    text = r"\pub{table-4-3/64/frer_loss_percent} \pub{table-4-4/average/difference_percent}"
    path = written(text) / "published.tex"
    assert fields(path, "table-4-3/64/frer_loss_percent")["print"] == r"\ensuremath{\sim}0.5"
    found = fields(path, "table-4-4/average/difference_percent")
    assert found["print"] == r"\ensuremath{-}0.8"
    assert found["raw"] == "(-0.8)"
    assert found["unit"] == r"\%"


def test_cells_of_other_documents_are_named_in_full(written):
    key = "methodology/section-2-3-results/phase-3-535/packets_lost"
    (cell,) = json.loads((written(rf"\pub{{{key}}}") / "provenance.json").read_text())["published"]
    assert (cell["key"], cell["document"], cell["row"]) == (key, "methodology", "phase-3-535")
    assert cell["cell"] == {
        "value": 1420,
        "printed": "1420",
        "unit": "packets",
        "origin": cell["cell"]["origin"],
        "qualifier": None,
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (r"\val{tcp.none}", r"tcp\.none.*main\.tex:1"),
        (r"\pub{table-4-1/single-path/throughput}", r"throughput_mbps.*main\.tex:1"),
        (r"\pub{table-4-9/a/b}", r"table-4-9.*main\.tex:1"),
        (r"\pub{one/two}", r"table/row/column.*main\.tex:1|one/two.*main\.tex:1"),
        (r"\measuredfigure{tcp/none}", r"tcp/none.*main\.tex:1"),
        (r"\tablerows{tables/other.tex}", r"tables/other\.tex"),
    ],
)
def test_an_unknown_name_is_an_error_with_its_place(written, text, says):
    with pytest.raises(PublishError, match=says):
        written(text)


def test_the_appendix_has_the_used_values_only(written):
    items = [
        entry("tcp.used", 1.0, run="tcp", names=NAMES[:6]),
        entry("tcp.many", 2.0, run="tcp", names=NAMES),
        entry("tcp.idle", 3.0, run="tcp", names=NAMES),
    ]
    output = written(r"\val{tcp.used}\lo{tcp.many}\measuredfigure{tcp/f}", items, ["f.pdf"])
    text = (output / "provenance.tex").read_text()
    assert text.count(r"\measuredvalue{tcp.used}") == text.count(r"\measuredvalue{tcp.many}") == 1
    assert "tcp.idle" not in text
    assert all(breakable(name) in text for name in (*NAMES[:6], NAMES[8]))
    assert breakable(NAMES[7]) not in text
    assert items[1]["sha256"][:16] in text
    assert "0123456789ab+changes" in text
    assert r"\printedfile{tcp/f}{tcp/\allowbreak{}f.\allowbreak{}pdf}" in text


def test_values_that_no_trial_gives_share_a_row_of_the_appendix(written):
    keys = [f"tcp.many.n{number}" for number in range(14)]
    items = [entry(key, None, run="tcp", names=[]) for key in keys]
    output = written("".join(rf"\val{{{key}}}" for key in keys), items)
    text = (output / "provenance.tex").read_text()
    rows = [line for line in text.splitlines() if line.startswith(r"\unknownvalues")]
    assert [row.count(r"\unknownvalue{") for row in rows] == [12, 2]
    assert all(rf"\unknownvalue{{{key}}}" in text for key in keys)
    assert r"\measuredvalue" not in text


def test_a_printed_figure_has_its_program_and_trials(written):
    output = written(r"\measuredfigure{tcp/f}", figures=["f.pdf"])
    (printed,) = json.loads((output / "provenance.json").read_text())["files"]
    listed = (output.parent / "tcp" / "run.json").read_bytes()
    assert printed["made"] == {
        "rule": "analyse",
        "program": "notebooks/analyse/tcp.ipynb",
        "code": code_digest("notebooks/analyse/tcp.ipynb"),
        "experiment": "tcp",
        "trials": len(json.loads(listed)["trials"]),
        "run": hashlib.sha256(listed).hexdigest(),
    }
    text = (output / "provenance.tex").read_text()
    assert printed["made"]["code"] in text
    assert printed["made"]["run"][:16] in text


def test_the_json_has_all_trials_and_full_checksums(written):
    item = entry("tcp.many", 2.0, run="tcp", names=NAMES)
    output = written(r"\val{tcp.many} \pub{table-4-1/single-path/throughput_mbps}", [item])
    record = json.loads((output / "provenance.json").read_text())
    assert record["commit"] == COMMIT
    assert record["measured"] == [item | {"printed_at": ["main.tex:1"], "commits": [COMMIT]}]
    (cell,) = record["published"]
    assert cell["cell"]["origin"] == "Table 4.1, row Single-Path"
    assert cell["cell"]["printed"] == "941.0"
    assert str(REPOSITORY) not in json.dumps(record)


def test_values_without_a_commit_are_an_error(tmp_path):
    write_run(tmp_path / "tcp", [entry("a.b", 1)], [])
    sources = DataSources([DataSource("measured", {"tcp": tmp_path / "tcp"})])
    (tmp_path / "frer-udp").mkdir()
    (tmp_path / "frer-udp" / "main.tex").write_text(r"\val{a.b}")
    with pytest.raises(PublishError, match=r"testbed\.commit"):
        write_paper_inputs(tmp_path / "frer-udp", tmp_path / "out", sources)


def test_a_declared_key_that_was_not_measured_is_a_dash_with_a_reason(written):
    output = written(r"\val{tcp.goodput.frer.mbps}\val{loss.threshold.ratio}")
    found = fields(output / "values.tex", "tcp.goodput.frer.mbps")
    assert found["print"] == "--"
    record = json.loads((output / "provenance.json").read_text())
    reasons = {item["key"]: item["method"] for item in record["measured"]}
    assert reasons["tcp.goodput.frer.mbps"] == "not measured: this campaign's tcp does not give it"
    assert "has no experiment loss" in reasons["loss.threshold.ratio"]


def test_a_declared_figure_that_was_not_drawn_is_no_error(written):
    output = written(r"\measuredfigure{loss/where-lost}")
    assert not list((output / "figures").rglob("*.pdf"))


def test_another_data_source_is_a_prefix(written):
    text = r"\val{tcp.x.mbps}\val{simulated.tcp.x.mbps}"
    items = [entry("tcp.x.mbps", 1.0, run="tcp", names=NAMES[:1])]
    modelled = [entry("tcp.x.mbps", 2.0, run="tcp", names=NAMES[1:2])]
    output = written(text, items, simulated=modelled)
    assert fields(output / "values.tex", "tcp.x.mbps")["print"] == "1"
    assert fields(output / "values.tex", "simulated.tcp.x.mbps")["print"] == "2"
    groups = (output / "provenance.tex").read_text()
    assert groups.index("tcp, measured") < groups.index("tcp, simulated")


COMMITS = {"tcp": "a" * 40, "mausezahn": "b" * 40, "simulated": "c" * 40}


def test_each_group_of_trials_names_the_commits_of_its_own_runs(tmp_path):
    ratio = "tools.tcp.frer.to_mausezahn"
    keys = ("tcp.goodput.frer.mbps", "mausezahn.frame_1518.frer.achieved_frame_mbps")
    manuscript, runs = tmp_path / "frer-udp", {}
    manuscript.mkdir()
    for number, name in enumerate(COMMITS):
        experiment = "tcp" if name == "simulated" else name
        key = keys[experiment == "mausezahn"]
        item = entry(key, 500.0, 490.0, 510.0, run=experiment, names=NAMES[number : number + 1])
        runs[name] = tmp_path / name / experiment
        write_run(runs[name], [item], [entry("testbed.commit", COMMITS[name])])
    both = {name: runs[name] for name in ("tcp", "mausezahn")}
    (tmp_path / "study").mkdir()
    study = entry("study.third.hosts", "nowhere", names=["study.csv"])
    (tmp_path / "study" / "values.json").write_text(json.dumps([study]), encoding="utf-8")
    sources = [DataSource("measured", both), DataSource("simulated", {"tcp": runs["simulated"]})]
    printed = (*keys, ratio, f"simulated.{keys[0]}", "study.third.hosts")
    (manuscript / "main.tex").write_text("".join(rf"\val{{{key}}}" for key in printed))
    output = tmp_path / "out"
    write_paper_inputs(manuscript, output, DataSources(sources, tmp_path / "study"))

    found = {
        item["key"]: item["commits"]
        for item in json.loads((output / "provenance.json").read_text())["measured"]
    }
    assert found == {
        keys[0]: [COMMITS["tcp"]],
        keys[1]: [COMMITS["mausezahn"]],
        f"simulated.{keys[0]}": [COMMITS["simulated"]],
        ratio: [COMMITS["mausezahn"], COMMITS["tcp"]],
        # The record of a study has no commit.
        "study.third.hosts": [],
    }
    groups = re.findall(
        r"\\trialgroup\{([^}]*)\}.*\{([^}]*)\}\n", (output / "provenance.tex").read_text()
    )
    assert dict(groups) == {
        "tcp, measured": "a" * 12,
        "mausezahn, measured": "b" * 12,
        "tcp, simulated": "c" * 12,
        "mausezahn+tcp, measured": f"{'b' * 12}, {'a' * 12}",
        "": "--",
    }


def test_all_names_of_the_manuscript_exist(tmp_path):
    results = write_results(tmp_path)
    write_paper_inputs(PAPER, tmp_path / "out", data_sources_of(results))
    record = json.loads((tmp_path / "out" / "provenance.json").read_text())
    tables = {item["table"] for item in record["published"]}
    assert {f"table-{name}" for name in ("4-1", "4-2", "4-3", "4-4", "a-1", "a-2", "a-3")} <= tables
    assert {item["path"] for item in record["files"]} >= {"loss/loss-against-load.pdf"}


def test_equal_results_give_equal_files(tmp_path):
    results = write_results(tmp_path)
    for name in ("one", "two"):
        write_paper_inputs(PAPER, tmp_path / name, data_sources_of(results))
    for path in (tmp_path / "one").rglob("*.*"):
        assert (
            path.read_bytes()
            == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()
        )


def test_special_characters_are_escaped():
    assert escape(r"\{}$&#^_~%") == (
        r"\textbackslash{}\{\}\$\&\#\textasciicircum{}\_\textasciitilde{}\%"
    )


def test_long_names_may_break():
    assert breakable("a.b_c") == r"a.\allowbreak{}b\_\allowbreak{}c"
    assert breakable("0" * 24).count(r"\allowbreak") == 3


def test_a_range_of_observed_values_has_no_limits(written):
    method = "range over 3 runs, no interval: too few"
    item = entry("a.b.us", 2.0, 1.0, 3.0, unit="us", digits=1, method=method)
    found = fields(written(r"\interval{a.b.us}", [item]) / "values.tex", "a.b.us")
    assert found["interval"] == r"2.0 (1.0\,\ldots\,3.0)"
    assert found["bounds"] == r"1.0\,\ldots\,3.0"
    assert (found["raw"], found["rawlo"], found["rawhi"]) == ("2.0", "nil", "nil")


def test_every_file_that_is_written_is_returned_for_its_checksum(tmp_path):
    write_run(tmp_path / "tcp", [entry("tcp.x.mbps", 1.5)], [entry("testbed.commit", COMMIT)])
    figure = tmp_path / "tcp" / "figures" / "f.pdf"
    figure.parent.mkdir()
    figure.write_bytes(b"figure")
    manuscript = tmp_path / "frer-udp"
    manuscript.mkdir()
    text = r"\val{tcp.x.mbps}\measuredfigure{tcp/f}"
    text += r'\asserted{measured("tcp.x.mbps").value > 1}{More.}'
    (manuscript / "main.tex").write_text(text)
    sources = DataSources([DataSource("measured", {"tcp": tmp_path / "tcp"})])
    written = write_paper_inputs(manuscript, tmp_path / "out", sources)
    there = {path for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert {*written} == there
    names = {path.relative_to(tmp_path / "out").as_posix() for path in there}
    assert names >= {"values.tex", "assertions.json", "figures/tcp/f.pdf"}
