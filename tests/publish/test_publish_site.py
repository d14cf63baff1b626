import json
import re
import shutil

import pytest
from invented_results import facts_of_testbed, write_results, write_values

from tsnrepro.publish.errors import PublishError
from tsnrepro.publish.site import write_report
from tsnrepro.repository import root


@pytest.fixture
def results(tmp_path):
    results = write_results(tmp_path / "emulated" / "invented", higher="control higher")
    for path in (results / "figures").glob("*.pdf"):
        path.with_suffix(".png").write_bytes(b"\x89PNG " + path.stem.encode())
    (results / "runs").mkdir()
    manifest = {
        **{"testbed": "emulated", "campaign": "invented", "experiment": "tcp"},
        "folder": str(root() / "data/raw/emulated/invented/tcp"),
        "trials": [{"trial": "a", "sha256": "0"}] * 12,
        "failed_attempts": [{"trial": "frer-1s-r1-0-a1", "reason": "no <answer> in time"}],
    }
    (results / "runs" / "tcp.json").write_text(json.dumps(manifest))
    for name in ("paper/frer-udp/frer-udp.pdf", "notebooks/measure-tcp.ipynb"):
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        (results / name).write_text("x")
    return results


@pytest.fixture
def page(results):
    write_report(results, results / "report", "it was asked for")
    return (results / "report" / "index.html").read_text(encoding="utf-8")


def row(page, label):
    (found,) = re.findall(rf"<tr><td>{re.escape(label)}</td>(.*?)</tr>", page, re.DOTALL)
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
        r"<td>tcp</td><td class=\"number\">12</td>\s*<td class=\"number\">1</td>", page
    )
    assert "no &lt;answer&gt; in time" in page


def test_the_page_stands_on_its_own(page):
    sources = re.findall(r'src="([^"]*)"', page)
    assert len(sources) == 6
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert not re.search(r'(?:href|src)="(?:https?:)?//', page)


def test_every_link_leads_somewhere(results, page):
    links = re.findall(r'href="([^"]*)"', page)
    assert "../paper/frer-udp/frer-udp.pdf" in links
    assert "../notebooks/measure-tcp.ipynb" in links
    assert all((results / "report" / link).is_file() for link in links)


def test_no_path_of_this_machine_is_on_the_page(page):
    assert str(root()) not in page
    assert "data/raw/emulated/invented/tcp" in page


def test_a_campaign_with_one_experiment_has_a_page_too(tmp_path):
    write_results(tmp_path)
    for name in ("loss", "latency"):
        (tmp_path / "values" / f"{name}.json").unlink()
    shutil.rmtree(tmp_path / "figures")
    write_report(tmp_path, tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "TCP goodput" in page
    assert "half round trip" not in page


@pytest.mark.skipif(not shutil.which("pdftocairo"), reason="poppler-utils is not installed")
def test_a_figure_that_is_pdf_only_is_converted(tmp_path):
    write_results(tmp_path)
    write_report(tmp_path, tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml;base64,") == 6


def test_values_without_a_testbed_are_refused(tmp_path):
    write_values(
        tmp_path / "values", a=[item for item in facts_of_testbed() if "label" not in item["key"]]
    )
    with pytest.raises(PublishError, match=r"testbed\.label"):
        write_report(tmp_path, tmp_path / "report")


def test_a_verdict_without_an_answer_is_refused(tmp_path):
    write_results(tmp_path, equivalent="perhaps")
    with pytest.raises(PublishError, match="perhaps"):
        write_report(tmp_path, tmp_path / "report")
