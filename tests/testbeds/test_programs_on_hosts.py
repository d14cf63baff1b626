"""Our programs on a host: they can be run there, also where /run lets nothing be run, and go."""

import subprocess

import pytest

from tsnrepro.testbeds.hosts import programs

pytestmark = pytest.mark.namespaces

# A mount namespace of its own: nothing of this machine's is mounted or unmounted.
APART = ("unshare", "--mount", "--propagation", "private", "sh", "-e", "-c")
NOEXEC = "mount -t tmpfs -o nodev,noexec,nosuid,mode=0755 tmpfs /run"
EXEC = "mount -t tmpfs -o nodev,nosuid,mode=0755 tmpfs /run"
PUT = f"cp /bin/true {programs.FOLDER}/true; {programs.FOLDER}/true"
LEFT = "ls -d /run/tsnrepro* 2>/dev/null || true"
MOUNTS = f"grep -c ' {programs.FOLDER} ' /proc/mounts || true"


def on_a_host(*lines):
    """Run lines of a shell with the scripts as functions, and return what they print."""
    functions = {"make": programs._MAKE, "remove": programs._REMOVE}
    defined = [
        f"{name}() {{ sh -c '{text}' sh {programs.FOLDER}; }}" for name, text in functions.items()
    ]
    done = subprocess.run(
        [*APART, "\n".join([*defined, *lines])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_plain_folder_lets_nothing_be_run_there():
    """What the folder is for: without this the others would show nothing."""
    with pytest.raises(AssertionError, match="Permission denied"):
        on_a_host(NOEXEC, f"mkdir {programs.FOLDER}", PUT)


@pytest.mark.parametrize(("run", "mounts"), [(NOEXEC, "1"), (EXEC, "0")])
def test_programs_can_be_run_and_leave_nothing(run, mounts):
    said = on_a_host(run, "make", PUT, MOUNTS, "remove", MOUNTS, LEFT)
    assert said == [mounts, "0"]


def test_what_a_killed_campaign_left_is_no_hindrance():
    said = on_a_host(NOEXEC, "make", "make", PUT, MOUNTS, "remove", "remove", MOUNTS, LEFT)
    assert said == ["1", "0"]


def test_a_program_that_still_runs_is_ended_and_keeps_nothing():
    still = f"cp /bin/sleep {programs.FOLDER}/sleep; {programs.FOLDER}/sleep 20 & left=$!"
    ended = "wait $left || echo $?"
    said = on_a_host(NOEXEC, "make", still, "sleep 0.2", "remove", MOUNTS, LEFT, ended)
    assert said == ["0", "143"]
