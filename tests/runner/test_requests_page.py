"""The page on what an experiment may request of a network, as a reader types it."""

import doctest
from dataclasses import fields
from typing import get_args

import pytest
import yaml

from tsnrepro.common.repository import root
from tsnrepro.config import parse
from tsnrepro.config.campaigns import Campaign
from tsnrepro.runner.backends import Backend
from tsnrepro.runner.faults import FaultKind
from tsnrepro.runner.load import IntendedLoad

PAGE = root() / "docs" / "requests.md"
TEXT = PAGE.read_text(encoding="utf-8")
# Of RFC 2544's and the traffic experiment's own trials.
SPECIAL = {"full_waits", "phase_s"}


def test_every_example_gives_what_the_page_prints():
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 40
    assert not found.failed


def test_the_section_of_a_campaign_is_read():
    _, _, example = TEXT.partition("```yaml\n")
    parse(Campaign, {"description": "an example"} | yaml.safe_load(example.partition("```")[0]), "")


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in vars(Backend) if not name.startswith("_") and name != "link_rate_mbps"),
        *(each.name for each in fields(IntendedLoad) if each.default is not ...),
        *get_args(FaultKind),
    ],
)
def test_the_page_names_every_request(name):
    asked = {"configuration", "payload_bytes", "rate_pps", "duration_s", *SPECIAL}
    assert name in TEXT or name in asked
