"""The manuscript: no typed result, clean LaTeX, and pages for whatever was measured."""

import json
import re
import subprocess
from collections import Counter
from fnmatch import filter as matching
from pathlib import Path

import pytest
from manuscript_checks import REPOSITORY, Manuscript, PageChecks, SourceChecks, latex
from sparse_sets import run_notebooks, sparse
from synthetic_results import (
    RACK,
    data_sources_of,
    entry_by_pattern,
    facts_of_testbed,
    write_results,
    write_run,
    write_values,
)

from tsnrepro.papers.assertions import read_assertions
from tsnrepro.papers.data_sources import DataSource, DataSources
from tsnrepro.papers.macros import write_paper_inputs
from tsnrepro.papers.manuscript import scan

CONSTANTS = {
    **{"level": r"95\,\%", "familylevel": r"5\,\%", "payload": "1472", "longestframe": "1518"},
    **{"headers": "46", "ethernetload": "1500", "onwire": "20", "segment": "1448"},
    **{"segmentheaders": "70", "tagbytes": "6", "gigabit": "1000", "trialseconds": "60"},
}
# Numbers of the text that no measurement can change.
NAMES = re.compile(
    r"802\.1(?:CB|Q)|RFC~\d{4}|0xF1C1|R-TAG|V2X"
    r"|(?:Table|Section)[ ~](?:\d\.\d|A\.\d)(?= of|\)|, | add| \(our| &)"
    r"|\((?:1|2|3)\)~|SHA-256|iperf3|lan966x|sw[12]|\bP\d\d(?:\.9)?\b"
    # the first column of the table by frame size, and its note
    r"|^ *(?:\\llap\{\\note\{b\}\})?(?:64|128|256|512|1024|1518) (?=& )"
    r"|\((?:64 bytes|128|256|512|1024|1518)\)"
    r"|\(512\)|(?<=rows up to )1024 bytes",
    re.MULTILINE,
)
PAPER = Manuscript("frer-udp", NAMES)


class TestSources(SourceChecks):
    paper, constants = PAPER, CONSTANTS
    typed = [
        f"Text before {typed} and after."
        for typed in (
            *(
                "at 398\\,\\units{}",
                "a loss of 0.053\\,\\%",
                "612 datagrams",
                "1.33 times",
                "33\\,\\%",
            ),
            *("& 941.42 &", "941", "a gain of 30", "95 trials", "in 60 trials", "1518 trials"),
            *("\\calc{1}{100*0.34}", "\\calc{1}{398/\\rawval{a.b}}", "P99 of 181.5", "64 lost"),
            *("\\ifcalc{\\rawval{a.b} < 1.33}{then}{else}", "1000 datagrams", "for 64 datagrams"),
        )
    ]


# --- pages -----------------------------------------------------------------------------------


def prepared(folder, **options):
    """Write results and the inputs of the manuscript, and return their folder."""
    results = write_results(folder, **options)
    write_paper_inputs(PAPER.folder, results / "paper", data_sources_of(results))
    return results


# Results that carry every sentence, by pattern of their keys.
CARRIED = {
    "*limit.end_to_end.verdict": "equivalent",
    "*bottleneck.network.verdict": "equivalent",
    "*intervention.buffer.verdict": "lower",
    "*elimination.between.verdict": "lost",
    "*elimination.load_4.control.percent": 0.0,
    "*threshold.socket.ratio": (0.94, 0.81, 1.09),
    "*frame_1518.difference.percent": (0.1, -0.2, 0.4),
    "*paths.load_2.delivered.difference.percent": (0.1, -0.2, 0.4),
    "*.p50.difference.us": (0.9, 0.8, 1.0),
    "*stalls.longest.ms": 20.0,
    "*failover.frer.lost_while_cut": 0.0,
    "*reordered": 0.0,
    "*v2x_*.lost.percent": 0.0,
    "study.third.loss_1e_4": "everywhere",
}


def with_all(folder, **chosen):
    """Return synthetic results with every measured result that the manuscript names.

    Those of ``CARRIED`` have its values, others that ``write_results`` lacks are 1.5, and
    ``chosen`` are further ones by the end of their key, with ``__`` for a dot.
    """
    results = write_results(folder)
    chosen = {f"*{end.replace('__', '.')}": value for end, value in chosen.items()}
    of_key = chosen | CARRIED | chosen
    folders = {name: results / name for name in ("loss", "tcp", "latency", "failure", "traffic")}
    folders |= {"study": results / "study", "simulated.occupancy": folder / "model" / "occupancy"}
    for name, run in folders.items():
        path = run / "values.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        known = {item["key"]: item for item in found}
        kept = known.keys() - {key for one in of_key for key in matching(known, one)}
        for key in scan(PAPER.folder).measured:
            stored = key.removeprefix("simulated.")
            if key.startswith(f"{name}.") and stored not in kept:
                patterns = (*of_key.items(), ("*", 1.5))
                known[stored] = entry_by_pattern(key, patterns, units={}, run=run.name, decimals=2)
                known[stored]["key"] = stored
        if not found:
            write_run(run, [], testbed=run.parent.name)
        write_values(path, list(known.values()))
    simulated = DataSource("simulated", {"occupancy": folders.pop("simulated.occupancy")})
    study = folders.pop("study")
    sources = DataSources([DataSource("measured", folders), simulated], study)
    write_paper_inputs(PAPER.folder, results / "paper", sources)
    return results


def lacking(results):
    """Return the conditions that synthetic results do not carry, by file."""
    judged = read_assertions(results / "paper")
    return [(Path(j.place).name.split(".")[0], j.condition) for j in judged if not j.carried]


class TestPages(PageChecks):
    pytestmark = latex
    paper = PAPER
    prepared = staticmethod(prepared)
    environment = {"SOURCE_DATE_EPOCH": "1700000000"}

    def test_values_and_verdicts_stand_on_the_pages(self, built):
        text = PAPER.text(built)
        assert "emulated testbed (network namespaces on one machine, eBPF switches)" in text
        assert "939.2 [938.4, 940.0]" in text
        assert "0.94 [0.81, 1.09]" in text
        assert "No datagram is unaccounted for." in text
        assert "Over these links the goodputs are equivalent within 2 %." in text.replace(
            "\u2009", " "
        )
        assert "국문 초록" in text
        assert "??" not in text

    def test_what_follows_by_calculation_is_right(self, built):
        text = PAPER.text(built)
        # 1472 bytes of 1538 on the wire, and of 1544 with the tag; 535 Mb/s over 30 s; P99.9.
        for number in ("957.1", "953.4", "0.104", "+7.02", "225 034", "0.00133", "941.47"):
            assert number.replace(" ", "") in text.replace("\u2009", "").replace(" ", ""), number

    def test_the_source_folder_stays_clean(self, built):
        listed = subprocess.run(
            ["git", "status", "--porcelain", "--ignored", "--", str(PAPER.folder)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert not re.search(r"\.(aux|log|pdf|fls|bbl|out)\b", listed)
        assert PAPER.pdf(built).is_file()

    def test_building_again_elsewhere_gives_the_same_bytes(self, built, tmp_path):
        results = PAPER.built(prepared(tmp_path / "another" / "place"), **self.environment)
        assert PAPER.pdf(results).read_bytes() == PAPER.pdf(built).read_bytes()

    def test_a_record_that_carries_everything_strikes_nothing(self, tmp_path):
        results = PAPER.typeset(with_all(tmp_path))
        assert lacking(results) == []
        text = PAPER.text(results)
        assert "Two paths carry no more than one." in text
        abstract = re.search(r"Abstract—(.*?)Index Terms", text)[1]
        assert len(abstract.split()) <= 200

    @pytest.mark.parametrize(
        ("chosen", "where"),
        [
            (
                {"limit__end_to_end__verdict": "frer higher"},
                {"abstract": 2, "results": 1, "discussion": 3},
            ),
            ({"intervention__buffer__verdict": "cannot tell"},
             {"abstract": 2, "results": 1, "discussion": 2}),
            ({"share__listener_socket__percent": 40.0}, {"abstract": 2, "discussion": 1}),
            ({"failover__frer__lost_while_cut": 3.0}, {"abstract": 2, "results": 1}),
            ({"latency__p50__difference__us": (0.1, -0.1, 0.3)}, {"abstract": 2, "results": 1}),
            ({"simulated__occupancy__size_2mb__rate_530__frer__per_port__filled__ms": 3.0},
             {"discussion": 1}),
            ({"threshold__socket__ratio": (1.3, 1.28, 1.32)}, {"results": 1, "discussion": 1}),
            ({"paths__load_2__delivered__difference__percent": (9.0, 5.0, 13.0)}, {"results": 1}),
            ({"v2x_128__control__lost__percent": 1.0}, {"results": 1}),
            ({"delay_1_ms__frer__reordered": 1.0}, {"further": 1}),
            ({"third__hosts": "in some combinations"}, {"discussion": 1}),
        ],
        ids=["gain", "buffer", "place", "cut", "latency", "buffers", "sweep", "paths", "car",
             "delay", "study"],
    )  # fmt: skip
    def test_sentences_follow_what_was_measured(self, tmp_path, chosen, where):
        found = Counter(name for name, _ in lacking(with_all(tmp_path, **chosen)))
        assert dict(found) == where

    def test_a_sentence_that_is_not_carried_is_struck_in_both_languages(self, tmp_path):
        results = with_all(tmp_path, limit__end_to_end__verdict="cannot tell")
        for text in PAPER.abstracts(results):
            assert "(cannottell),not=equivalent]" in text

    def test_a_copy_of_the_model_names_no_kernel_and_strikes_what_is_emulated(self, tmp_path):
        facts = facts_of_testbed(kind="model", label="model testbed", verb="Simulated on")
        results = PAPER.typeset_once(prepared(tmp_path, facts=facts))
        text = PAPER.text(results)
        for said in ("drops a frame counts it", "path A (both configurations)"):
            assert said in text, said
        assert "report of each frame" not in text
        of_the_kind = [name for name, condition in lacking(results) if "testbed.kind" in condition]
        assert of_the_kind == ["abstract", "abstract", "discussion", "discussion"]

    @pytest.mark.parametrize("drivers", ["lan966x", "ebpf", "kernel", "ebpf and lan966x"])
    def test_a_rack_is_described_as_it_is(self, tmp_path, drivers):
        facts = facts_of_testbed(**RACK | {"drivers": drivers})
        text = PAPER.text(PAPER.typeset_once(prepared(tmp_path, facts=facts)))
        assert "rack testbed" in text
        assert ("LAN966x board" in text) == ("lan966x" in drivers)
        for word in ("namespace", "token bucket"):
            assert word not in text, word

    @pytest.mark.parametrize("only", [("control", "frer"), ("frer",)], ids=["both", "one"])
    def test_a_copy_of_others_data_strikes_what_they_do_not_carry(self, tmp_path, only):
        """They know no link rate, order, tool or place of loss, and send 1000 bytes."""
        run_notebooks(sparse(tmp_path, ("loss", "tcp", "latency"), only), tmp_path)
        column = DataSource(
            "measured", {name: tmp_path / name for name in ("loss", "tcp", "latency")}
        )
        write_paper_inputs(PAPER.folder, tmp_path / "paper", DataSources([column]))
        results = PAPER.typeset_once(tmp_path)
        text = PAPER.text(results)
        for said in ("payload 1000 B", "one way", "no datagram is accounted for"):
            assert said in text, said
        body, _, _ = text.partition("References")
        for word in ("sockperf", "random order.", "payload 1472"):
            assert word not in body, word
        struck = {condition for _, condition in lacking(results)}
        judged = {one.condition for one in read_assertions(results / "paper")}
        assert all("threshold.socket.ratio" in condition for condition in judged - struck)

    def test_a_missing_value_stops_the_build_and_is_named(self, tmp_path):
        results = prepared(tmp_path)
        values = results / "paper" / "values.tex"
        lines = values.read_text(encoding="utf-8").splitlines(keepends=True)
        key = "{tcp.goodput.frer.mbps}"
        values.write_text("".join(line for line in lines if key not in line), encoding="utf-8")
        done = PAPER.latexmk(results)
        assert done.returncode != 0
        assert "There is no value `tcp.goodput.frer.mbps'" in done.stdout.replace("\n", "")

    def test_a_testbed_without_a_description_stops_the_build(self, tmp_path):
        results = prepared(tmp_path, facts=facts_of_testbed(kind="perhaps"))
        done = PAPER.latexmk(results)
        assert done.returncode != 0
        assert "No case for `perhaps'" in done.stdout

    def test_without_results_one_line_says_what_to_do(self, tmp_path):
        done = PAPER.latexmk(tmp_path)
        assert done.returncode != 0
        assert "values.tex" in done.stdout + done.stderr
        assert "snakemake" in done.stdout + done.stderr
