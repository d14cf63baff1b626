"""Our programs on a rack's hosts: brought there for a campaign, gone after it."""

import platform

from tsnrepro.dataplane import build as dataplane
from tsnrepro.errors import CommandError, TestbedError
from tsnrepro.streams import build as streams
from tsnrepro.testbed.hardware.shell import Shell

FOLDER = "/run/tsnrepro-programs"
_WRITE_SECONDS = 60


def on_host() -> dict[str, str]:
    """Return the paths of our programs on every host by their paths here."""
    made = streams.programs()
    here = (made.talker, made.listener, made.stallmeter, dataplane.frerctl())
    return {str(path): f"{FOLDER}/{path.name}" for path in here}


def frerctl() -> str:
    """Return the path of frerctl on every host."""
    return f"{FOLDER}/{dataplane.frerctl().name}"


def install(shell: Shell) -> None:
    """Write our programs to a host.

    Raises
    ------
    TestbedError
        The host is of another kind of processor than this machine, or has no room.
    """
    machine = shell.read(["uname", "-m"]).strip()
    if machine != platform.machine():
        raise TestbedError(
            f"the host is {machine} and this machine, whose programs it would run, "
            f"{platform.machine()}",
            shell.name,
            "Run the campaign on a machine of the hosts' kind",
        )
    shell.change(["mkdir", "-p", FOLDER])
    objects = [dataplane.frerctl().with_name(f"{name}.bpf.o") for name in ("switch", "station")]
    for path in [*on_host(), *map(str, objects)]:
        target = f"{FOLDER}/{path.rpartition('/')[2]}"
        if shell.dry:
            shell.change(["scp", path, f"{shell.name}:{target}"])
            continue
        with open(path, "rb") as file:
            content = file.read()
        try:
            shell.host.write(target, content, deadline_s=_WRITE_SECONDS)
        except CommandError as error:
            raise TestbedError(error.what, error.where, "Is there room in /run?") from error


def remove(shell: Shell) -> None:
    """Remove our programs from a host."""
    shell.change(["rm", "-rf", FOLDER])
