"""The widgets of the interactive notebooks in JupyterLab, with a kernel and a browser."""

import re
import shutil

import pytest
from browser_tabs import CHROMIUM
from jupyterlab_server import jupyterlab

from tsnrepro.runner.control import RUN_CONTROL, controlled

# A kernel starts slowly on a busy machine.
TIMEOUT_MS = 240_000
PICTURE = ".widget-image"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def repository(notebooks_repository, tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy") / "repository"
    shutil.copytree(notebooks_repository, copy)
    results = copy / "results" / "model"
    shutil.copytree(results / "short", results / "short-again")  # to compare with
    return copy


@pytest.fixture(scope="module")
def lab(repository, tmp_path_factory):
    state = tmp_path_factory.mktemp("jupyterlab")
    with jupyterlab(repository, state, PYTHONPATH=str(repository / "src")) as address:
        yield address


@pytest.fixture
def run(lab, tab):
    """Return the function that opens a notebook and runs all its cells by the menu."""

    def opened(notebook):
        page = tab(lab(f"notebooks/{notebook}.ipynb"), viewport={"width": 1400, "height": 1600})
        page.set_default_timeout(TIMEOUT_MS)
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
        page.get_by_text("Run All Cells", exact=True).click()
        return page

    return opened


def labels(page, kind):
    """Return the labels of the controls of a kind, none of which is cut off."""
    found = page.locator(f"{kind} .widget-label")
    cut_off = (
        "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)"
    )
    assert found.evaluate_all(cut_off) == []
    return found.all_inner_texts()


def updated(page, address=""):
    """Wait until the source of the first figure differs from ``address``, and return it."""
    page.wait_for_function(
        """([one, before]) => {
            const picture = document.querySelector(one);
            return picture?.complete && picture.naturalWidth > 100 && picture.src !== before;
        }""",
        arg=[PICTURE, address],
    )
    return page.locator(PICTURE).first.get_attribute("src")


def test_what_is_being_measured_is_shown_as_it_comes(run, repository):
    """The second look has another trial than the first, without a touch by the reader."""
    folder = repository / "data" / "raw" / "model" / "short" / "tcp"
    trials = sorted(path for path in folder.iterdir() if path.is_dir())
    later = repository / trials[-1].name
    notebook = repository / "notebooks" / "watch.ipynb"
    text = notebook.read_text(encoding="utf-8")
    notebook.write_text(text.replace("looks = 1 ", "looks = 1800 "), encoding="utf-8")
    trials[-1].rename(later)
    count = len(trials)
    with controlled(folder / RUN_CONTROL, {}):
        output = run("watch").locator(".jp-OutputArea-output")
        output.filter(has_text=f"{count - 1} of {count} trials measured").wait_for()
        later.rename(trials[-1])
        output.filter(has_text=f"{count} of {count} trials measured").wait_for()


def test_a_slider_updates_the_figure(run):
    page = run("what_if")
    page.locator(PICTURE).nth(1).wait_for()
    assert labels(page, ".widget-slider") == [
        *("receive buffer (kB)", "stalls of the listener (ms)", "between stalls (ms)"),
        *("member paths of FRER", "lost on each path (%)", "second path later by (µs)"),
        *("window of the stream (µs)", "cycle (µs)", "load beside it (Mb/s)"),
    ]
    assert page.get_by_label("guard band").is_checked()
    picture, slider = page.locator(PICTURE).first, page.locator(".widget-slider").first
    before, shown = updated(page), picture.screenshot()
    assert slider.locator(".widget-readout").inner_text() == "213"
    slider.locator(".noUi-handle").hover()
    page.mouse.down()
    slider.locator(".slider-container").hover()  # its middle
    page.mouse.up()
    updated(page, before)
    assert 1900 < int(slider.locator(".widget-readout").inner_text()) < 2150
    # A buffer ten times as large holds the datagrams of a stall, so the curve differs.
    assert picture.screenshot() != shown


def test_a_selected_experiment_has_its_figures_and_results(run):
    page = run("explore")
    page.locator(PICTURE).nth(1).wait_for()
    assert labels(page, ".widget-dropdown") == [
        *("campaign", "experiment", "draw", "over", "colour"),
    ]
    assert page.get_by_label("campaign").input_value() == "model/short"
    pictures, before = page.locator(PICTURE), updated(page)
    assert pictures.count() == 2  # distributions, and any factor
    page.get_by_label("experiment", exact=True).select_option("tcp")
    page.locator(".widget-html", has_text="tcp.goodput.frer.mbps").wait_for()
    before = updated(page, before)
    assert pictures.count() == 1
    shown = pictures.screenshot()
    page.get_by_label("draw", exact=True).select_option("retransmits")
    updated(page, before)
    assert pictures.screenshot() != shown


def test_a_selected_trial_has_its_record_and_raw_output(run):
    page = run("one_trial")
    page.locator(PICTURE).nth(1).wait_for()
    before = updated(page)
    assert labels(page, ".widget-dropdown")[:3] == ["campaign", "experiment", "trial"]
    trial, record = page.get_by_label("trial", exact=True), page.locator(".widget-html pre")
    first = trial.input_value()
    assert first in record.first.inner_text()
    other = trial.locator("option").nth(1).inner_text()
    assert other != first
    trial.select_option(other)
    updated(page, before)
    record.filter(has_text=other).wait_for()
    page.get_by_role("tab", name="raw output").click()
    page.get_by_label("output", exact=True).select_option("trial.json")
    record.filter(has_text='"factors"').wait_for()
    page.get_by_label("experiment", exact=True).select_option("tcp")
    page.get_by_label("output", exact=True).select_option("trial.json")  # the same tab
    record.filter(has_text='"experiment": "tcp"').wait_for()
    assert first not in trial.inner_text()
    page.get_by_role("tab", name="record").click()
    record.filter(has_text="experiment tcp").wait_for()


def test_two_campaigns_are_compared_by_their_common_results(run):
    page = run("compare")
    page.locator(PICTURE).wait_for()
    assert labels(page, ".widget-dropdown") == ["first", "second", "experiment"]
    chosen = [page.get_by_label(name, exact=True).input_value() for name in ("first", "second")]
    assert chosen == ["model/short", "model/short-again"]
    keys = page.locator(".widget-html table tbody th")
    before = updated(page)
    assert {key.split(".")[0] for key in keys.all_inner_texts()} == {"loss", "tcp", "latency"}
    page.get_by_label("experiment", exact=True).select_option("tcp")
    updated(page, before)
    assert {key.split(".")[0] for key in keys.all_inner_texts()} == {"tcp"}
