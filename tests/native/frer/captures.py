"""Captures in the hosts of a testbed, and what tshark finds in them.

dumpcap listens in the hosts, tshark dissects: its R-TAG dissector knows nothing of ours.
"""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

FIELDS = (
    *("frame.len", "eth.src", "eth.type", "vlan.id", "vlan.priority", "vlan.etype"),
    *("ieee8021cb.seq", "ieee8021cb.etype", "ip.proto", "icmpv6.type", "arp.opcode"),
    *("udp.srcport", "udp.dstport", "ip.frag_offset", "data.data"),
)
# What dumpcap holds back before it hands captured frames on.
CAPTURE_SECONDS = 0.5


@contextmanager
def captured(testbed, folder, places):
    """Capture at ``places`` during the block; give the files by place."""
    files = {place: folder / f"{'-'.join(place)}.pcapng" for place in places}

    def start(place):
        argv = ["sh", "-c", 'exec dumpcap -q -i "$1" -w "$2" 2>&1', "sh", place[1]]
        process = testbed.hosts[place[0]].start([*argv, str(files[place])], deadline_s=60)
        while not (line := process.read_line()).startswith("File:"):
            assert line, f"dumpcap ended at {place}"
        return process

    def end(process):
        process.stop()
        process.wait()

    with ThreadPoolExecutor(len(places)) as pool:
        running = list(pool.map(start, places))
        try:
            yield files
            time.sleep(CAPTURE_SECONDS)
        finally:
            list(pool.map(end, running))


def dissected(path, wanted=lambda frame: True) -> list[dict[str, str]]:
    """Return the fields that tshark finds in each frame; those it does not find are empty."""
    argv = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "separator=|"]
    argv += [word for field in FIELDS for word in ("-e", field)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    frames = [dict(zip(FIELDS, line.split("|"), strict=True)) for line in done.stdout.splitlines()]
    return [frame for frame in frames if wanted(frame)]
