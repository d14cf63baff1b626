"""A software bridge in a namespace of its own, with hosts that send and receive raw frames."""

import json
import signal
import socket
import subprocess
import time

import pytest
from network_namespaces import in_network_of

from tsnrepro.native.bridge import counters, tsn_bridge
from tsnrepro.native.bridge.settings_file import BridgeSettings, command, query
from tsnrepro.testbeds.emulated.namespace import NamespaceHost

ETH_P_ALL = 0x0003
PACKET_OUTGOING = 4
SOL_PACKET, PACKET_AUXDATA = 263, 8
TP_STATUS_VLAN_VALID = 1 << 4
SO_RCVBUFFORCE = 33


def socket_in(host, device):
    """Return a raw socket on a device of another host; it receives tags beside the frames."""

    def make():
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8_000_000)
        raw.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        raw.bind((device, ETH_P_ALL))
        return raw

    return in_network_of(host.pid, make)


class Station:
    """A host at a port of the bridge."""

    def __init__(self, number):
        self.number = number
        self.host = NamespaceHost(f"station{number}")
        self.mac = bytes([2, 0, 0, 0, 0, number + 1])

    def plug(self):
        self.raw = socket_in(self.host, "eth0")

    def send(self, frame):
        self.raw.send(frame)

    def heard(self, seconds=0.3):
        """Return the frames that came in, tags in place, until none comes for a while."""
        frames = []
        self.raw.settimeout(seconds)
        try:
            while True:
                data, extra, _, address = self.raw.recvmsg(4096, 256)
                if address[2] != PACKET_OUTGOING:
                    frames.append(with_tag(data, extra))
        except TimeoutError:
            return frames

    def heard_now(self):
        """Return the frames that wait to be read."""
        frames = []
        self.raw.setblocking(False)
        try:
            while True:
                data, extra, _, _ = self.raw.recvmsg(4096, 256)
                frames.append(with_tag(data, extra))
        except BlockingIOError:
            return frames

    def close(self):
        if hasattr(self, "raw"):
            self.raw.close()
        self.host.close()


def with_tag(data, extra):
    """Put a tag back that the kernel keeps beside the frame."""
    for level, kind, content in extra:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, tci = int.from_bytes(content[:4], "little"), content[16:18]
            if status & TP_STATUS_VLAN_VALID:
                return data[:12] + b"\x81\x00" + tci[::-1] + data[12:]
    return data


class RunningBridge:
    """tsn-bridge over three ports, each with a station."""

    PORTS = ("p0", "p1", "p2")

    def __init__(self, folder):
        self.folder = folder
        self.host = NamespaceHost("bridge")
        self.stations = [Station(number) for number in range(len(self.PORTS))]
        self.process = None
        self.ports = self.PORTS
        for station, port in zip(self.stations, self.PORTS, strict=True):
            mac = ":".join(f"{byte:02x}" for byte in station.mac)
            near = ["name", port, "netns", str(self.host.pid), "mtu", "1600"]
            far = ["name", "eth0", "netns", str(station.host.pid), "mtu", "1600", "address", mac]
            ip("link", "add", *near, "type", "veth", "peer", *far)
            for host, device in ((self.host, port), (station.host, "eth0")):
                quiet = f"net.ipv6.conf.{device}.disable_ipv6=1"
                inside(host, "sysctl", "-qw", quiet)
                inside(host, "ip", "link", "set", device, "up")
            station.plug()

    def start(self, settings=BridgeSettings(), *options):  # noqa: B008 - it is frozen
        (self.folder / "settings").write_text(settings.text())
        run = command(str(tsn_bridge()), str(self.folder / "settings"), self.ports)
        run += options
        # In the network alone, so that what is signalled is the bridge; it ends with this process.
        enter = ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net=/proc/{self.host.pid}/ns/net"]
        self.process = subprocess.Popen(
            [*enter, *run], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        output = self.process.stdout.readline()
        assert output == "ready\n", self.process.stderr.read()
        return self

    def loop(self, one, other):
        """Plug a cable into two more ports of the bridge."""
        space = ["netns", str(self.host.pid)]
        ip("link", "add", one, *space, "type", "veth", "peer", "name", other, *space)
        for port in (one, other):
            inside(self.host, "sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1")
            inside(self.host, "ip", "link", "set", port, "up")
        self.ports = (*self.PORTS, one, other)

    def query(self, *request):
        return inside(self.host, *query(str(tsn_bridge()), *request))

    def counters(self):
        return counters.parse(self.query("counters"))

    def set_link(self, port, state):
        inside(self.host, "ip", "link", "set", port, state)

    def devices(self):
        """Return the kernel's state of each port of the bridge, attached programs included."""
        links = json.loads(inside(self.host, "ip", "-json", "-details", "link", "show"))
        kept = ("ifname", "flags", "promiscuity", "allmulti", "mtu", "qdisc", "xdp")
        return {device["ifname"]: {key: device.get(key) for key in kept} for device in links}

    def wait_until(self, condition, seconds=3):
        end = time.monotonic() + seconds
        while not (met := condition(self.counters())) and time.monotonic() < end:
            time.sleep(0.05)
        assert met

    def end(self, number=signal.SIGTERM):
        """End the bridge; return what it counted, None if it was killed."""
        self.process.send_signal(number)
        output, error = self.process.communicate(timeout=10)
        status, self.process = self.process.returncode, None
        if number != signal.SIGTERM:
            return None
        assert (status, error) == (0, "")
        return counters.parse(output)

    def close(self):
        if self.process:
            self.process.kill()
            self.process.communicate()
        for station in self.stations:
            station.close()
        self.host.close()


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def inside(host, *argv):
    done = subprocess.run(host.enter(list(argv)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def bridge(tmp_path):
    made = RunningBridge(tmp_path)
    yield made
    made.close()
