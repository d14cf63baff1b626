"""The pages of docs/ and both READMEs: links lead to files, examples are read, tables are whole."""

import re
import shutil
import subprocess

import pytest
import yaml
from tracked_files import tracked

from tsnrepro.common.repository import root
from tsnrepro.config import load_testbed, parse
from tsnrepro.config.campaigns import Campaign
from tsnrepro.records.tables import SCHEMAS

PAGES = tracked("*.md", "docs/**/*.md", "paper/README.md")
each = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
# In examples of what a user would make.
EXAMPLES = re.compile(r"NAME|config/testbeds/slow\.yaml|queues|two-pages|lossy[_-]trips")


def blocks(page, language):
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@each
def test_links_lead_to_files(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not re.match(r"https?:", target):
            assert (page.parent / target).exists(), target


@each
def test_files_that_are_named_are_there(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(
        r"`((?:changes|config|docs|notebooks|paper|scripts|src)/[\w./-]+)`", text
    ):
        assert EXAMPLES.search(name) or (root() / name).exists(), name


def test_the_example_of_a_testbed_is_one(tmp_path):
    (example,) = blocks(root() / "docs" / "testbed.md", "yaml")
    (tmp_path / "slow.yaml").write_text(example, encoding="utf-8")
    assert load_testbed(tmp_path / "slow.yaml").link_rate_mbps == 100
    assert yaml.safe_load(example)["kind"] == "emulated"


def test_the_examples_of_campaigns_are_read():
    examples = blocks(root() / "docs" / "first-day-with-your-rack.md", "yaml")
    assert examples
    for example in examples:
        parse(Campaign, {"description": "an example"} | yaml.safe_load(example), example)


def test_both_readmes_have_the_same_commands():
    """Every command of the Korean README is one of the English, so that tests cover it."""
    english = {
        line.split("#")[0].strip()
        for b in blocks(root() / "README.md", "sh")
        for line in b.splitlines()
    }
    for block in blocks(root() / "README.ko.md", "sh"):
        for line in block.splitlines():
            assert line.split("#")[0].strip() in english, line


@pytest.mark.skipif(not shutil.which("dot"), reason="graphviz is not installed")
def test_the_drawing_has_every_sub_package():
    command = ["dot", "-Tplain", root() / "docs" / "architecture.dot"]
    drawn = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^node (\w+) ", drawn, re.MULTILINE)) == packages()


def test_the_page_on_the_architecture_has_every_sub_package():
    page = (root() / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == packages()


def packages():
    return {path.parent.name for path in tracked("src/tsnrepro/*/__init__.py")}


def columns_on_page():
    """Return the names in the first column of each table, by the heading above it."""
    found, heading = {}, ""
    for line in (root() / "docs" / "columns.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line[3:].strip("`")
            found[heading] = []
        elif line.startswith("| `"):
            found[heading] += re.findall(r"`([^`]+)`", line.split("|")[1])
    return found


@pytest.mark.parametrize("experiment", SCHEMAS)
def test_every_column_of_a_table_is_explained(experiment):
    explained = columns_on_page()
    named = ["^drop_.*$" if n == "drop_..." else n for n in explained[experiment]]
    assert sorted(explained["In every table"] + named) == sorted(SCHEMAS[experiment].columns)
