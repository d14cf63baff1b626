"""Whether a campaign that goes on for days grows: commands, configurations and trials in numbers.

    python benchmarks/long_life.py                                 ten thousand commands, an hour
    python benchmarks/long_life.py --commands 500 --cycles 50 --minutes 2

On the emulated testbed it runs commands over SSH, then configures and reads all counters again and
again, then measures trials of experiment `loss`. At twenty points of each it reads the memory, the
threads and the open files of this program, and the memory, the processes and the open files of the
testbed's hosts. Caches fill at first, so the second half is judged: the medians of its two quarters
may differ by noise only. Exit status 1 where something grew.

Memory may differ by 1 MiB, an arena of Python's, or a hundredth. The medians of two quarters are
some 360 of an hour's trials apart, so it sees what grows by 3 KiB a trial or more; what grows by
less is seen by tests/runner/test_memory_of_runs.py, which looks at what Python allocated.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import astuple, dataclass, fields
from itertools import count
from pathlib import Path

from tsnrepro.common.topology import TALKER
from tsnrepro.config import EmulatedSettings
from tsnrepro.config.files import campaign
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.experiments.loss.plan import plan as plan_loss
from tsnrepro.records.store import RawStore
from tsnrepro.runner.design import Planned
from tsnrepro.runner.run import run_trials
from tsnrepro.testbeds.emulated.testbed import EmulatedTestbed
from tsnrepro.tools.frerctl import StreamFilter

LOOKS = 20
DEADLINE_SECONDS = 10
STREAM = StreamFilter("udp", 5201)
# What a quarter may have more than the one before it: share, and absolute.
SHARE = 0.01
SLACK = {"memory_kib": 1024, "hosts_memory_kib": 2048}
ONE = 1
# Each process of a host, by the network namespace that it is in: what it holds.
ON_HOSTS = """\
space=$(readlink /proc/self/ns/net); processes=0 files=0 memory=0
for folder in /proc/[0-9]*; do
    [ "$(readlink "$folder/ns/net" 2>/dev/null)" = "$space" ] || continue
    processes=$((processes + 1))
    files=$((files + $(ls "$folder/fd" 2>/dev/null | wc -l)))
    rss=$(awk '/^VmRSS/ { print $2 }' "$folder/status" 2>/dev/null)
    memory=$((memory + ${rss:-0}))
done
echo $processes $files $memory
"""


@dataclass(frozen=True)
class Held:
    """What the program and its hosts hold at one moment."""

    memory_kib: int
    threads: int
    files: int
    hosts_memory_kib: int
    hosts_processes: int
    hosts_files: int


def held(testbed: EmulatedTestbed) -> Held:
    """Read what is held now."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    values = dict(line.split(":", 1) for line in status.splitlines())
    own = [int(values[name].split()[0]) for name in ("VmRSS", "Threads")]
    hosts = [0, 0, 0]
    for host in testbed.hosts.values():
        ran = host.run(["sh", "-c", ON_HOSTS], deadline_s=DEADLINE_SECONDS).check()
        hosts = [a + int(b) for a, b in zip(hosts, ran.stdout.split(), strict=True)]
    processes, files, memory = hosts
    return Held(own[0], own[1], len(os.listdir("/proc/self/fd")), memory, processes, files)


def commands(testbed: EmulatedTestbed) -> Iterator[None]:
    """Run a command over SSH at every step."""
    while True:
        testbed.hosts[TALKER].run(["true"], deadline_s=DEADLINE_SECONDS).check()
        yield


def cycles(testbed: EmulatedTestbed) -> Iterator[None]:
    """Configure the switches and read all counters at every step."""
    for number in count():
        testbed.configure("frer" if number % 2 else "control", STREAM)
        testbed.snapshot()
        yield


def trials(testbed: EmulatedTestbed, folder: Path) -> Iterator[None]:
    """Measure a trial of `loss` at every step, recorded as in a campaign."""
    settings = campaign("soak").loss
    assert settings is not None
    part = settings.parts[0].model_copy(update={"duration_s": 1, "rates_mbps": [100]})
    for repetition in count(1):
        plan = plan_loss(
            settings.model_copy(update={"parts": [part], "repetitions": 1}), repetition, "emulated"
        )
        store = RawStore(folder / str(repetition), "emulated", "soak", "loss")
        for item in plan:
            _measure(store, item, testbed)
            yield


def _measure(store: RawStore, item: Planned, testbed: EmulatedTestbed) -> None:
    run_trials(store, [item], 1, lambda: nullcontext(testbed), loss.measure)
    document = store.read(store.attempts(item.trial)[-1])
    unaccounted = document["values"]["accounting"]["unaccounted"]
    if unaccounted:
        sys.exit(f"{item.trial.label}: {unaccounted} datagrams have no place")


def by_number(steps: Iterator[None], number: int) -> Iterator[int]:
    """Yield the steps taken, at every twentieth of their number."""
    for done in range(1, number + 1):
        next(steps)
        if done * LOOKS // number > (done - 1) * LOOKS // number:
            yield done


def by_time(steps: Iterator[None], seconds: float) -> Iterator[int]:
    """Yield the steps taken, at every twentieth of the time."""
    began, looks = time.monotonic(), 0
    for done in count(1):
        next(steps)
        if time.monotonic() - began >= seconds * (looks + 1) / LOOKS:
            looks += 1
            yield done
        if looks >= LOOKS:
            return


def grew(seen: list[Held]) -> list[str]:
    """Return what grew from the third quarter to the fourth."""
    half = seen[len(seen) // 2 :]
    third, fourth = half[: len(half) // 2], half[len(half) // 2 :]
    found = []
    for name in (field.name for field in fields(Held)):
        before, after = (statistics.median(getattr(h, name) for h in q) for q in (third, fourth))
        if after - before > max(SHARE * before, SLACK.get(name, ONE)):
            found.append(f"{name}: {before:g} in the third quarter, {after:g} in the fourth")
    return found


def phase(name: str, testbed: EmulatedTestbed, looks: Callable[[], Iterator[int]]) -> list[str]:
    """Take the steps of one phase, print what was held, and return what grew."""
    began, seen, done = time.monotonic(), [held(testbed)], 0
    print(f"\n{name}\n{'steps':>8}" + "".join(f"{f.name:>18}" for f in fields(Held)))
    print(f"{0:>8}" + "".join(f"{value:>18}" for value in astuple(seen[0])))
    for done in looks():
        seen.append(held(testbed))
        print(f"{done:>8}" + "".join(f"{value:>18}" for value in astuple(seen[-1])), flush=True)
    found = grew(seen)
    print(f"{done} {name} in {time.monotonic() - began:.0f} s: {'; '.join(found) or 'flat'}")
    return [f"{name}: {what}" for what in found]


def main() -> int:
    """Run the three phases one after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commands", type=int, default=10_000, help="commands over SSH")
    parser.add_argument("--cycles", type=int, default=1_000, help="configurations and snapshots")
    parser.add_argument("--minutes", type=float, default=60, help="how long trials are measured")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        EmulatedTestbed(EmulatedSettings(), "benchmarks/long_life.py") as testbed,
    ):
        measured = trials(testbed, Path(folder))
        found = [
            *phase("commands", testbed, lambda: by_number(commands(testbed), asked.commands)),
            *phase("cycles", testbed, lambda: by_number(cycles(testbed), asked.cycles)),
            *phase("trials", testbed, lambda: by_time(measured, 60 * asked.minutes)),
        ]
    print("\n" + ("\n".join(found) or "nothing grew"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
