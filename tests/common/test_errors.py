"""What an error says can be read on a terminal, whatever it quotes."""

from tsnrepro.common.errors import TsnreproError


def test_what_was_wrong_where_and_what_to_do():
    assert str(TsnreproError("no rate", "a.yaml", "Give one")) == "no rate (a.yaml). Give one"


def test_a_terminal_is_given_no_orders():
    assert str(TsnreproError("unknown key '\x1b[31m'")) == r"unknown key '\x1b[31m'"


def test_an_endless_word_keeps_its_ends():
    path = "/" + "a" * 5000 + "/campaign.yaml"
    said = str(TsnreproError("no such file", path, "Name another"))
    assert said.startswith("no such file (/aaa")
    assert said.endswith("/campaign.yaml). Name another")
    assert len(said) < 250
