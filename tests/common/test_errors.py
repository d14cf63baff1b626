"""Messages of errors are safe on a terminal, whatever they quote."""

from tsnrepro.common.errors import TsnreproError


def test_message_location_and_remedy():
    assert str(TsnreproError("no rate", "a.yaml", "Give one")) == "no rate (a.yaml). Give one"


def test_control_characters_are_escaped():
    assert str(TsnreproError("unknown key '\x1b[31m'")) == r"unknown key '\x1b[31m'"


def test_long_tokens_are_truncated():
    path = "/" + "a" * 5000 + "/campaign.yaml"
    said = str(TsnreproError("no such file", path, "Name another"))
    assert said.startswith("no such file (/aaa")
    assert said.endswith("/campaign.yaml). Name another")
    assert len(said) < 250
