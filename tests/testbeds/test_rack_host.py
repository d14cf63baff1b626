"""A host of a rack tells of its commands as they were asked for."""

import pytest

from tsnrepro.common.errors import CommandError
from tsnrepro.testbeds.hosts.aliases import AliasedHost

pytestmark = pytest.mark.namespaces

COMPLAIN = ["sh", "-c", 'echo "no $0 here, but $0-1" >&2; exit 3']


@pytest.fixture
def host(testbed):
    """Of a rack whose switch calls its member ports otherwise than the topology."""
    return AliasedHost(testbed.hosts["sw1"], {"a0": "m0", "a1": "m1"}, {"/here/ip": "ip"})


def test_a_command_is_recorded_as_it_was_asked_for(host):
    asked = ["/here/ip", "-o", "link", "show", "dev", "a0"]
    for done in (host.run(asked, deadline_s=5), host.start(asked, deadline_s=5).wait()):
        assert done.argv == tuple(asked)
        assert " m0@" in done.check().stdout


def test_what_a_command_complains_of_has_the_names_of_the_topology(host):
    asked = [*COMPLAIN, "a1"]
    for done in (host.run(asked, deadline_s=5), host.start(asked, deadline_s=5).wait()):
        assert done.stderr == "no a1 here, but m1-1\n"
        with pytest.raises(CommandError, match="status 3: no a1 here") as error:
            done.check()
        assert "m1 " not in str(error.value)


def test_a_command_that_is_lost_is_told_as_it_was_asked_for(host):
    asked = ["sh", "-c", "kill -KILL $$", "a0"]
    with pytest.raises(CommandError, match="terminated by a signal") as error:
        host.run(asked, deadline_s=20)
    assert error.value.where == "sw1: sh -c 'kill -KILL $$' a0"
    process = host.start(["sh", "-c", "exit", "a0"], deadline_s=20)
    process.wait()
    with pytest.raises(CommandError) as error:
        process.send_line("more")
    assert error.value.where == "sw1: sh -c exit a0"
