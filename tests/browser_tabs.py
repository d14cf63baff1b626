"""Browser tabs that fail a test on an error of the page or a request to another server."""

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
    """Return the function that opens a file or an address; errors of the page fail the test."""
    contexts, errors = [], []

    def open_tab(place, **kept):
        address = place.as_uri() if isinstance(place, Path) else place
        contexts.append(browser.new_context(**kept))
        page = contexts[-1].new_page()
        page.on(
            "console",
            lambda message: errors.append(message.text) if message.type == "error" else None,
        )
        page.on("pageerror", lambda error: errors.append(str(error)))
        for kind in ("request", "websocket"):
            page.on(kind, lambda request: _check_server(request.url, address, errors))
        page.goto(address)
        return page

    yield open_tab
    for context in contexts:
        context.close()
    assert errors == []


def _check_server(url, address, errors):
    """Record a request to another server than that of the page; a file has none."""
    server = urlsplit(address).netloc
    inside = url.startswith(("file:", "data:", "blob:"))
    if not inside and not (server and urlsplit(url).netloc == server):
        errors.append(f"request to {url}")
