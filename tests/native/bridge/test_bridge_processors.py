"""The processors that the bridge gives to its threads, on a machine with many."""

import os
import re
import subprocess

import pytest

from tsnrepro.native.bridge import tsn_bridge
from tsnrepro.native.bridge.settings_file import BridgeSettings, command

# A machine with other processors, on which DPDK prints its arguments instead of starting.
MACHINE = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int allowed[] = {PROCESSORS};

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	memset(set, 0, size);
	for (size_t place = 0; place < sizeof allowed / sizeof *allowed; place++)
		CPU_SET(allowed[place], set);
	return 0;
}

int rte_eal_init(int count, char **words)
{
	for (int place = 0; place < count; place++)
		if (!strncmp(words[place], "--lcores", 8))
			puts(words[place]);
	fflush(stdout);
	rmdir(getenv("RUNTIME_DIRECTORY"));
	_exit(0);
}
"""


@pytest.fixture
def lcores(tmp_path):
    """Return the function that gives the processors of each thread, by what is allowed."""

    def run(processors, **settings) -> list[set[int]]:
        source, library = tmp_path / "machine.c", tmp_path / "machine.so"
        source.write_text(MACHINE)
        numbers = f"-DPROCESSORS={','.join(map(str, processors))}"
        compiled = ["clang", "-shared", "-fPIC", numbers, str(source), "-o", str(library)]
        subprocess.run(compiled, check=True)
        (tmp_path / "settings").write_text(BridgeSettings(**settings).text())
        argv = command(str(tsn_bridge()), str(tmp_path / "settings"), ("p0", "p1", "p2"))
        printed = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
            env=os.environ | {"LD_PRELOAD": str(library)},
        ).stdout
        threads = re.fullmatch(r"--lcores=(\d@\([\d,-]+\)(?:,\d@\([\d,-]+\))*)\n", printed)
        assert threads, printed
        found = re.findall(r"(\d)@\(([\d,-]+)\)", threads[1])
        assert [int(number) for number, _ in found] == list(range(len(found)))
        return [numbers_of(listed) for _, listed in found]

    return run


def numbers_of(listed: str) -> set[int]:
    ends = [part.split("-") for part in listed.split(",")]
    return {n for each in ends for n in range(int(each[0]), int(each[-1]) + 1)}


@pytest.mark.parametrize(
    "processors",
    [range(2), range(64), range(0, 128, 2), [*range(3, 60), 70, 100, 101], range(1, 1024, 2)],
    ids=["two", "a server", "every second", "gaps", "as many as can be listed"],
)
def test_every_thread_may_use_all_processors_that_there_are(lcores, processors):
    assert lcores(processors, threads=2) == [set(processors)] * 3
    assert lcores(processors, receivers="each") == [set(processors)] * 5


def test_threads_without_rest_have_processors_of_their_own(lcores):
    many = [0, *range(4, 100, 2)]
    assert lcores(many, threads=2, sleep_us=0) == [set(many), {4}, {6}]
    assert lcores([0, 2], threads=2, sleep_us=0) == [{0, 2}] * 3
