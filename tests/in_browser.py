"""A real browser whose tabs fail a test where a page complains or asks for what lies elsewhere."""

import shutil
from pathlib import Path
from urllib.parse import urlsplit

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
    """Return the function that opens a file or an address; what goes wrong there fails the test."""
    contexts, wrong = [], []

    def open_tab(place, **kept):
        address = place.as_uri() if isinstance(place, Path) else place
        contexts.append(browser.new_context(**kept))
        page = contexts[-1].new_page()
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        for kind in ("request", "websocket"):
            page.on(kind, lambda asked: _own(asked.url, address, wrong))
        page.goto(address)
        return page

    yield open_tab
    for context in contexts:
        context.close()
    assert wrong == []


def _own(asked, address, wrong):
    """Note what is asked of any server but the one that gave the page; a file's has none."""
    server = urlsplit(address).netloc
    inside = asked.startswith(("file:", "data:", "blob:"))
    if not inside and not (server and urlsplit(asked).netloc == server):
        wrong.append(f"asked for {asked}")
