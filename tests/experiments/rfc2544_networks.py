"""Load trials in simulated time: networks whose capacity, buffer and generator are known."""

import math
import random

import numpy as np

from tsnrepro.experiments.rfc2544.load_trial import Series, SystemUnderTest
from tsnrepro.native.streams.log import LISTENER_DTYPE
from tsnrepro.runner.load import LoadOutcome


class KnownNetwork:
    """Serves ``capacity_pps`` and holds ``buffer`` datagrams; all in closed form.

    ``generator_pps`` is what the talker can send; in the trials ``halved``, from 1, half of it.
    With probability ``stalls_per_s`` x duration (Poisson) a trial also loses ``stall_loss``
    datagrams, whatever the load.
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
        halved=(),
        seed=1,
    ):
        self.capacity_pps, self.buffer, self.generator_pps = capacity_pps, buffer, generator_pps
        self.stalls_per_s, self.stall_loss, self.pause_s = stalls_per_s, stall_loss, pause_s
        self.halved = halved
        self.random = random.Random(seed)
        self.loads = []

    def __call__(self, load):
        self.loads.append(load)
        if load.then is not None:
            return self._two_rates(load)
        rate = min(load.rate_pps, self.generator_pps)
        rate /= 2 if len(self.loads) in self.halved else 1
        offered = load.burst or max(1, round(rate * load.duration_s))
        seconds = offered / rate
        excess = max(0.0, rate - self.capacity_pps) * seconds - self.buffer
        lost = max(0, math.ceil(excess - 1e-9))
        if self.random.random() > math.exp(-self.stalls_per_s * seconds):
            lost += self.stall_loss
        return _outcome(offered, min(lost, offered), seconds, elapsed_s=seconds + self.pause_s)

    def _two_rates(self, load):
        """Lose the last of the overload: what is too much and finds no buffer."""
        rate = min(load.rate_pps, self.generator_pps)
        first, then = round(rate * load.duration_s), load.then.datagrams
        excess = (rate - self.capacity_pps) * load.duration_s - self.buffer
        lost = max(0, math.ceil(excess))
        sent_s = np.concatenate(
            [np.arange(first) / rate, load.duration_s + np.arange(then) / load.then.rate_pps]
        )
        arrived = np.delete(np.arange(first + then), np.arange(first - lost, first))
        arrivals = np.zeros(len(arrived), LISTENER_DTYPE)
        arrivals["sequence"], arrivals["sent_ns"] = arrived, np.round(sent_s[arrived] * 1e9)
        seconds = load.duration_s + load.then.duration_s
        return _outcome(first + then, lost, seconds, arrivals=arrivals)


def _outcome(sent, lost, seconds, **others):
    return LoadOutcome(sent, sent - lost, sent - lost, seconds, **others)


def series(network, *, payload=1472, link=1000.0, configuration="control", **options):
    return Series(network, SystemUnderTest(configuration, payload, link), **options)
