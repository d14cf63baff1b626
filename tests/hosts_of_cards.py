"""Stand-ins for hosts with one card: they answer as a PC with i225 would, and note what they hear.

They carry no frames: what is told is looked at, word by word.
"""

import json
import shlex

from tsnrepro.native.streams.command import READY
from tsnrepro.testbeds.hosts import programs
from tsnrepro.testbeds.hosts.host import Completed
from tsnrepro.testbeds.jobs import sessions

CARD = "enp3s0"
# As ethtool prints igb's and igc's; from 6.13 on the clock goes by another name.
STAMPING = """\
Time stamping parameters for enp3s0:
Capabilities:
\thardware-transmit
\tsoftware-transmit
\thardware-receive
\tsoftware-receive
\tsoftware-system-clock
\thardware-raw-clock
{clock}
Hardware Transmit Timestamp Modes:
\toff
\ton
Hardware Receive Filter Modes:
\tnone
\t{filters}
"""
MACS = {f: f"02:00:00:00:00:0{n}" for n, f in enumerate(("talker", "listener", "loader"), 1)}
SEPARATOR = r"\036"


class Process:
    """A program that is ready as soon as it is started, and runs until it is stopped."""

    running = True

    def __init__(self, done, stopped):
        self._done, self._stopped = done, stopped
        self._lines = iter(("started", READY))

    def read_line(self):
        return next(self._lines, "")

    def stop(self):
        self.running = False
        self._stopped()

    def wait(self):
        return self._done


class CardOfTest:
    """A host with one card that answers as a PC with i225 would; it notes what it is told."""

    def __init__(self, name, noted):
        self.name, self.noted = name, noted

    def run(self, argv, **_):
        if len(argv) == len(("sh", "-c", "script")) and SEPARATOR in argv[2]:
            # Several in one session, as a rack's shell asks them.
            each = [shlex.split(line.partition(" 2>&1;")[0]) for line in argv[2].splitlines()]
            said = [f"{self._answer(self._noted(words))}\x1e0\x1e" for words in each]
            return self._done(argv, "".join(said))
        return self._done(argv, self._answer(self._noted(argv)))

    def start(self, argv, **_):
        words = self._noted(argv, " &")
        return Process(self._done(argv, ""), lambda: self.noted.append(f"{self.name}: end {words}"))

    def write(self, path, content, **_):
        self.noted.append(f"{self.name}: scp {path}")

    def close(self):
        """As a connection's."""

    def _done(self, argv, text):
        return Completed(self.name, tuple(argv), 0, text, "", 0.0, 0.0)

    def _noted(self, argv, end=""):
        # A job's step stands behind the shell that reports how it ended, and its word.
        words = shlex.join(argv[5:] if argv[2:3] == [sessions._REPORT] else argv)
        self.noted.append(f"{self.name}# {words}{end}")
        return words

    def _answer(self, words):
        link = {"ifname": CARD, "flags": ["UP"], "mtu": 1500, "operstate": "UP"}
        link |= {"address": MACS[self.name], "addr_info": []}
        if words.startswith(("ip -j address", "ip -j -d link")):
            return json.dumps([link])
        if words.startswith(("tc -j", "ip -j")):
            return "[]"
        if words.startswith("cat /sys/class/net/"):
            shown = {"address": MACS[self.name], "duplex": "full", "carrier": "1"}
            return shown.get(words.rpartition("/")[2], "1000") + "\n"
        if words.startswith("ethtool --show-eee"):
            return "EEE settings for enp3s0:\n\tEEE status: enabled - active\n"
        if words.startswith("uname -m"):
            return f"{programs.platform.machine()}\n"
        return "0\n" if words.startswith(("sysctl -n", "sysctl --ignore -n")) else ""
