"""A stand-in for the shell of a LAN966x board whose port shapes between network cards.

It keeps what its chip would keep, and refuses what the kernel's driver for the chip refuses
(drivers/net/ethernet/microchip/lan966x: lan966x_taprio.c, lan966x_cbs.c, lan966x_mqprio.c,
lan966x_dcb.c; for bridges lan966x_switchdev.c), with the kernel's exit statuses. It carries no
frames: words and limits are what it checks. The shell's own scripts run in this machine's shell.
"""

import json
import re
import shlex
import subprocess
from copy import deepcopy
from pathlib import Path

from tsnrepro.experiments.shaping import board_queues
from tsnrepro.testbeds.hosts import programs
from tsnrepro.testbeds.hosts.host import Completed
from tsnrepro.testbeds.jobs import sessions

PORTS = ("eth0", "eth1", "eth2", "eth3")
_US, _S = 1_000, 1_000_000_000
_MOST_ENTRIES, _QUEUES, _MOST_BURSTS, _MOST_STEPS = 256, 8, 127, 65_535
_PCP = re.compile(r"([0-7])(nd|de):([0-7])")
_SCRIPT_TC = """\
#!/bin/sh
if [ "$2" = show ]; then cat "$SHOWN"; else echo "$*" >>"$TOLD"; fi
"""


class Refused(Exception):
    """What a tool prints where the kernel refuses, with the tool's exit status."""

    def __init__(self, text, status=2):
        super().__init__(text)
        self.status = status


class Killed(BaseException):
    """Whoever told the board was killed."""


class Board:
    """A board's shell.

    Parameters
    ----------
    folder
        For the shell's scripts.
    noted
        What hosts are told, in order.
    """

    name = "sw"

    def __init__(self, folder: Path, noted=None):
        self.noted = [] if noted is None else noted
        self.killed_at = None
        self.changes = 0
        self._folder = folder
        self.state = {
            "bridges": {},
            "ports": {
                port: {"up": True, "mtu": 1500, "master": None, "vlans": [], "root": None}
                for port in PORTS
            },
            "pcp": {port: [] for port in PORTS},
            # As the driver sets it when it is loaded.
            "trust": {port: ["dscp", "pcp"] for port in PORTS},
            "run": [],
        }

    # --- as a host ----------------------------------------------------------------------------

    def run(self, argv, **_):
        """Run a command, or several in one session, as a rack's shell asks them."""
        if len(argv) == len(("sh", "-c", "script")) and r"\036" in argv[2]:
            said = []
            for line in argv[2].splitlines():
                status, text = self._ended(shlex.split(line.partition(" 2>&1;")[0]))
                said.append(f"{text}\x1e{status}\x1e")
                if status and "exit 0" in line:
                    break
            return Completed(self.name, tuple(argv), 0, "".join(said), "", 0.0, 0.0)
        words = argv[5:] if argv[2:3] == [sessions._REPORT] else argv
        status, text = self._ended(list(words))
        out, err = ("", text) if status else (text, "")
        return Completed(self.name, tuple(argv), status, out, err, 0.0, 0.0)

    def close(self):
        """As a connection's."""

    def _ended(self, words):
        self.noted.append(f"{self.name}# {shlex.join(words)}")
        before = deepcopy(self.state)
        try:
            text = self._do(words)
        except Refused as refused:
            self.state = before
            return refused.status, str(refused)
        if self.state != before:
            self.changes += 1
            if self.changes == self.killed_at:
                raise Killed
        return 0, text

    def _do(self, words):
        tool, rest = words[0], words[1:]
        known = {"ip": self._ip, "bridge": self._bridge, "tc": self._tc, "dcb": self._dcb}
        if tool in known:
            return known[tool](rest)
        if tool == "sh":
            return self._script(rest)
        return {"uname": "6.12.48-microchip\n", "nproc": "1\n"}.get(tool, "")

    def _script(self, rest):
        if rest[1] == programs._REMOVE:
            self.state["run"] = []
            return ""
        if rest[1] != board_queues._CLEAR:
            return ""
        folder, device = self._folder, rest[3]
        shim, shown, told = folder / "tc", folder / "shown", folder / "told"
        shim.write_text(_SCRIPT_TC, "ascii")
        shim.chmod(0o755)
        shown.write_text("".join(f"{line}\n" for line in self._listed(device)), "ascii")
        told.write_text("", "ascii")
        environment = {"PATH": f"{folder}:/usr/bin:/bin", "SHOWN": str(shown), "TOLD": str(told)}
        subprocess.run(["sh", *rest], env=environment, check=True)
        for line in told.read_text("ascii").splitlines():
            self._tc(line.split())
        return ""

    # --- ip and bridge ------------------------------------------------------------------------

    def _port(self, device):
        if device not in self.state["ports"]:
            raise Refused(f'Cannot find device "{device}"', 1)
        return self.state["ports"][device]

    def _ip(self, words):
        if words[0].startswith("-"):
            names = [*self.state["ports"], *self.state["bridges"]]
            if words[-2] == "dev":
                names = [name for name in names if name == words[-1]]
                if not names:
                    raise Refused(f'Device "{words[-1]}" does not exist.', 1)
            return json.dumps([self._shown(name) for name in names]) if "link" in words else "[]"
        assert words[0] == "link", words
        verb, rest = words[1], words[2:]
        if verb == "add":
            return self._add_bridge(rest)
        device, rest = (rest[1], rest[2:]) if rest[0] == "dev" else (rest[0], rest[1:])
        if verb == "del":
            if self.state["bridges"].pop(device, None) is None:
                raise Refused(f'Cannot find device "{device}"', 1)
            for port in self.state["ports"].values():
                if port["master"] == device:
                    port |= {"master": None, "vlans": []}
            return ""
        if device in self.state["bridges"]:
            assert rest[0] in ("up", "addrgenmode"), rest
            self.state["bridges"][device]["up"] |= rest[0] == "up"
            return ""
        return self._set_link(self._port(device), rest)

    def _shown(self, name):
        if name in self.state["bridges"]:
            return {"ifname": name, "flags": [], "mtu": 1500}
        port = self.state["ports"][name]
        master = {"master": port["master"]} if port["master"] else {}
        flags = ["UP"] if port["up"] else []
        return {"ifname": name, "flags": flags, "mtu": port["mtu"]} | master

    def _add_bridge(self, rest):
        assert [rest[0], *rest[2:4]] == ["name", "type", "bridge"], rest
        if rest[1] in self.state["bridges"]:
            raise Refused("RTNETLINK answers: File exists")
        options = dict(zip(rest[4::2], rest[5::2], strict=True))
        self.state["bridges"][rest[1]] = {"up": False, **options}
        return ""

    def _set_link(self, port, rest):
        words = list(rest)
        while words:
            word = words.pop(0)
            if word in ("up", "down"):
                port["up"] = word == "up"
            elif word == "mtu":
                port["mtu"] = int(words.pop(0))
            else:
                assert word == "master", rest
                self._join(port, words.pop(0))
        return ""

    def _join(self, port, bridge):
        if bridge not in self.state["bridges"]:
            raise Refused("Error: argument is not a valid device", 1)
        # The chip forwards for one bridge at a time.
        if {p["master"] for p in self.state["ports"].values()} - {None, bridge}:
            raise Refused("RTNETLINK answers: No such device")
        port["master"] = bridge

    def _bridge(self, words):
        assert words[:3] == ["vlan", "add", "dev"], words
        port = self._port(words[3])
        if not port["master"]:
            raise Refused("RTNETLINK answers: Operation not supported")
        port["vlans"].append(int(words[5]))
        return ""

    # --- tc -----------------------------------------------------------------------------------

    def _listed(self, device):
        root = self._port(device)["root"]
        if root is None:
            return ["qdisc mq 0: root"]
        children = [f"qdisc {c['kind']} {c['handle']} parent {p}" for p, c in root["of"].items()]
        return [f"qdisc {root['kind']} {root['handle']} root", *children]

    def _rows(self, device):
        rows = []
        for line in self._listed(device):
            _, kind, handle, place, *parent = line.split()
            where = {"root": True} if place == "root" else {"parent": parent[0]}
            counters = dict.fromkeys(("bytes", "packets", "drops", "overlimits", "qlen"), 0)
            rows.append({"kind": kind, "handle": handle, **where, **counters})
        return rows

    def _tc(self, words):
        words = [word for word in words if word not in ("-s", "-j")]
        assert words[0:3:2] == ["qdisc", "dev"], words
        verb, device, rest = words[1], words[3], words[4:]
        port = self._port(device)
        if verb == "show":
            return json.dumps(self._rows(device))
        if verb == "del":
            if port["root"] is None:
                raise Refused("Error: Cannot delete qdisc with handle of zero.")
            port["root"] = None
            return ""
        if rest[0] == "root":
            if port["root"] is not None and verb == "add":
                raise Refused("Error: Exclusivity flag on, cannot modify.")
            made = {"taprio": self._taprio, "mqprio": self._mqprio}[rest[3]](rest[4:])
            port["root"] = {"kind": rest[3], "handle": rest[2], "of": {}, "told": made}
            return ""
        assert rest[0:5:4] == ["parent", "cbs"], rest
        return self._cbs(port, rest[1], rest[3], rest[5:])

    def _mqprio(self, words):
        if words and words[words.index("num_tc") + 1] != str(_QUEUES):
            raise Refused("RTNETLINK answers: Invalid argument")
        return {}

    def _taprio(self, words):
        entries, options, place = [], {}, 0
        while place < len(words):
            word = words[place]
            if word == "sched-entry":
                _, command, mask, interval = words[place : place + 4]
                entries.append((command, int(mask, 16), int(interval)))
                place += 4
            elif word in ("map", "queues"):
                end = place + 1
                while end < len(words) and re.fullmatch(r"[\d@]+", words[end]):
                    end += 1
                options[word] = words[place + 1 : end]
                place = end
            else:
                options[word] = words[place + 1]
                place += 2
        self._check_gates(entries, options)
        return {"entries": entries, "base": int(options["base-time"])}

    def _check_gates(self, entries, options):
        offload = int(options.get("flags", "0"), 0) == 0x2
        if offload == ("clockid" in options):
            raise Refused("Error: 'clockid' is for software, and offload is told none.")
        spans = [interval for _, _, interval in entries]
        cycle = int(options.get("cycle-time", sum(spans)))
        wrong = [
            not offload,
            options["num_tc"] != str(_QUEUES),
            options["queues"] != [f"1@{queue}" for queue in range(_QUEUES)],
            len(entries) > _MOST_ENTRIES,
            not all(_US <= span < _S for span in spans),
            not _US <= cycle < _S,
            sum(spans) >= _S,
            cycle < sum(spans),
            any(command != "S" for command, _, _ in entries),
        ]
        if any(wrong):
            raise Refused("RTNETLINK answers: Invalid argument")

    def _cbs(self, port, parent, handle, words):
        told = {name: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}
        root = port["root"]
        if root is None or root["kind"] != "mqprio":
            raise Refused("Error: Failed to find specified qdisc.")
        _, _, minor = parent.partition(":")
        if not parent.startswith(root["handle"]) or not 1 <= int(minor) <= _QUEUES:
            raise Refused("Error: Specified class not found.")
        idle, send = told["idleslope"], told["sendslope"]
        high, low = told["hicredit"], told["locredit"]
        if idle <= 0 or send >= 0 or low >= high or told["offload"] != 1:
            raise Refused("Error: Specified device failed to setup cbs hardware offload.")
        bursts = -(-((idle - send) * (high - low) // -send) // 4096)
        if -(-idle // 100) > _MOST_STEPS or bursts > _MOST_BURSTS:
            raise Refused("Error: Specified device failed to setup cbs hardware offload.")
        root["of"][parent] = {"kind": "cbs", "handle": handle, **told}
        return ""

    # --- dcb ----------------------------------------------------------------------------------

    def _dcb(self, words):
        of, verb, device, rest = words[0], words[1], words[3], words[4:]
        self._port(device)
        table = self.state["pcp"][device]
        if of == "apptrust":
            if verb == "show":
                return f"order: {' '.join(self.state['trust'][device])}\n"
            if rest[1:] not in ([], ["dscp"], ["pcp"], ["dscp", "pcp"]):
                raise Refused("RTNETLINK answers: Operation not supported", 1)
            self.state["trust"][device] = rest[1:]
            return ""
        assert [of, rest[0]] == ["app", "pcp-prio"], words
        if verb == "show":
            return f"pcp-prio {' '.join(table)}\n" if table else ""
        if verb == "flush":
            table.clear()
            return ""
        if not all(_PCP.fullmatch(word) for word in rest[1:]):
            raise Refused("Invalid mapping", 1)
        given = {word.partition(":")[0] for word in rest[1:]}
        kept = [word for word in table if word.partition(":")[0] not in given]
        self.state["pcp"][device] = sorted([*kept, *rest[1:]])
        return ""
