"""Load trials in simulated time: networks whose capacity, buffer and generator are known."""

import math
import random

from tsnrepro.experiments.rfc2544.load_trial import LoadOutcome, Series, Subject


class KnownNetwork:
    """Serves ``capacity_pps`` and holds ``buffer`` datagrams; all in closed form.

    ``generator_pps`` is what the talker can send. With probability ``stalls_per_s`` x duration
    (Poisson) a trial also loses ``stall_loss`` datagrams, whatever the load.
    """

    def __init__(
        self,
        capacity_pps,
        *,
        buffer=0.0,
        generator_pps=math.inf,
        stalls_per_s=0.0,
        stall_loss=10,
        pause_s=0.0,
        seed=1,
    ):
        self.capacity_pps, self.buffer, self.generator_pps = capacity_pps, buffer, generator_pps
        self.stalls_per_s, self.stall_loss, self.pause_s = stalls_per_s, stall_loss, pause_s
        self.random = random.Random(seed)
        self.loads = []

    def __call__(self, load):
        self.loads.append(load)
        if load.then is not None:
            return self._two_rates(load)
        rate = min(load.rate_pps, self.generator_pps)
        offered = load.burst or max(1, round(rate * load.duration_s))
        seconds = offered / rate
        excess = max(0.0, rate - self.capacity_pps) * seconds - self.buffer
        lost = max(0, math.ceil(excess - 1e-9))
        if self.random.random() > math.exp(-self.stalls_per_s * seconds):
            lost += self.stall_loss
        return LoadOutcome(
            offered=offered,
            received=offered - min(lost, offered),
            duration_s=seconds,
            elapsed_s=seconds + self.pause_s,
        )

    def _two_rates(self, load):
        """Lose from when the buffer is full until it has drained by one."""
        rate = min(load.rate_pps, self.generator_pps)
        offered = round(rate * load.duration_s) + round(load.then.rate_pps * load.then.duration_s)
        excess = (rate - self.capacity_pps) * load.duration_s - self.buffer
        lost = max(0, math.ceil(excess))
        seconds = load.duration_s + load.then.duration_s
        return LoadOutcome(
            offered=offered,
            received=offered - lost,
            duration_s=seconds,
            stepped_s=load.duration_s,
            last_lost_s=load.duration_s - 1 / rate if lost else None,
        )


def series(network, *, payload=1472, link=1000.0, configuration="control", **options):
    return Series(network, Subject(configuration, payload, link), **options)
