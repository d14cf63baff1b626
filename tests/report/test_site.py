"""The pages of a report, from synthetic results."""

import html
import json
import re
import shutil

import pandas as pd
import pytest
from PIL import Image
from synthetic_results import entry, facts_of_testbed, runs_of, write_results, write_run

from tsnrepro.common.errors import PublishError
from tsnrepro.common.repository import root
from tsnrepro.records.values import Result, load_file
from tsnrepro.report import site
from tsnrepro.report.figures import as_script, trials_plot
from tsnrepro.report.overview import compared
from tsnrepro.report.site import write_report
from tsnrepro.report.trials import trials_of_values
from tsnrepro.results.language import translator


@pytest.fixture
def results(tmp_path):
    results = write_results(tmp_path / "emulated" / "synthetic", higher="control higher")
    for path in results.glob("*/figures/*.pdf"):
        Image.new("RGB", (8, 8), "white").save(path.with_suffix(".png"))
    for name in ("paper/frer-udp.pdf", "tcp/measure.ipynb"):
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        (results / name).write_text("x")
    return results


@pytest.fixture(autouse=True, scope="module")
def without_the_library():
    """Skip the bundling of the plots' library, which takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "vega_bundle", lambda: "")
        yield


def report(results, **named):
    write_report(results / "report", runs_of(results), **named)
    return page_of(results, "index")


def page_of(results, name):
    return (results / "report" / f"{name}.html").read_text(encoding="utf-8")


@pytest.fixture
def page(results):
    return report(results, papers=[results / "paper"], reason="selected by a test")


def row(page, label):
    cells = rf'<tr><th scope="row">{re.escape(label)}</th>(.*?)</tr>'
    found, *_ = re.findall(cells, page, re.DOTALL)
    return [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", found)]


def test_testbed_and_reason_are_on_the_page(page):
    assert "emulated testbed (network namespaces on one machine, eBPF switches)" in page
    assert "selected by a test" in page
    assert "0123456789ab+changes" in page


def test_published_and_measured_values_are_in_one_row(results, page):
    assert row(page_of(results, "published"), "TCP goodput") == [
        *("Mb/s", "941.0", "941.42", "939.2 [938.4, 940.0]", "935.4 [934.6, 936.2]"),
        "−0.41 [−0.53, −0.29] %",
    ]


def test_the_verdicts_follow_the_values(page):
    assert "No, on this testbed its threshold is lower." in page
    assert "its threshold is higher" not in page


def test_trials_and_failed_attempts_are_listed_escaped(page):
    assert re.search(
        r"TCP goodput</a></th><td>[^<]*</td>\s*"
        r"<td class=\"number\"><a href=\"trials/tcp.html\">12</a></td>\s*"
        r"<td class=\"number\">1</td>",
        page,
    )
    assert "no &lt;answer&gt; in time" in page


def pages(results):
    return sorted((results / "report").rglob("*.html"))


def test_every_experiment_has_a_page_and_a_list_of_trials(results, page):
    there = {str(path.relative_to(results / "report")) for path in pages(results)}
    assert there == {
        *("index.html", "published.html", "provenance.html"),
        *(f"{name}.html" for name in ("loss", "tcp", "latency")),
        *(f"trials/{name}.html" for name in ("loss", "tcp", "latency")),
    }


def test_figures_are_inside_their_page(results, page):
    sources = re.findall(r'<img[^>]*src="([^"]*)"', page_of(results, "loss"))
    assert len(sources) == 3
    assert all(source.startswith("data:image/webp;base64,") for source in sources)


def test_pages_have_no_external_resources(results, page):
    for path in pages(results):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r'(?:href|src)="(?:https?:)?//', text), path
        assert "default-src 'none'" in html.unescape(text), path
        assert "unsafe-eval" not in text, path


def test_a_later_campaign_leaves_the_papers_of_a_report(results, page):
    """It writes its own into the same folders."""
    (results / "paper" / "frer-udp.pdf").write_text("of a later campaign")
    assert (results / "report" / "papers" / "paper" / "frer-udp.pdf").read_text() == "x"
    report(results, papers=[results / "paper"])
    kept = results / "report" / "papers" / "paper" / "frer-udp.pdf"
    assert kept.read_text() == "of a later campaign"


def test_every_link_has_a_target(results, page):
    links = re.findall(r'href="([^"]*)"', page)
    assert "papers/paper/frer-udp.pdf" in links
    assert "../tcp/measure.ipynb" in links
    for path in pages(results):
        text = path.read_text(encoding="utf-8")
        for link in re.findall(r'(?:href|src)="([^"]*)"', text):
            if link.startswith("data:"):
                continue
            place, _, part = link.partition("#")
            target = path.parent / place if place else path
            assert target.is_file(), (path, link)
            # "#of:" selects the trials of a value.
            if part and not part.startswith("of:"):
                assert f'id="{part}"' in target.read_text(encoding="utf-8"), (path, link)


def test_every_value_links_to_its_trials(results, page):
    for name in ("loss", "tcp", "latency"):
        rows = re.findall(r'<tr id="([^"]+)">(.*?)</tr>', page_of(results, name), re.DOTALL)
        values = load_file(results / name / "values.json")
        assert {key for key, _ in rows} == {*values}
        for key, text in rows:
            assert (f"trials/{name}.html#of:{key}" in text) == bool(values[key].trials)


def test_no_path_of_this_machine_is_on_the_page(page):
    assert str(root()) not in page
    assert "data/raw/emulated/synthetic/tcp" in page


def test_a_campaign_with_one_experiment_has_a_page_too(tmp_path):
    write_results(tmp_path)
    for name in ("loss", "latency"):
        shutil.rmtree(tmp_path / name)
    page = report(tmp_path)
    assert "TCP goodput" in page
    assert "half round trip" not in page


def test_runs_of_two_testbeds_are_distinguished(tmp_path):
    write_results(tmp_path)
    simulated = {"testbed.verb": "Simulated on", "testbed.label": "model testbed"}
    facts = [
        item | {"value": simulated.get(item["key"], item["value"])} for item in facts_of_testbed()
    ]
    write_run(tmp_path / "tcp", [], facts)
    page = report(tmp_path)
    assert "TCP goodput: <strong>Simulated on the model testbed" in page
    assert "Loss against offered load, Latency: <strong>Measured on the emulated" in page


@pytest.mark.skipif(not shutil.which("pdftocairo"), reason="poppler-utils is not installed")
def test_a_figure_that_is_pdf_only_is_converted(tmp_path):
    page = report(write_results(tmp_path))
    assert page
    pages = [page_of(tmp_path, name) for name in ("loss", "latency")]
    assert sum(page.count("data:image/svg+xml;base64,") for page in pages) == 4


def test_the_trials_of_a_value():
    rows = [{"trial": name} for name in ("a", "b", "c", "d")]
    values = {
        key: Result(**entry(key, 1.0, run=run, names=names))
        for key, run, names in (
            ("tcp.x", "tcp", ["a", "b", "d"]),
            ("tcp.y", "tcp", ["d", "b", "a"]),
            ("tcp.z", "loss", ["a"]),
            ("both.x", "loss+tcp", ["loss/a", "tcp/c"]),
            ("tcp.x.more.us", "tcp", ["c"]),
            ("tcp.none", "tcp", []),
        )
    }
    found = trials_of_values("tcp", rows, values)
    tree = {"x": {"": 0, "more": {"us": {"": 1}}}, "y": {"": 0}}
    assert found["keys"] == {"tcp": tree, "both": {"x": {"": 1}}}
    assert found["sets"] == [[[0, 1], [3, 3]], [[2, 2]]]


def test_markup_in_the_data_of_a_script_is_escaped():
    assert as_script({"a": "</script>"}) == '{"a":"\\u003c/script>"}'


def test_values_without_a_testbed_are_an_error(tmp_path):
    facts = [item for item in facts_of_testbed() if "label" not in item["key"]]
    write_run(tmp_path / "tcp", [], facts)
    with pytest.raises(PublishError, match=r"testbed\.label"):
        report(tmp_path)


def test_a_verdict_without_an_answer_is_an_error(tmp_path):
    with pytest.raises(PublishError, match="perhaps"):
        report(write_results(tmp_path, equivalent="perhaps"))


@pytest.mark.parametrize(
    ("quantity", "label", "published"),
    [
        ("half round trip", "Mean of half round trips", True),
        ("one way", "Mean of one-way latencies", False),
    ],
)
def test_the_quantity_of_latencies_is_told_as_it_is(quantity, label, published):
    rows = [entry("latency.quantity", quantity), entry("latency.mean.frer.us", 101.8, unit="us")]
    values = {row["key"]: Result.model_validate(row) for row in rows}
    (found,) = compared(values, dict.fromkeys(values, "#"), translator("en"))
    assert found["label"] == label
    assert bool(found["published_frer"]) == published


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([3.0, 20.0, 400.0], {"zero": False}),
        ([0.4, 20.0, 400.0], {"type": "log"}),
        ([0, 2, 4000], {"type": "symlog", "constant": 2}),
        ([-4.0, None, 4000.0], {"type": "symlog", "constant": 4}),
        ([0, 0, 1], {"zero": False}),
    ],
)
def test_an_axis_of_three_decades_is_logarithmic(values, scale):
    import vl_convert  # noqa: PLC0415 - half a second

    trials = pd.DataFrame({"trial": ["a", "b", "c"], "kind": ["x", "y", "y"], "delay_us": values})
    plot = trials_plot(trials, "trials.html")
    _, y, _ = plot["controls"]
    axes = {option["name"]: json.loads(option["axis"]) for option in y["options"]}
    assert axes["delay_us"]["scale"] == scale
    assert axes["kind"] == {}
    # As the script of the page sets it.
    spec = json.loads(plot["spec"])
    spec["encoding"]["y"] |= axes["delay_us"]
    spec["data"]["values"] = trials.where(trials.notna(), None).to_dict("records")
    drawn = vl_convert.vegalite_to_svg(spec | {"width": 300})
    assert drawn.count('aria-roledescription="point"') == trials["delay_us"].notna().sum()
    if scale.get("type") == "symlog":
        assert ">1,000<" in drawn
