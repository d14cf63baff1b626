"""The documentation builds without a warning and without a network, and no link is dead."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tsnrepro.common.repository import root

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
# Whatever would be fetched is asked of a port of this machine where nothing listens.
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site and return its folder."""
    folder = tmp_path_factory.mktemp("docs")
    command = [Path(sys.executable).parent / "sphinx-build", "-n", "-W", "--keep-going", "-q"]
    command += ["-d", folder / "doctrees", root() / "docs", folder / "site"]
    environment = os.environ | NO_NETWORK
    built = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    return folder / "site"


class Page(HTMLParser):
    """The links and anchors of a page, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        for name in ("src", "data", "href"):
            if tag != "a" and name in found:
                self.loads.add(found[name])


def test_no_link_is_dead(site):
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 40
    dead = []
    for path, page in pages.items():
        for link in page.links | page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            if not target.exists() or (
                parts.fragment and known and unquote(parts.fragment) not in known.anchors
            ):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []


def test_pages_load_nothing_from_a_network(site):
    for path in site.rglob("*.html"):
        outside = [link for link in Page(path).loads if urlsplit(link).netloc]
        assert outside == [], path


def test_the_notebook_was_executed(site):
    page = (site / "first-campaign.html").read_text(encoding="utf-8")
    assert "results/reports/model-smoke-loss-latency/index.html" in page
    assert "<img" in page
