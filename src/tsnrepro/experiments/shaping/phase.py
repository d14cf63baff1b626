"""Does the gate hold? When frames began at the shaped port, in the cycle, and which were outside.

The phase is taken from the egress time: on the model from the frame's arrival at the other end of
the shaped port's link, on hosts from the kernel's receive stamp there. The application's clock, at
either end, shows nothing of a gate.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tsnrepro.common.errors import RecordError
from tsnrepro.config.gates import GateControlList
from tsnrepro.experiments.shaping.log import Records, stamped

Phases = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Gate:
    """What one trial's frames are checked against: a class's windows, and how its egress is known.

    ``frame_ns`` is how long a frame occupies the port (0 where the medium takes no time), and has
    to fit into the window too where the list has a guard band. A frame within ``uncertainty_ns`` of
    a window counts as inside: its egress time is not known better.
    """

    gates: GateControlList
    traffic_class: int
    before_stamp_ns: float
    frame_ns: float
    uncertainty_ns: float
    source: str

    @classmethod
    def of(cls, document: dict[str, Any], gates: GateControlList, traffic_class: int) -> "Gate":
        """Return the gate of a trial's record; RecordError if the record has no egress times."""
        egress = document["values"].get("egress")
        if egress is None:
            raise RecordError("the trial has no egress times", document["trial"])
        return cls(gates, traffic_class, **egress)

    def phases_ns(self, log: Records) -> Phases:
        """Return when each stamped frame began, modulo the cycle, 0 ... cycle."""
        since_base = stamped(log)["stamped_ns"].astype(np.int64) - self.gates.base_time_ns
        # The whole cycles first: a time of day in ns has no room for fractions in a float.
        return np.mod(since_base % self.gates.cycle - self.before_stamp_ns, self.gates.cycle)

    def miss_ns(self, phases: Phases) -> Phases:
        """Return how far each frame is outside its nearest window, 0 inside; negative is early."""
        cycle = self.gates.cycle
        occupied = self.frame_ns if self.gates.guard_band else 0.0
        nearest = np.full(phases.shape, np.inf)
        for begin, until in self.gates.windows_ns(self.traffic_class):
            after = np.mod(phases - begin, cycle)
            late = after + occupied - (until - begin)
            early = cycle - after
            miss = np.where(late <= 0, 0.0, np.where(late <= early, late, -early))
            nearest = np.where(np.abs(miss) < np.abs(nearest), miss, nearest)
        return nearest


@dataclass(frozen=True)
class Adherence:
    """How a gate held in one run: frames with an egress time, and those outside every window.

    ``worst_early_ns`` and ``worst_late_ns`` are the largest distances from the nearest window, also
    of frames that the uncertainty lets count as inside.
    """

    frames: int
    without_stamp: int
    outside: int
    early: int
    late: int
    worst_early_ns: float
    worst_late_ns: float


def adherence(gate: Gate, log: Records) -> Adherence:
    """Count the frames of one trial inside and outside their windows."""
    phases = gate.phases_ns(log)
    miss = gate.miss_ns(phases)
    early = int(np.count_nonzero(miss < -gate.uncertainty_ns))
    late = int(np.count_nonzero(miss > gate.uncertainty_ns))
    return Adherence(
        frames=len(phases),
        without_stamp=len(log) - len(phases),
        outside=early + late,
        early=early,
        late=late,
        worst_early_ns=float(max(0.0, -miss.min(initial=0.0))),
        worst_late_ns=float(max(0.0, miss.max(initial=0.0))),
    )
