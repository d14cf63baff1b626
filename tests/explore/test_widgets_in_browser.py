"""The notebooks' widgets as people meet them: in JupyterLab, with a kernel, in a real browser."""

import re
import shutil

import pytest
from in_browser import CHROMIUM
from jupyterlab_server import jupyterlab

# A kernel that starts on a busy machine is waited for longer than the browser would.
PATIENCE_MS = 240_000
PICTURE = ".widget-image"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def lab(notebooks_repository, tmp_path_factory):
    own = tmp_path_factory.mktemp("jupyterlab")
    repository = own / "repository"
    shutil.copytree(notebooks_repository, repository)
    results = repository / "results" / "model"
    shutil.copytree(results / "short", results / "twin")  # which another is compared with
    with jupyterlab(repository, own, PYTHONPATH=str(repository / "src")) as address:
        yield address


@pytest.fixture
def run(lab, tab):
    """Return the function that opens a notebook and runs all its cells, as its menu does."""

    def opened(notebook):
        page = tab(lab(f"notebooks/{notebook}.ipynb"), viewport={"width": 1400, "height": 1600})
        page.set_default_timeout(PATIENCE_MS)
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
        page.get_by_text("Run All Cells", exact=True).click()
        return page

    return opened


def labels(page, kind):
    """Return the names beside the controls of a kind, all of which are there to be read."""
    found = page.locator(f"{kind} .widget-label")
    cut_off = (
        "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)"
    )
    assert found.evaluate_all(cut_off) == []
    return found.all_inner_texts()


def renewed(page, address=""):
    """Wait until the first picture is another than that of an address, and return its own."""
    page.wait_for_function(
        """([one, before]) => {
            const picture = document.querySelector(one);
            return picture?.complete && picture.naturalWidth > 100 && picture.src !== before;
        }""",
        arg=[PICTURE, address],
    )
    return page.locator(PICTURE).first.get_attribute("src")


def test_a_slider_that_is_moved_changes_the_picture(run):
    page = run("what_if")
    page.locator(PICTURE).nth(1).wait_for()
    assert labels(page, ".widget-slider") == [
        *("receive buffer (kB)", "stalls of the listener (ms)", "between stalls (ms)"),
        *("member paths of FRER", "lost on each path (%)", "second path later by (µs)"),
        *("window of the stream (µs)", "cycle (µs)", "load beside it (Mb/s)"),
    ]
    assert page.get_by_label("guard band").is_checked()
    picture, slider = page.locator(PICTURE).first, page.locator(".widget-slider").first
    before, shown = renewed(page), picture.screenshot()
    assert slider.locator(".widget-readout").inner_text() == "213"
    slider.locator(".noUi-handle").hover()
    page.mouse.down()
    slider.locator(".slider-container").hover()  # its middle
    page.mouse.up()
    renewed(page, before)
    assert 1900 < int(slider.locator(".widget-readout").inner_text()) < 2150
    # Ten times the buffer holds what a stall keeps waiting, so the curve is another.
    assert picture.screenshot() != shown


def test_an_experiment_that_is_chosen_has_its_own_pictures_and_results(run):
    page = run("explore")
    page.locator(PICTURE).nth(1).wait_for()
    assert labels(page, ".widget-dropdown") == [
        *("campaign", "experiment", "draw", "over", "colour"),
    ]
    assert page.get_by_label("campaign").input_value() == "model/short"
    pictures, before = page.locator(PICTURE), renewed(page)
    assert pictures.count() == 2  # distributions, and any factor
    page.get_by_label("experiment", exact=True).select_option("tcp")
    page.locator(".widget-html", has_text="tcp.goodput.frer.mbps").wait_for()
    before = renewed(page, before)
    assert pictures.count() == 1
    shown = pictures.screenshot()
    page.get_by_label("draw", exact=True).select_option("retransmits")
    renewed(page, before)
    assert pictures.screenshot() != shown


def test_a_trial_that_is_chosen_shows_its_record_and_what_its_tools_printed(run):
    page = run("one_trial")
    page.locator(PICTURE).nth(1).wait_for()
    before = renewed(page)
    assert labels(page, ".widget-dropdown")[:3] == ["campaign", "experiment", "trial"]
    trial, record = page.get_by_label("trial", exact=True), page.locator(".widget-html pre")
    first = trial.input_value()
    assert first in record.first.inner_text()
    other = trial.locator("option").nth(1).inner_text()
    assert other != first
    trial.select_option(other)
    renewed(page, before)
    record.filter(has_text=other).wait_for()
    page.get_by_role("tab", name="raw output").click()
    page.get_by_label("output", exact=True).select_option("trial.json")
    record.filter(has_text='"factors"').wait_for()
    page.get_by_label("experiment", exact=True).select_option("tcp")
    page.get_by_label("output", exact=True).select_option("trial.json")  # the same side as before
    record.filter(has_text='"experiment": "tcp"').wait_for()
    assert first not in trial.inner_text()
    page.get_by_role("tab", name="record").click()
    record.filter(has_text="experiment tcp").wait_for()


def test_two_campaigns_are_compared_by_what_both_measured(run):
    page = run("compare")
    page.locator(PICTURE).wait_for()
    assert labels(page, ".widget-dropdown") == ["first", "second", "experiment"]
    chosen = [page.get_by_label(name, exact=True).input_value() for name in ("first", "second")]
    assert chosen == ["model/short", "model/twin"]
    keys = page.locator(".widget-html table tbody th")
    before = renewed(page)
    assert {key.split(".")[0] for key in keys.all_inner_texts()} == {"loss", "tcp", "latency"}
    page.get_by_label("experiment", exact=True).select_option("tcp")
    renewed(page, before)
    assert {key.split(".")[0] for key in keys.all_inner_texts()} == {"tcp"}
