"""Jobs of the guest testbed: what they refuse, and the script they become."""

import json
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.testbeds.hosts.host import Completed
from tsnrepro.testbeds.jobs import script
from tsnrepro.testbeds.jobs.job import (
    Bridge,
    Job,
    JobResult,
    Link,
    LinkEnd,
    Pause,
    Step,
    Stop,
    Vlan,
)

TALKER = LinkEnd("talker", "eth0", ("10.0.0.1/24",), vlans=(Vlan(10, ("10.0.10.1/24",)),))
LISTENER = LinkEnd("listener", "eth0", ("10.0.0.2/24",), vlans=(Vlan(10, ("10.0.10.2/24",)),))
SWITCHED = (Link(TALKER, LinkEnd("sw", "p0")), Link(LinkEnd("sw", "p1"), LISTENER))


def job(*steps, **changes) -> Job:
    values = {"links": (Link(TALKER, LISTENER),), "steps": steps, **changes}
    return Job("test", **values)


def say(name="say", host="talker", deadline_s=5.0, **changes) -> Step:
    return Step(name, host, ("echo", name), deadline_s, **changes)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: job(say(), say()), "step name 'say' is not unique"),
        (lambda: job(say(host="nobody")), "host 'nobody', the hosts are talker, listener"),
        (lambda: job(say(name="../up")), "is not a valid step name"),
        (lambda: job(say(deadline_s=0)), "deadline of 0 s"),
        (lambda: job(say(deadline_s=float("inf"))), "deadline of inf s"),
        (lambda: job(Step("none", "talker", (), 1)), "has no command"),
        (lambda: job(say(), Stop("say")), "stops 'say', which is no earlier background step"),
        (lambda: job(Stop("later"), say("later", background=True)), "stops 'later'"),
        (lambda: job(say(background=True), Stop("say"), Stop("say")), "stops 'say'"),
        (lambda: job(Pause(-1)), "a pause of -1 s"),
        (lambda: job(say(files=("log",))), "not an absolute path"),
        (lambda: job(say("a", files=("/x",)), say("b", files=("/x",))), "two steps collect /x"),
        (lambda: job(links=()), "it has no link"),
        (lambda: job(links=(Link(TALKER, TALKER),)), "device eth0 of host talker is not unique"),
        (lambda: job(links=(Link(TALKER, LinkEnd("b", "a" * 16)),)), "is not a valid device name"),
        (lambda: job(links=(Link(TALKER, LinkEnd("b c", "x")),)), "'b c' is not a valid host name"),
        (lambda: job(bridges=(Bridge("talker", ("eth1",)),)), "has ports without a link"),
        (
            lambda: job(links=(Link(TALKER, LinkEnd("b", "x", vlans=(Vlan(4095),))),)),
            "VLAN 4095 on b x: it must be 1 to 4094",
        ),
        (lambda: job(inputs={"file": b""}), "input file is not an absolute path"),
        (lambda: job(deadline_s=-1), "a deadline of -1 s"),
    ],
)
def test_what_cannot_be_done_is_refused_before_a_guest_boots(make, says):
    with pytest.raises(TestbedError, match="job test") as refusal:
        make()
    assert says in str(refusal.value)


def test_an_address_that_is_none_names_its_port():
    bad = job(links=(Link(LinkEnd("a", "eth0", ("10.0.0.300/24",)), LISTENER),))
    with pytest.raises(TestbedError, match="a eth0"):
        script.text(bad)


def commands(of: Job) -> list[list[str]]:
    library = script.LIBRARY.read_text(encoding="utf-8")
    text = script.text(of)
    assert text.startswith(library)
    return [shlex.split(line) for line in text[len(library) :].splitlines() if line]


WORDS = st.text(st.characters(exclude_characters="\0\n\r", codec="utf-8"), max_size=12)


@given(st.lists(WORDS, min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_a_shell_sees_the_words_of_a_command_as_they_are(argv):
    line = next(
        text
        for text in script.text(job(Step("odd", "talker", tuple(argv), 5))).split("\n")
        if text.startswith("run odd")
    )
    shell = 'run() { shift 3; for word; do printf "%s\\0" "$word"; done; }\n'
    said = subprocess.run(
        ["dash", "-c", shell + line], capture_output=True, check=True
    ).stdout.decode()
    assert said.split("\0")[:-1] == argv


def test_queues_are_configured_before_any_link_is_up():
    lines = commands(job(say("traffic"), configure=(say("queue"),)))
    names = [line[1] if line[0] in ("run", "start") else line[0] for line in lines]
    first_up = next(n for n, line in enumerate(lines) if line[-1] == "up")
    last_up = max(n for n, line in enumerate(lines) if line[-1] == "up")
    created = max(n for n, line in enumerate(lines) if "add" in line and "link" in line)
    assert created < names.index("queue") < first_up
    assert last_up < names.index("traffic")


def test_hosts_know_the_neighbours_of_their_own_subnets():
    entries = [line for line in commands(job()) if "neighbour" in line]
    known = {(line[3], line[line.index("replace") + 1], line[-1]) for line in entries}
    assert known == {
        ("talker", "10.0.0.2", "eth0"),
        ("talker", "10.0.10.2", "eth0.10"),
        ("listener", "10.0.0.1", "eth0"),
        ("listener", "10.0.10.1", "eth0.10"),
    }
    assert all(line[line.index("nud") + 1] == "permanent" for line in entries)


def test_every_port_has_an_address_of_its_own_that_is_local_and_unicast():
    switched = job(links=SWITCHED, bridges=(Bridge("sw", ("p0", "p1")),))
    addresses = [script.hardware_address(switched, port) for port in switched.ports()]
    assert len(set(addresses)) == 4
    first = [int(address.split(":")[0], 16) for address in addresses]
    assert all(octet & 2 and not octet & 1 for octet in first)


def test_seeds_begin_at_different_moments():
    def pause(seed: int) -> float:
        return float(next(c for c in commands(job(seed=seed)) if c[0] == "sleep")[1])

    pauses = [pause(seed) for seed in range(20)]
    assert len({round(value, 6) for value in pauses}) == 20
    assert all(0.1 <= value <= 0.2 for value in pauses)
    assert pause(3) == pause(3)


def test_a_job_can_be_written_into_a_record():
    described = job(say(), Pause(1), inputs={"/x": b"123"}).describe()
    again = json.loads(json.dumps(described))
    assert again["inputs"] == {"/x": 3}
    assert [step["kind"] for step in again["steps"]] == ["step", "pause"]
    assert again["links"][0]["one"]["vlans"][0]["vlan_id"] == 10


def result(*statuses: int, virtual_time=True) -> JobResult:
    steps = {
        f"s{n}": Completed("talker", ("x",), status, "", "", 0.0, 0.1)
        for n, status in enumerate(statuses)
    }
    facts = {"kernel": "6", "qemu": "7", "seed": 1, "wall_s": 1.0, "ready_s": 1.0, "console": ""}
    facts |= {"testbed": "guest", "acceleration": "tcg", "kernel_packages": ("k",)}
    return JobResult("test", steps, {"/log": b"1"}, virtual_time=virtual_time, **facts)


def test_a_failed_step_is_raised_and_a_stopped_one_is_not():
    assert result(0, 143).check().job == "test"
    with pytest.raises(CommandError, match="exit status 127"):
        result(0, 143, 127).check()
    with pytest.raises(CommandError, match="deadline exceeded"):
        result(124).check()


def test_a_file_that_did_not_come_back_is_named_with_those_that_did():
    assert result().file("/log") == b"1"
    with pytest.raises(TestbedError, match=r"no file /other.*Its files: /log"):
        result().file("/other")


def test_virtual_time_is_said_and_real_time_is_not():
    assert "virtual" in result().note
    assert "absolute latency" in result().describe()["note"]
    assert result(virtual_time=False).note == ""
