"""A host under examination that prints what a test says: nothing runs anywhere."""

from types import SimpleNamespace

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.host import Completed
from tsnrepro.testbeds.rack.findings import ExaminedHost


class PrintingShell:
    """A host's shell by what its commands print; one without an entry fails, as a missing tool's.

    A list is printed an entry a call, as counters that grow.
    """

    def __init__(self, name, prints):
        self.name, self._prints = name, prints
        self.asked = []

    def ask(self, argv):
        line = " ".join(argv)
        self.asked.append(line)
        text = self._prints.get(line)
        if isinstance(text, list):
            text = text.pop(0)
        return Completed(
            self.name, tuple(argv), int(text is None), text or "", "not found", 0.0, 0.0
        )

    def read(self, argv):
        done = self.ask(argv)
        if done.exit_status:
            raise TestbedError("failed", " ".join(argv))
        return done.stdout


def examined(settings, role, devices, prints):
    """Return a host of a rack, or of a pair, whose shell prints what is given."""
    shell = PrintingShell(role, prints)
    part = SimpleNamespace(devices=devices)
    rack = SimpleNamespace(settings=settings, shells={role: shell}, parts={role: part})
    return ExaminedHost(rack, role)


def found(check, host):
    """Return what a check finds, by what was looked at."""
    return {finding.check: finding for finding in check(host)}
