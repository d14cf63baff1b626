"""One copy of the repository in which every campaign is a miniature of itself."""

import os
import shutil

import pytest
import yaml
from miniature import miniature
from repository_copy import copy_of_repository

from tsnrepro.config.files import campaign
from tsnrepro.testbeds.emulated.namespace import missing_requirements


@pytest.fixture(scope="session")
def miniatures(tmp_path_factory):
    """Return the copy; what one campaign left there is there for the tests after it."""
    lacks = missing_requirements() + ([] if shutil.which("latexmk") else ["latexmk"])
    if lacks and not os.environ.get("CI"):
        pytest.skip(f"this machine lacks {', '.join(lacks)}")
    assert not lacks, f"CI must run the whole way, and lacks {', '.join(lacks)}"
    copy = copy_of_repository(tmp_path_factory.mktemp("repository"))
    for path in (copy / "config" / "campaigns").glob("*.yaml"):
        small = miniature(campaign(path.stem)).model_dump(mode="json", exclude_none=True)
        path.write_text(yaml.safe_dump(small, sort_keys=False), encoding="utf-8")
    return copy
