"""A host under examination whose commands print what a test provides."""

from types import SimpleNamespace

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.doctor.findings import ExaminedHost
from tsnrepro.testbeds.hosts.host import Completed


class PrintingShell:
    """A shell whose commands print given outputs; a command without one fails, as if missing.

    A list has one output per call, as for increasing counters.
    """

    def __init__(self, name, prints):
        self.name, self._prints = name, prints
        self.commands = []

    def query(self, argv):
        line = " ".join(argv)
        self.commands.append(line)
        text = self._prints.get(line)
        if isinstance(text, list):
            text = text.pop(0)
        return Completed(
            self.name, tuple(argv), int(text is None), text or "", "not found", 0.0, 0.0
        )

    def read(self, argv):
        completed = self.query(argv)
        if completed.exit_status:
            raise TestbedError("failed", " ".join(argv))
        return completed.stdout


def examined(settings, role, devices, prints):
    """Return a host of a rack or NIC pair whose shell prints given outputs."""
    shell = PrintingShell(role, prints)
    driver = SimpleNamespace(devices=devices)
    testbed = SimpleNamespace(settings=settings, shells={role: shell}, drivers={role: driver})
    return ExaminedHost(testbed, role)


def found(check, host):
    """Return the findings of a check by their names."""
    return {finding.check: finding for finding in check(host)}
