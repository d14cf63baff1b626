"""The tutorials of the documentation, as a reader types them, in a copy of the repository."""

import re
import sys

import pytest
from repository_copy import copy_of_repository, run_in_copy

from tsnrepro.common.repository import root

pytestmark = [pytest.mark.whole_way, pytest.mark.timeout(2400)]
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
# "Write into `FILE`, in place of what is there", or the module that the sentence names.
TARGET = re.compile(r"`((?:config|paper|src)/[\w./-]+)`")


def follow(copy, page: str) -> int:
    """Do what a page says, block by block; return how many blocks it has."""
    text = (root() / "docs" / page).read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    for block in blocks:
        if block["language"] == "sh":
            done = run_in_copy(copy, "bash", "-ec", block["text"])
            assert done.returncode == 0, done.stdout[-6000:]
        elif ">>>" in block["text"]:
            (copy / "example.txt").write_text(block["text"], encoding="utf-8")
            done = run_in_copy(copy, sys.executable, "-m", "doctest", "example.txt")
            assert done.returncode == 0, done.stdout
        else:
            before = text[: block.start()].rpartition("```")[2]
            target = TARGET.findall(before)[-1]
            path = copy / target
            if path.is_dir():
                path /= "measure.py"
            assert path.is_file()
            path.write_text(block["text"], encoding="utf-8")
    return len(blocks)


@pytest.mark.parametrize(
    "page",
    [
        "tutorial-grid.md",
        "tutorial-round-trips.md",
        pytest.param("tutorial-paper.md", marks=pytest.mark.latex),
    ],
)
def test_a_tutorial_runs_as_it_is_typed(tmp_path, page):
    copy = copy_of_repository(tmp_path / "copy")
    assert follow(copy, page) >= 3
    if page == "tutorial-paper.md":
        assert (copy / "results/papers/latest/two-pages/two-pages.pdf").is_file()
