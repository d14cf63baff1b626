import re
import shutil

import pytest
from invented_results import facts_of_testbed, runs_of, write_results, write_run

from tsnrepro.publish.errors import PublishError
from tsnrepro.publish.site import write_report
from tsnrepro.repository import root


@pytest.fixture
def results(tmp_path):
    results = write_results(tmp_path / "emulated" / "invented", higher="control higher")
    for path in results.glob("*/figures/*.pdf"):
        path.with_suffix(".png").write_bytes(b"\x89PNG " + path.stem.encode())
    for name in ("paper/frer-udp.pdf", "tcp/measure.ipynb"):
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        (results / name).write_text("x")
    return results


def report(results, **named):
    write_report(results / "report", runs_of(results), **named)
    return (results / "report" / "index.html").read_text(encoding="utf-8")


@pytest.fixture
def page(results):
    return report(results, papers=[results / "paper"], reason="it was asked for")


def row(page, label):
    found, *_ = re.findall(rf"<tr><td>{re.escape(label)}</td>(.*?)</tr>", page, re.DOTALL)
    return re.findall(r"<td[^>]*>(.*?)</td>", found)


def test_testbed_and_reason_stand_on_the_page(page):
    assert "emulated testbed (network namespaces on one machine, eBPF switches)" in page
    assert "it was asked for" in page
    assert "0123456789ab+changes" in page


def test_published_values_stand_beside_measured_ones(page):
    assert row(page, "TCP goodput") == [
        *("Mb/s", "941.0", "941.42", "939.2 [938.4, 940.0]", "935.4 [934.6, 936.2]"),
        "−0.41 [−0.53, −0.29] %",
    ]


def test_the_verdicts_follow_the_values(page):
    assert "No, on this testbed its threshold is lower." in page
    assert "its threshold is higher" not in page


def test_trials_and_failed_attempts_are_listed_escaped(page):
    assert re.search(
        r"<td>TCP goodput</td><td>[^<]*</td><td class=\"number\">12</td>\s*"
        r"<td class=\"number\">1</td>",
        page,
    )
    assert "no &lt;answer&gt; in time" in page


def test_the_page_stands_on_its_own(page):
    sources = re.findall(r'src="([^"]*)"', page)
    assert len(sources) == 4
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert not re.search(r'(?:href|src)="(?:https?:)?//', page)


def test_every_link_leads_somewhere(results, page):
    links = re.findall(r'href="([^"]*)"', page)
    assert "../paper/frer-udp.pdf" in links
    assert "../tcp/measure.ipynb" in links
    assert all((results / "report" / link).is_file() for link in links)


def test_no_path_of_this_machine_is_on_the_page(page):
    assert str(root()) not in page
    assert "data/raw/emulated/invented/tcp" in page


def test_a_campaign_with_one_experiment_has_a_page_too(tmp_path):
    write_results(tmp_path)
    for name in ("loss", "latency"):
        shutil.rmtree(tmp_path / name)
    page = report(tmp_path)
    assert "TCP goodput" in page
    assert "half round trip" not in page


def test_runs_of_two_testbeds_are_told_apart(tmp_path):
    write_results(tmp_path)
    simulated = {"testbed.verb": "Simulated on", "testbed.label": "model testbed"}
    facts = [
        item | {"value": simulated.get(item["key"], item["value"])} for item in facts_of_testbed()
    ]
    write_run(tmp_path / "tcp", [], facts)
    page = report(tmp_path)
    assert "TCP goodput: simulated on the <strong>model testbed" in page
    assert "Loss against offered load, Latency: measured on the <strong>emulated" in page


@pytest.mark.skipif(not shutil.which("pdftocairo"), reason="poppler-utils is not installed")
def test_a_figure_that_is_pdf_only_is_converted(tmp_path):
    page = report(write_results(tmp_path))
    assert page.count("data:image/svg+xml;base64,") == 4


def test_values_without_a_testbed_are_refused(tmp_path):
    facts = [item for item in facts_of_testbed() if "label" not in item["key"]]
    write_run(tmp_path / "tcp", [], facts)
    with pytest.raises(PublishError, match=r"testbed\.label"):
        report(tmp_path)


def test_a_verdict_without_an_answer_is_refused(tmp_path):
    with pytest.raises(PublishError, match="perhaps"):
        report(write_results(tmp_path, equivalent="perhaps"))
