"""A real browser whose tabs fail a test where a page complains or asks for what lies elsewhere."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def tab(browser):
    """Return the function that opens a page's tab; what went wrong in any fails the test."""
    contexts, wrong = [], []

    def open_tab(path, **kept):
        contexts.append(browser.new_context(**kept))
        page = contexts[-1].new_page()
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: _own(request.url, wrong))
        page.goto(path.as_uri())
        return page

    yield open_tab
    for context in contexts:
        context.close()
    assert wrong == []


def _own(address, wrong):
    if not address.startswith(("file:", "data:", "blob:")):
        wrong.append(f"asked for {address}")
