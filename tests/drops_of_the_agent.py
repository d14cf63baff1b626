"""Drops that the kernel reports to no eBPF program: those that interrupt a virtual machine's agent.

Where process 1 is the agent of a virtual machine, its kernel may call no program of a tracepoint
while a thread of the agent is interrupted; the kernel's own event is written all the same. On
such a machine a drop now and then has no place, and a test of our tracer finds that, not a fault.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_TASK = re.compile(r"^\s*\S.*?-(\d+)\s+\[\d+\]", re.MULTILINE)


@contextmanager
def drops_of_the_agent() -> Iterator[Callable[[], int]]:
    """Yield the function that counts them; always none where the kernel's events cannot be read."""
    with ExitStack() as stack:
        instance = _instance(stack)
        yield lambda: _of_process_1(instance) if instance else 0


def _instance(stack: ExitStack) -> Path | None:
    """Return a trace of dropped frames of our own, which ends with the stack."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    mount = ["mount", "-t", "tracefs", "none", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        return None
    stack.callback(subprocess.run, ["umount", folder], check=True)
    instance = Path(folder, "instances", "tsnrepro-tests")
    try:
        instance.mkdir(exist_ok=True)
        stack.callback(instance.rmdir)
        (instance / "events/skb/kfree_skb/enable").write_text("1")
    except OSError:
        return None
    return instance


def _of_process_1(instance: Path) -> int:
    tasks = _TASK.findall((instance / "trace").read_text(encoding="utf-8", errors="replace"))
    return sum(Path(f"/proc/1/task/{task}").is_dir() for task in tasks)
