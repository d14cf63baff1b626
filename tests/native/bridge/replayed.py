"""Runs of bridge-replay for tests: arrivals in, departures out."""

import csv
import io
import subprocess
from dataclasses import dataclass

from tsnrepro.native.bridge import bridge_replay
from tsnrepro.native.bridge.settings_file import BridgeSettings, PortSettings


@dataclass(frozen=True)
class Replayed:
    frame: int
    queue: int
    bytes: int
    arrived_ps: int
    start_ps: int | None
    done_ps: int | None
    outcome: str


def run(folder, settings, *options):
    """Run bridge-replay; return what it printed, finished."""
    (folder / "settings").write_text(settings)
    command = [str(bridge_replay()), "--settings", str(folder / "settings"), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rows_of(done):
    """Return the lines that bridge-replay printed."""
    assert done.returncode == 0, done.stderr
    return [
        Replayed(
            *(int(row[name]) for name in ("frame", "queue", "bytes", "arrived_ps")),
            *(int(row[name]) if row[name] else None for name in ("start_ps", "done_ps")),
            row["outcome"],
        )
        for row in csv.DictReader(io.StringIO(done.stdout))
    ]


def replay(folder, port: PortSettings, arrivals, *options):
    """Replay arrivals (time in ps, queue, bytes) at one port."""
    lines = [f"{time},{queue},{size}\n" for time, queue, size in arrivals]
    (folder / "arrivals.csv").write_text("time_ps,queue,bytes\n" + "".join(lines))
    text = BridgeSettings(port).text()
    return rows_of(run(folder, text, "--csv", folder / "arrivals.csv", *options))


def sent(rows):
    """Return the frames that were sent, in order of their start."""
    return sorted((row for row in rows if row.outcome == "sent"), key=lambda row: row.start_ps)
