"""The site in a browser: links, filters, keyboard, light and dark colours."""

import re

import pytest
from browser_tabs import CHROMIUM

from tsnrepro.published.audit import run_audit
from tsnrepro.published.ledger import write_ledger
from tsnrepro.report.site import write_report
from tsnrepro.results.language import translator

PAGES = ("index", "tcp", "trials/tcp", "published", "provenance", "ledger")
MEGABYTE = 1_000_000

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")


@pytest.fixture(scope="module")
def site(simulated_run_folder):
    folder = simulated_run_folder.parents[2] / "reports" / "model-short"
    write_ledger(run_audit({"tcp": simulated_run_folder}), folder, report="index.html")
    write_report(folder, [simulated_run_folder])
    return folder


def drawn(page):
    page.wait_for_selector("#trials-plot[data-drawn] svg")
    return page.locator("#trials-plot path[aria-roledescription=point]")


def test_a_point_links_to_its_trial_and_the_trial_to_its_record(site, tab):
    page = tab(site / "tcp.html")
    points = drawn(page)
    assert points.count() == 12
    points.last.click()  # it is not covered
    page.wait_for_url(re.compile(r"trials/tcp\.html#(frer|control)-"))
    name = page.url.partition("#")[2]
    page.locator(f"[id='{name}'] th a").click()
    page.wait_for_url(re.compile(r"trials/tcp/.*\.html$"))
    assert name in page.url
    assert page.get_by_text("What was asked").count()
    page.get_by_text(re.compile("^trial.json")).click()
    page.get_by_role("link", name="The file").locator("visible=true").click()
    page.wait_for_url(re.compile(r"data/raw/model/short/tcp/.*/trial\.json$"))
    assert name in page.url


def test_controls_change_the_plot(site, tab):
    page = tab(site / "tcp.html")
    drawn(page)
    up = page.locator("select[data-channel=y]")
    assert up.input_value() == "goodput_mbps"
    up.select_option("retransmits")
    page.wait_for_selector("#trials-plot[data-drawn='2']")
    assert page.locator("#trials-plot text", has_text="retransmits").count()
    assert not page.locator("#trials-plot text", has_text="goodput").count()


def test_values_are_filtered_by_words(site, tab):
    page = tab(site / "tcp.html")
    page.get_by_text("Plot of the values").click()
    page.wait_for_selector("#intervals-plot[data-drawn]")
    assert page.locator("#shown").inner_text() == "{} values".format(
        page.locator("#intervals-plot path[aria-roledescription=point]").count()
    )
    page.locator("#unit").select_option("Mb/s")
    page.wait_for_selector("#intervals-plot[data-drawn='2']")
    page.get_by_label("Key contains").fill("goodput frer")
    page.wait_for_selector("#intervals-plot[data-drawn='3']")
    labels = page.locator("#intervals-plot .role-axis-label text").all_text_contents()
    keys = [label for label in labels if label.startswith("tcp.")]
    assert keys
    assert all("goodput" in key and "frer" in key for key in keys)


def test_a_value_shows_its_trials(site, tab):
    from playwright.sync_api import expect  # noqa: PLC0415 - it is there where chromium is

    # What a link leads to is folded, and beyond the first rows.
    page = tab(f"{(site / 'tcp.html').as_uri()}#tcp.goodput.frer.mbps")
    page.locator("[id='tcp.goodput.frer.mbps'] a").click()
    page.wait_for_url(re.compile("#of:tcp.goodput.frer.mbps"))
    # The event of a new fragment is asynchronous.
    shown = page.locator("#trial-table tbody tr:visible th")
    expect(shown).to_have_count(6)
    assert all(name.startswith("frer-") for name in shown.all_inner_texts())
    assert "6 trials behind tcp.goodput.frer.mbps" in page.locator("#banner").inner_text()
    page.get_by_text("Show all trials").click()
    expect(shown).to_have_count(12)


def test_a_list_is_filtered_and_sorted(site, tab):
    page = tab(site / "trials" / "tcp.html")
    rows = page.locator("#trial-table tbody tr:visible")
    page.get_by_label("Rows with").fill("frer -r2-")
    assert rows.count() == 2
    page.get_by_label("Rows with").fill("")
    column = page.locator("#trial-table thead th", has_text="goodput mbps")
    place = column.evaluate("head => head.cellIndex")
    for order in (sorted, lambda found: sorted(found, reverse=True)):
        column.get_by_role("button").click()
        shown = [float(row.locator("th, td").nth(place).inner_text()) for row in rows.all()]
        assert shown == order(shown)
        assert len({*shown}) > 1


def test_claims_are_folded_until_a_link_or_a_filter_asks_for_them(site, tab):
    page = tab(site / "ledger.html")
    claims = page.locator("tr[data-verdict]")
    assert not page.locator("tr[data-verdict]:visible").count()
    last = page.locator("details[data-claims]").first.locator("tr[data-verdict]").last
    page.goto(f"{page.url}#{last.get_attribute('id')}")
    assert last.is_visible(), "beyond the first rows"
    page = tab(site / "ledger.html")
    part = page.locator("details[data-claims]").first
    part.locator("summary").first.click()
    shown = part.locator("tr[data-verdict]:visible")
    assert shown.count() == 12
    part.get_by_role("button", name="Show more").click()
    assert shown.count() == part.locator("tr[data-verdict]").count() > 12
    assert claims.count() > shown.count()


def test_claims_are_filtered(site, tab):
    page = tab(site / "ledger.html")
    count = page.locator("#shown")
    total = page.locator("tr[data-verdict]").count()
    assert count.inner_text() == f"{total} of {total} claims"
    page.get_by_label("By the record").select_option("contradicted")
    left = page.locator("tr[data-verdict]:visible")
    assert 0 < left.count() < total
    assert {row.get_attribute("data-record") for row in left.all()} == {"contradicted"}
    page.get_by_label("Words").fill("no such words")
    assert count.inner_text() == f"0 of {total} claims"
    page.get_by_role("button", name="Show all").click()
    page.wait_for_function(f"document.getElementById('shown').textContent.startsWith('{total} ')")


def test_the_keyboard_reaches_content_controls_and_values(site, tab):
    page = tab(site / "tcp.html")
    drawn(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    seen = set()
    for _ in range(16):
        seen.add(page.evaluate("document.activeElement.tagName"))
        page.keyboard.press("Tab")
    assert {"A", "SELECT", "SUMMARY"} <= seen


# Dark pages differ in colours only, so two pages are enough.
@pytest.mark.parametrize(
    ("scheme", "names"),
    [pytest.param("light", PAGES, marks=pytest.mark.slow), ("dark", ("tcp", "ledger"))],
)
def test_pages_are_accessible(site, tab, scheme, names):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for name in names:
        page = tab(site / f"{name}.html", color_scheme=scheme)
        page.wait_for_load_state("load")
        if name == "tcp":
            drawn(page)
        # Preloading style sheets is forbidden by the policy of the pages.
        found = axe.run(page, options={"preload": False}).response["violations"]
        assert [(name, item["id"]) for item in found] == []


def test_dark_pages_are_dark_and_so_are_their_plots(site, tab):
    for scheme, least, most in (("light", 200, 255), ("dark", 0, 60)):
        page = tab(site / "tcp.html", color_scheme=scheme)
        drawn(page)
        for what in ("document.body", "document.querySelector('#trials-plot svg')"):
            colour = page.evaluate(f"getComputedStyle({what}).backgroundColor")
            assert all(least <= int(part) <= most for part in re.findall(r"\d+", colour)[:3])


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_a_phone(site, tab, name):
    page = tab(site / f"{name}.html", viewport={"width": 390, "height": 800})
    page.wait_for_load_state("load")
    if name == "tcp":
        drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.documentElement.scrollHeight") <= 5000


def test_a_report_in_korean_is_korean_and_as_accessible(simulated_run_folder, site, tab):
    folder = site.parent / "model-short-ko"
    audit = run_audit({"tcp": simulated_run_folder})
    write_ledger(audit, folder, "index.html", "ko", translator("ko", composed=True))
    write_report(folder, [simulated_run_folder], language="ko")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for name in ("index", "tcp", "trials/tcp", "ledger"):
        page = tab(folder / f"{name}.html", viewport={"width": 390, "height": 800})
        if name == "tcp":
            drawn(page)
        assert page.locator("html").get_attribute("lang") == "ko"
        for heading in page.locator("h1, h2, nav a, summary").all_text_contents():
            assert re.search("[가-힣]", heading), heading
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        found = axe.run(page, options={"preload": False}).response["violations"]
        assert [(name, item["id"]) for item in found] == []
    assert page.get_by_label("검색어").count(), "the script of the pages prints it"


def test_the_site_is_small(site):
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    assert size < 2 * MEGABYTE  # one experiment of fifteen, and the library of the plots
