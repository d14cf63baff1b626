"""The model's rules once more, slow and plain, as simpy processes: what the engine must equal.

Nothing of the engine is used here but the network's description, the frame sizes, the plain
recovery functions and the keys of the random streams (the numbers come from numpy's Philox and the
logarithm from the C library). A frame is an object that moves from queue to queue; time is in whole
picoseconds. What happens at one instant is ordered by priority: latent errors are looked for,
faults come and go, processes finish, stacks finish, lines become free, answers enter, answers are
taken in, frames arrive (by input), senders act (by stream), ports choose.
"""

import math
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace

import numpy as np
import simpy
from numpy.random import SeedSequence
from plain_recovery import LatentErrorDetection, MatchRecovery, VectorRecovery

from tsnrepro.common.ethernet import ip_packets, skb_truesize, udp_frames
from tsnrepro.model.network import picoseconds
from tsnrepro.model.variates import stream_state

TESTS, RESETS, FAULTS = 0, 1, 2
PROCESS_ENDS, STACK_ENDS, LINE_ENDS, ARRIVES, SENDS, CHOOSES = 5, 10, 15, 20, 10_000, 20_000
ANSWERS, ANSWERED = 16, 18  # and a part of 1 for the stream
NEVER = None
DRAIN_PS = 20 * 10**9


@dataclass
class Frame:
    stream: object
    number: int
    sent: int
    fragment: int
    last: bool
    size: int
    charge: int
    part: str
    way: list
    member: int | None = None
    seq: int | None = None
    arrived: int = 0
    back: bool = False

    @property
    def route(self):
        return self.stream.send.answer_route if self.back else self.stream.route

    @property
    def name(self):
        return f"{self.stream.name}.answer" if self.back else self.stream.name

    @property
    def label(self):
        """The member path and the number of the R-TAG, -1 where there is none."""
        return (self.member, self.seq) if self.part == "member" else (-1, -1)

    @property
    def ends_at(self):
        return self.stream.talker if self.back else self.stream.listener


@dataclass
class Counts:
    drops: dict = field(default_factory=lambda: defaultdict(int))
    lost: dict = field(default_factory=lambda: defaultdict(int))
    down: dict = field(default_factory=lambda: defaultdict(int))
    waits: dict = field(default_factory=lambda: defaultdict(int))
    sent: dict = field(default_factory=lambda: defaultdict(int))
    eliminated: dict = field(default_factory=lambda: defaultdict(int))
    nic: dict = field(default_factory=lambda: defaultdict(int))
    socket: dict = field(default_factory=lambda: defaultdict(int))
    refused: dict = field(default_factory=lambda: defaultdict(int))
    written: dict = field(default_factory=lambda: defaultdict(int))
    repeats: dict = field(default_factory=lambda: defaultdict(int))
    twice: dict = field(default_factory=lambda: defaultdict(int))
    deliveries: list = field(default_factory=list)
    departures: list = field(default_factory=list)
    answers: list = field(default_factory=list)
    timeouts: dict = field(default_factory=lambda: defaultdict(int))
    disregarded: dict = field(default_factory=lambda: defaultdict(int))
    alarms: dict = field(default_factory=dict)


class Chance:
    """The random numbers of one named stream."""

    def __init__(self, seed, name):
        key = stream_state(seed, name)[:2].view(np.uint64).copy()
        self.words = np.random.Philox(key=key)

    def bits(self):
        return int(self.words.random_raw()) >> 11

    def below(self, probability):
        return self.bits() < int(probability * 2**53)

    def duration(self, duration):
        mean = picoseconds(duration.mean_ns)
        if duration.distribution == "constant":
            return mean
        total = sum(-math.log((self.bits() + 0.5) / 2**53) for _ in range(duration.shape))
        return int(total * (mean / duration.shape) + 0.5)


class Simulation:
    def __init__(self, network, duration_ps, seed):
        self.network, self.stop, self.seed = network, duration_ps, seed
        self.env = simpy.Environment()
        self.links = {link.name: link for link in network.links}
        self.order = {link.name: place for place, link in enumerate(network.links)}
        self.counts = Counts()
        self.ports, self.receivers, self.recoveries = {}, {}, {}
        self.generators = {}
        self.senders = [
            (Client if s.send.kind == "ping_pong" else Sender)(self, i, s)
            for i, s in enumerate(network.streams)
        ]
        self.clients = {sender.stream.name: sender for sender in self.senders}
        for stream in network.streams:
            self.set_up(stream.name, stream.route)
            if stream.send.kind == "ping_pong":
                self.set_up(f"{stream.name}.answer", stream.send.answer_route)

    def set_up(self, name, route):
        """Make the sequence functions of a route, and plan their faults and tests."""
        if route.kind != "frer":
            return
        generator = self.generators[name] = Generator()
        faults = route.faults
        for span in faults.stuck:
            self.call(span.from_ns * 1000, FAULTS + 0.5, generator.stick, True)
            if span.until_ns is not None:
                self.call(span.until_ns * 1000, FAULTS, generator.stick, False)
        for time in faults.generator_restarts_ns:
            self.call(time * 1000, FAULTS, generator.restart)
        functions = [self.recovery(name, None, route.recovery)]
        if route.individual is not None:
            for number in range(len(route.members)):
                functions.append(self.recovery(name, number, route.individual))
        for time in faults.recovery_restarts_ns:
            for function in functions:
                self.call(time * 1000, FAULTS, self.restart, function)
        if route.latent_errors is not None:
            self.detect(name, route, functions[0])

    def restart(self, function):
        function.expire(self.env.now)
        function.reset()

    def detect(self, name, route, function):
        errors = route.latent_errors
        detection = LatentErrorDetection(len(route.members), errors.difference)
        self.counts.alarms[name] = detection.alarms
        counters = function.counters
        test, reset = picoseconds(errors.period_ms * 1e6), picoseconds(errors.reset_ms * 1e6)
        for time in range(test, self.stop + 1, test):
            self.call(time, TESTS, lambda t: detection.test(counters, t), time)
        for time in range(reset, self.stop + 1, reset):
            self.call(time, RESETS, detection.reset, counters)

    def moment(self, time, priority):
        """An event at a time, ordered by priority among those of the same time."""
        event = simpy.Event(self.env)
        event._ok, event._value = True, None
        self.env.schedule(event, priority, time - self.env.now)
        return event

    def call(self, time, priority, function, *arguments):
        self.moment(time, priority).callbacks.append(lambda _: function(*arguments))

    def chance(self, name):
        return Chance(self.seed, name)

    def port(self, node, link):
        if (node, link) not in self.ports:
            self.ports[node, link] = EgressPort(self, node, self.links[link])
        return self.ports[node, link]

    def receiver(self, host):
        if host not in self.receivers:
            self.receivers[host] = Receiver(self, host)
        return self.receivers[host]

    def arrive(self, node, frame):
        """A frame is at a node, past its processing: on to the next queue, or up the stack."""
        route = frame.route
        if not frame.way and frame.part == "before":
            seq = self.generators[frame.name].number()
            for number, member in enumerate(route.members):
                copy = replace(
                    frame,
                    part="member",
                    way=list(member),
                    member=number,
                    seq=seq,
                    size=frame.size + 6,
                )
                self.arrive(node, copy)
            return
        ends_here = frame.part == "member" and not frame.way
        if node in self.network.hosts:
            self.receiver(node).arrive(frame)
            return
        if ends_here and not self.pass_recovery(f"{node}:{route.after[0]}", frame):
            return
        self.port(node, frame.way[0]).arrive(frame)

    def pass_recovery(self, place, frame):
        route = frame.route
        passed = True
        if route.individual is not None:
            passed = self.recovery(frame.name, frame.member, route.individual).accept(
                frame.seq, self.env.now
            )
        if passed:
            compound = self.recovery(frame.name, None, route.recovery)
            passed = compound.accept(frame.seq, self.env.now)
        if not passed:
            self.counts.eliminated[frame.name] += 1
            return False
        frame.part, frame.way, frame.size = "after", list(route.after), frame.size - 6
        return True

    def recovery(self, name, member, function):
        key = (name, member)
        if key not in self.recoveries:
            timeout = function.reset_ms
            options = {
                "reset_timeout_ns": None if timeout is None else picoseconds(timeout * 1e6),
                "take_no_sequence": function.take_no_sequence,
                "individual": member is not None,
            }
            if function.algorithm == "vector":
                options["history_length"] = function.history_length
                self.recoveries[key] = VectorRecovery(**options)
            else:
                self.recoveries[key] = MatchRecovery(**options)
        return self.recoveries[key]

    def run(self):
        for sender in self.senders:
            self.env.process(sender.run())
        self.env.run()
        for function in self.recoveries.values():
            function.expire(self.stop)
        return self.counts


class Generator:
    """The sequence generation function of a stream."""

    def __init__(self):
        self.next, self.stuck = 0, False

    def stick(self, stuck):
        self.stuck = stuck

    def restart(self):
        self.next = 0

    def number(self):
        number = self.next
        if not self.stuck:
            self.next = (number + 1) % 65536
        return number


class Process:
    """A process that the scheduler interrupts: work takes longer by the stalls within it."""

    def __init__(self, simulation, host, name):
        self.stalls = simulation.network.hosts[host].stalls
        self.until = 0
        self.next = None
        if self.stalls is not None:
            self.chance = simulation.chance(f"stalls/{host}/{name}")
            self._draw()

    def _draw(self):
        start = self.until + self.chance.duration(self.stalls.interval)
        self.until = start + self.chance.duration(self.stalls.length)
        self.next = (start, self.until)

    def done(self, start, work):
        if self.stalls is None:
            return start + work
        now = start
        while True:
            stall_start, stall_end = self.next
            if now >= stall_end:
                self._draw()
            elif now >= stall_start:
                now = stall_end
            elif now + work > stall_start:
                work -= stall_start - now
                now = stall_end
            else:
                return now + work


class Sender:
    def __init__(self, simulation, index, stream):
        self.simulation, self.index, self.stream = simulation, index, stream
        self.host = simulation.network.hosts[stream.talker]
        self.charged, self.room = 0, None
        self.cost = simulation.chance(f"write/{stream.name}")
        self.process = Process(simulation, stream.talker, f"send/{stream.name}")
        self.gaps = simulation.chance(f"gaps/{stream.name}")
        self.due_before = stream.start_ns * 1000

    def due(self, number):
        """When write ``number`` is due."""
        send, start = self.stream.send, self.stream.start_ns * 1000
        if send.kind == "saturating":
            return start
        if send.kind == "listed":
            return start + send.times_ns[number] * 1000
        bits = self.stream.payload_bytes * 8
        if send.kind == "poisson":
            mean = picoseconds(bits * 1000 / send.rate_mbps)
            gap = -math.log((self.gaps.bits() + 0.5) / 2**53)
            self.due_before += int(gap * mean + 0.5)
            return self.due_before
        return start + number * bits * 10**12 // round(send.rate_mbps * 1e6)

    def begin(self, number, free):
        """When the call of write ``number`` begins, if the one before has returned by ``free``."""
        stream, send = self.stream, self.stream.send
        if stream.datagrams is not None and number >= stream.datagrams:
            return NEVER
        if send.kind == "listed" and number >= len(send.times_ns):
            return NEVER
        due = self.due(number)
        begin = max(due, free)
        if send.kind == "bursts" and number > 0 and free <= due:
            tick, start = picoseconds(send.timer_us * 1000), stream.start_ns * 1000
            begin = start
            while begin <= due:
                begin += tick
        return begin if begin < self.simulation.stop else NEVER

    def run(self):
        simulation, counts, name = self.simulation, self.simulation.counts, self.stream.name
        priority = SENDS + self.index
        number, free = 0, self.stream.start_ns * 1000
        while (begin := self.begin(number, free)) is not NEVER:
            yield simulation.moment(begin, priority)
            counts.written[name] += 1
            if self.charged >= self.host.send_buffer_bytes:
                if self.host.when_full == "drop":
                    counts.refused[name] += 1
                    cost = self.cost.duration(self.host.send_cost)
                    free = self.process.done(begin, cost)
                    number += 1
                    continue
                self.room = simpy.Event(simulation.env)
                yield self.room
            cost = self.cost.duration(self.host.send_cost)
            free = self.process.done(simulation.env.now, cost)
            yield simulation.moment(free, priority)
            self.enter(number, begin)
            number += 1

    def enter(self, number, begin):
        for frame in frames_of(self.stream, self.stream.route, number, begin):
            if self.simulation.port(self.stream.talker, frame.way[0]).arrive(frame, self):
                self.charged += frame.charge

    def release(self, charge):
        self.charged -= charge
        if self.room is not None and self.charged < self.host.send_buffer_bytes:
            room, self.room = self.room, None
            room.succeed()


class Client(Sender):
    """The talker of a ping-pong."""

    def __init__(self, simulation, index, stream):
        super().__init__(simulation, index, stream)
        self.part = index / (len(simulation.network.streams) + 1)
        self.waiting, self.answer = None, None

    def run(self):
        simulation, counts, stream = self.simulation, self.simulation.counts, self.stream
        priority, send = SENDS + self.index, stream.send
        number, due = 0, stream.start_ns * 1000
        while due < simulation.stop and stream.datagrams != number:
            begin = due
            yield simulation.moment(begin, priority)
            counts.written[stream.name] += 1
            if self.charged >= self.host.send_buffer_bytes:
                self.room = simpy.Event(simulation.env)
                yield self.room
            cost = self.cost.duration(self.host.send_cost)
            entry = self.process.done(simulation.env.now, cost)
            yield simulation.moment(entry, priority)
            self.enter(number, begin)
            self.waiting, self.answer = number, simpy.Event(simulation.env)
            timeout = simulation.moment(entry + picoseconds(send.timeout_ms * 1e6), priority)
            yield self.answer | timeout
            now = simulation.env.now
            if self.waiting is None:
                counts.answers.append((stream.name, number, begin, now))
            else:
                counts.timeouts[stream.name] += 1
            self.waiting = None
            due = max(now, begin + picoseconds(send.interval_us * 1000))
            number += 1

    def on_answer(self, number):
        if self.waiting != number:
            self.simulation.counts.disregarded[self.stream.name] += 1
            return
        self.waiting = None
        self.answer.succeed()


def frames_of(stream, route, number, sent, *, back=False):
    """The frames of a datagram, on the way of its route."""
    sizes = udp_frames(stream.payload_bytes, vlan=stream.vlan)
    charges = [skb_truesize(size) for size in ip_packets(stream.payload_bytes)]
    single = route.kind == "single"
    return [
        Frame(
            stream=stream,
            number=number,
            sent=sent,
            fragment=fragment,
            last=fragment == len(sizes) - 1,
            size=size,
            charge=charge,
            part="path" if single else "before",
            way=list(route.links if single else route.before),
            back=back,
        )
        for fragment, (size, charge) in enumerate(zip(sizes, charges, strict=True))
    ]


class EgressPort:
    def __init__(self, simulation, node, link):
        self.simulation, self.node, self.link = simulation, node, link
        self.name = f"{node}:{link.name}"
        self.settings = simulation.network.port(node, link.name)
        self.waiting = [deque() for _ in range(8)]
        self.bytes = [0] * 8
        self.free_at = 0
        self.credit = [0] * 8
        self.credit_at = [0] * 8
        forward = node == link.a
        reverse = link.delay_ns if link.reverse_delay_ns is None else link.reverse_delay_ns
        self.delay = picoseconds(link.delay_ns if forward else reverse)
        self.far = link.b if forward else link.a
        switch = simulation.network.switches.get(self.far)
        self.processing = picoseconds(switch.processing_ns) if switch else 0
        self.input = ARRIVES + 2 * simulation.order[link.name] + (0 if forward else 1)
        self.chance = simulation.chance(f"loss/{link.name}/{node}")
        self.repeats = simulation.chance(f"duplication/{link.name}/{node}")
        self.longer = simulation.chance(f"jitter/{link.name}/{node}")
        self.latest = 0
        self.bad = False

    def line_time(self, size):
        return -(-size * 8_000_000 // int(self.link.rate_mbps))

    def done_time(self, frame):
        return self.line_time(frame.size + 8)

    def class_of(self, frame):
        return 0 if self.settings.scheduler == "fifo" else frame.stream.priority

    def arrive(self, frame, sender=None):
        now, number = self.simulation.env.now, self.class_of(frame)
        if self.bytes[number] + frame.size > self.settings.queue_bytes:
            self.simulation.counts.drops[frame.name, self.name] += 1
            return False
        if not self.waiting[number]:
            self.settle(number, now, waited=False)
        self.bytes[number] += frame.size
        self.waiting[number].append((now, frame, sender))
        if self.free_at <= now:
            self.simulation.call(now, CHOOSES, self.choose)
        return True

    def choose(self):
        now = self.simulation.env.now
        if self.free_at > now:
            return
        looks = []
        for number in range(7, -1, -1):
            if not self.waiting[number]:
                continue
            self.settle(number, now, waited=True)
            if self.may_send(number, now):
                self.transmit(number, now)
                return
            looks += self.next_looks(number, now)
        if looks:
            self.simulation.call(min(looks), CHOOSES, self.choose)

    def may_send(self, number, now):
        if number in self.settings.idle_slopes_mbps and self.credit[number] < 0:
            return False
        gates = self.settings.gates
        if gates is None or not self.toggled(now)[0]:
            return True
        need = self.done_time(self.waiting[number][0][1]) if gates.guard_band else 0
        time = now
        while self.is_open(number, time):
            time = self.next_change(time)
            if time >= now + need:
                return True
            if time - now > 2 * gates.cycle * 1000:
                return True
        return False

    def next_looks(self, number, now):
        """Times at which the answer for a class may change: gate events, credit back at zero."""
        looks = []
        if self.settings.gates is not None and any(
            number in entry.open_classes for entry in self.settings.gates.entries
        ):
            change = self.next_change(now)
            # A frame that fits no window waits for ever: stop looking well after the run.
            if change < self.simulation.stop + DRAIN_PS:
                looks.append(change)
        if self.settings.gate_toggle_ns:
            looks.append(self.toggled(now)[1])
        slope = self.slope(number)
        if slope and self.credit[number] < 0 and self.is_open(number, now):
            back = now + -(self.credit[number] // slope)
            looks.append(back)
        return looks

    def slope(self, number):
        return round(self.settings.idle_slopes_mbps.get(number, 0) * 1000)

    def transmit(self, number, now):
        simulation = self.simulation
        arrived, frame, sender = self.waiting[number].popleft()
        done = now + self.done_time(frame)
        free = done + self.line_time(12)
        if self.slope(number):
            rate = round(self.link.rate_mbps * 1000)
            self.credit[number] += (self.slope(number) - rate) * (free - now)
            self.credit_at[number] = free
        self.free_at = free
        counts = simulation.counts
        counts.waits[frame.name, self.name] += now - arrived
        counts.sent[frame.name, self.name] += 1
        what = (*frame.label, frame.fragment, frame.size, frame.number, frame.sent)
        counts.departures.append((self.name, frame.name, *what, arrived, now, done))
        size, charge = frame.size, frame.charge
        simulation.call(done, LINE_ENDS, self.end_of_frame, number, size, sender, charge)
        simulation.call(free, CHOOSES, self.choose)
        arrival = self.after_jitter(done) + self.delay
        by_chance = self.is_lost() and within(self.link.loss, now)
        twice = self.is_duplicated(now)
        if any(
            failure.from_ns * 1000 < arrival
            and (failure.until_ns is None or failure.until_ns * 1000 > now)
            for failure in self.link.failures
        ):
            counts.down[frame.name, self.name] += 1
        elif by_chance:
            counts.lost[frame.name, self.name] += 1
        else:
            frame.way = frame.way[1:]
            at = arrival + self.processing
            simulation.call(at, self.input, simulation.arrive, self.far, frame)
            if twice:
                counts.twice[frame.name, self.name] += 1
                again = replace(frame, way=list(frame.way))
                at = self.after_jitter(done) + self.delay + self.processing
                simulation.call(at, self.input, simulation.arrive, self.far, again)

    def end_of_frame(self, number, size, sender, charge):
        self.bytes[number] -= size
        if sender is not None:
            sender.release(charge)

    def after_jitter(self, done):
        if self.link.jitter_ns:
            longer = self.longer.bits() / 2**53 * picoseconds(self.link.jitter_ns)
            self.latest = max(self.latest, done + int(longer))
        return max(self.latest, done)

    def is_duplicated(self, now):
        duplication = self.link.duplication
        if duplication is None:
            return False
        return self.repeats.below(duplication.probability) and within(duplication, now)

    def is_lost(self):
        loss = self.link.loss
        if loss is None:
            return False
        if loss.kind == "random":
            return self.chance.below(loss.probability)
        if self.bad:
            self.bad = not self.chance.below(loss.bad_to_good)
        else:
            self.bad = self.chance.below(loss.good_to_bad)
        return self.chance.below(loss.loss_in_bad if self.bad else loss.loss_in_good)

    # GateControlList: looked up in the list as it is written.

    def phase(self, time):
        gates = self.settings.gates
        shift = picoseconds(self.settings.clock_offset_ns) - gates.base_time_ns * 1000
        return (time + shift) % (gates.cycle * 1000)

    def entry_at(self, time):
        """The entry in force, and how long it still is."""
        gates = self.settings.gates
        phase, begins = self.phase(time), 0
        cycle = gates.cycle * 1000
        for place, entry in enumerate(gates.entries):
            ends = min(cycle, begins + entry.interval_ns * 1000)
            if place == len(gates.entries) - 1:
                ends = cycle
            if begins <= phase < ends:
                return entry, ends - phase
            begins = ends
        raise AssertionError("no entry in force")

    def toggled(self, time):
        """Whether the gates are enabled, and when they are toggled next."""
        if not self.settings.gate_toggle_ns:
            return True, None
        length = self.settings.gate_toggle_ns * 1000
        begin = self.settings.gate_toggle_from_ns * 1000
        place = max(0, (time - begin) // length)
        return place % 2 == 0, begin + (place + 1) * length

    def is_open(self, number, time):
        if self.settings.gates is None:
            return True
        return number in self.entry_at(time)[0].open_classes

    def next_change(self, time):
        return time + self.entry_at(time)[1]

    # Credit: integrated from one gate event to the next.

    def settle(self, number, now, *, waited):
        slope = self.slope(number)
        if not slope or now < self.credit_at[number]:
            return
        if not waited:
            self.credit[number] = min(0, self.credit[number])
        time = self.credit_at[number]
        while time < now and (waited or self.credit[number] < 0):
            until = now
            if self.settings.gates is not None:
                until = min(now, self.next_change(time))
            if self.is_open(number, time):
                self.credit[number] += slope * (until - time)
            if not waited:
                self.credit[number] = min(0, self.credit[number])
            time = until
        self.credit_at[number] = now


class Receiver:
    def __init__(self, simulation, name):
        self.simulation, self.name = simulation, name
        self.host = simulation.network.hosts[name]
        self.card, self.in_stack = deque(), False
        self.stack = simulation.chance(f"stack/{name}")
        self.sockets = {}

    def arrive(self, frame):
        now = self.simulation.env.now
        frame.arrived = now
        if picoseconds(self.host.stack_time.mean_ns) == 0:
            self.hand_up(frame)
            return
        if len(self.card) >= self.host.nic_ring_frames:
            self.simulation.counts.nic[frame.name] += 1
            return
        self.card.append(frame)
        if not self.in_stack:
            self.simulation.env.process(self.run_stack())
            self.in_stack = True

    def run_stack(self):
        while self.card:
            work = self.stack.duration(self.host.stack_time)
            yield self.simulation.moment(self.simulation.env.now + work, STACK_ENDS)
            self.hand_up(self.card.popleft())
        self.in_stack = False

    def hand_up(self, frame):
        if frame.part == "member" and not self.simulation.pass_recovery(self.name, frame):
            return
        name = frame.name
        if name not in self.sockets:
            self.sockets[name] = Socket(self.simulation, self.host, frame)
        self.sockets[name].arrive(frame)


class Socket:
    def __init__(self, simulation, host, frame):
        self.simulation, self.host, self.name = simulation, host, frame.name
        self.stream = stream = frame.stream
        self.charge = host.truesize_bytes or sum(
            skb_truesize(size) for size in ip_packets(stream.payload_bytes)
        )
        self.fragments = len(ip_packets(stream.payload_bytes))
        self.partial = defaultdict(set)
        self.complete = set()
        self.seen = set()
        self.held, self.reading, self.queue = 0, False, deque()
        self.work = simulation.chance(f"read/{self.name}")
        self.process = Process(simulation, frame.ends_at, f"receive/{self.name}")
        self.serves = stream.send.kind == "ping_pong" and not frame.back
        if self.serves:
            answer = f"{self.name}.answer"
            self.cost = simulation.chance(f"write/{answer}")
            self.writing = Process(simulation, stream.listener, f"send/{answer}")

    def arrive(self, frame):
        number = frame.number
        if self.fragments > 1:
            if number in self.complete:
                return
            self.partial[number].add(frame.fragment)
            if len(self.partial[number]) < self.fragments:
                return
            self.complete.add(number)
        if self.held > self.host.receive_buffer_bytes:
            self.simulation.counts.socket[self.name] += 1
            return
        self.held += self.charge
        self.queue.append(frame)
        if not self.reading:
            self.reading = True
            self.simulation.env.process(self.read())

    def read(self):
        while self.queue:
            frame = self.queue.popleft()
            work = self.work.duration(self.host.receive_time)
            done = self.process.done(self.simulation.env.now, work)
            yield self.simulation.moment(done, PROCESS_ENDS)
            self.held -= self.charge
            if frame.back:
                client = self.simulation.clients[self.stream.name]
                self.simulation.call(done, ANSWERED + client.part, client.on_answer, frame.number)
                continue
            self.count(frame, done)
            if self.serves:
                client = self.simulation.clients[self.stream.name]
                written = self.writing.done(done, self.cost.duration(self.host.send_cost))
                yield self.simulation.moment(written, ANSWERS + client.part)
                self.answer(frame)
        self.reading = False

    def count(self, frame, done):
        counts = self.simulation.counts
        if frame.number in self.seen:
            counts.repeats[self.name] += 1
            return
        self.seen.add(frame.number)
        counts.deliveries.append((self.name, frame.number, frame.sent, frame.arrived, done))

    def answer(self, request):
        route, number = self.stream.send.answer_route, request.number
        for frame in frames_of(self.stream, route, number, request.sent, back=True):
            self.simulation.port(self.stream.listener, frame.way[0]).arrive(frame)


def within(span, time):
    """Tell whether a time lies in a span."""
    return span.from_ns * 1000 <= time and (span.until_ns is None or time < span.until_ns * 1000)


def run_reference(network, duration_s, seed):
    """Simulate a network and return its :class:`Counts` and its recovery functions."""
    simulation = Simulation(network, round(duration_s * 10**12), SeedSequence(seed))
    counts = simulation.run()
    return counts, simulation.recoveries
