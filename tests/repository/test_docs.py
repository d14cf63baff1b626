"""The pages of docs/ and both READMEs: links lead somewhere, commands and examples are read."""

import re
import shlex

import pytest
import yaml

from tsnrepro.cli import build_parser
from tsnrepro.common.repository import root
from tsnrepro.config import load_testbed
from tsnrepro.records.tables import SCHEMAS

PAGES = sorted([root() / "README.md", root() / "README.ko.md", *(root() / "docs").glob("*.md")])
each = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


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
    text = page.read_text(encoding="utf-8").replace("config/testbeds/slow.yaml", "")
    for name in re.findall(r"`((?:src|config|notebooks|scripts|paper)/[\w./-]+)`", text):
        assert "NAME" in name or (root() / name).exists(), name


@each
def test_commands_are_read(page):
    for line in "".join(blocks(page, "sh")).splitlines():
        text = re.sub(r"(^|\s)#.*$", "", line).strip().removeprefix("source <(").removesuffix(")")
        words = shlex.split(text)
        if words and words[0] == "tsnrepro":
            build_parser().parse_args(words[1:])


def test_the_example_of_a_testbed_is_one(tmp_path):
    (example,) = blocks(root() / "docs" / "testbed.md", "yaml")
    (tmp_path / "slow.yaml").write_text(example, encoding="utf-8")
    assert load_testbed(tmp_path / "slow.yaml").link_rate_mbps == 100
    assert yaml.safe_load(example)["kind"] == "emulated"


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


def test_every_page_is_listed():
    listed = (root() / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (root() / "docs").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in listed


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
