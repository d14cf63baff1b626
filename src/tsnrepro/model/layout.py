"""Memory layout of a run: the records that the kernels work on.

The state of a run is one array of int64, the *memory*. Its parts are records with named fields,
identified by their *address* (an index): ``layout.sender(memory, address).charged`` reads or writes
the memory itself, both in Python and in compiled code. It is one array because an array is seven
machine words as an argument of a compiled function, so that twenty would make calls expensive.

All times are integers in picoseconds (106 days in 63 bits), so that there is no accumulated
rounding and no dependence on the order of additions. An *edge* is a ring of frames from one element
to another. An *element* is an egress port or the receiving side of a host; it processes the frames
of its incoming edges in order of time and puts them on outgoing edges. A *flow* is a stream on one
part of its route: before replication, on one member path, or after elimination. A *hop* is the
processing of a flow at an element, with its counters.
"""

from typing import Final

import numpy as np

from tsnrepro.model.compiled import fields, record

NEVER: Final = 1 << 62
"""A time that is never reached."""

NONE: Final = -1
"""No address, no number, no frame."""

LOG: Final = fields("start most room count")
"""A log of the run: address of its rows, their maximum, the maximum per window, their number.
Python empties logs between calls; one without room for rows is disabled."""

RUN, _, run = record(
    "now window elements element_count senders sender_count started fault",
    deliveries=LOG,
    departures=LOG,
    answers=LOG,
)
"""The run, at address 0."""

RING, _, ring = record("start mask read written")
"""A ring: its start, its size (a power of two) less one, its read and its write position."""

FRAME, FRAME_WORDS, frame = record("time sent ident meta")
"""A frame: arrival time, begin of its write call, number of its datagram, and META_* packed."""
META_FLOW_MASK: Final = 0xFFFF
META_FRAGMENT_SHIFT: Final = 16
META_FRAGMENT_MASK: Final = 0x3F
META_LAST: Final = 1 << 23
META_SEQ_SHIFT: Final = 32

ALLOCATION, ALLOCATION_WORDS, allocation = record("until amount")
"""An allocation of a port, a socket or a process: end time and bytes."""

EDGE, _, edge = record("sender", ring=RING)
"""An edge: a ring of frames; for acknowledgements, the address of the sender they go to."""

ELEMENT, _, element = record(
    "kind inputs input_count senders sender_count hops classes line_free select_at gap delay ahead",
    "queue_bytes busy watched loss_kind failure failures_end",
    "release_at release_class release_bytes release_charge release_sender",
    "loss_random loss_enter loss_leave loss_good loss_bad loss_state loss_from loss_until",
    "twice twice_random twice_from twice_until logged guard",
    "gate_cycle gate_shift gate_toggle gate_toggle_from jitter jitter_random latest",
    "card_frames stack stack_free transports transport_count",
)
"""An egress port, with the faults of its link, or the receiving side of a host."""
FIFO_PORT, SCHEDULED_PORT, RECEIVER = range(3)
NO_LOSS, RANDOM_LOSS, BURST_LOSS = range(3)

FAILURE, FAILURE_WORDS, failure = record("down up")

QUEUE, QUEUE_WORDS, queue = record(
    "bytes peak idle_slope send_slope credit credit_at credit_max credit_min windows window_count",
    ring=RING,
)
"""A traffic class of a port: its ring of waiting frames, its bytes, its shaper. FIFO ports and
receiving sides use the first one's ring for allocations (:data:`ALLOCATION`)."""
CLASSES: Final = 8
ALWAYS_OPEN: Final = -1

WINDOW, WINDOW_WORDS, window = record("opens closes")
"""An open window of a gate in its cycle; it may extend beyond the end of the cycle."""

HOP, HOP_WORDS, hop = record(
    "outs out_count sequence recover individual elimination after done_full done_last",
    "bytes_full bytes_last traffic_class listener sender",
    "arrived eliminated queue_drops sent lost_random lost_down wait_sum wait_max",
    "nic_drops handed_on duplicated",
)
"""A flow at an element, with its counters."""

OUT, OUT_WORDS, out = record("edge flow")
"""The next edge of a flow after an element, and its flow there."""

GENERATOR, _, generator = record("number stuck event events_end")
"""A sequence generator, and its future faults in order of time."""

EVENT, EVENT_WORDS, event = record("time action")
UNSTICK, STICK, RESTART = range(3)

ELIMINATION, _, elimination = record("restart restarts_end functions function_count latent")
"""Further parts of a stream's elimination: the times of its restarts, the recovery functions that
restart, the latent error detection."""

RECOVERY, _, recovery = record(
    "match length timeout take_no_sequence individual take_any last deadline head history",
    "out_of_order rogue passed discarded lost tagless resets",
)
"""A sequence recovery function; ``history`` is the address of its bits, a ring."""

LATENT, _, latent = record(
    "period reset_period next_test next_reset stop paths difference normal tests alarms rows"
)
"""A latent error detection; ``rows`` is the address of its alarms."""

ALARM, ALARM_WORDS, alarm = record("time moved")

DURATION, _, duration = record("kind mean_ps phases random")
"""A random duration."""

STALLS, _, stalls = record("begins ends interval length")
"""A sequence of stalls: the next one, and the durations of the following ones."""

TIMES: Final = fields("total least most bins")
"""Statistics of times; ``bins`` is the address of their histogram."""
# Bins of 1/128 octave.
HISTOGRAM_SUB_BITS: Final = 7
HISTOGRAM_BINS: Final = 64 << HISTOGRAM_SUB_BITS

SENDER, _, sender = record(
    "kind port flow fragments limit stop index phase next begin free due due_rest",
    "step step_rest step_unit tick start gap times buffer charged charge_full charge_last drops",
    "cost stalls transport written socket_drops entered number logged",
    "timeout timeouts answered disregarded",
    ring=RING,
    round_trip=TIMES,
)
"""One stream's process and socket at its talker; the ring has charges (:data:`ALLOCATION`)."""
BURSTS, CONSTANT_RATE, POISSON, LISTED, SATURATING, TCP, PING_PONG = range(7)
CALLS, ENTERS, BLOCKED, FINISHED, WAITS = range(5)
UNLIMITED: Final = -1

LISTENER, _, listener = record(
    "kind number charge buffer charged free work stalls fragments pending seen newest",
    "frames complete incomplete stray_frames pending_frames socket_drops delivered",
    "unique duplicates out_of_order last edge return_flow transport logged",
    "cost cost_stalls answers",
    ring=RING,
    latency=TIMES,
    transit=TIMES,
)
"""A stream at its listener. The ring has socket charges (:data:`ALLOCATION`)."""
TO_PROCESS, TO_TCP_RECEIVER, TO_TCP_SENDER, TO_SERVER, TO_CLIENT = range(5)

TRANSPORT, _, transport = record(
    "entry_at timeout_at unacked next pipe sacked highest_sacked lost lost_from state recover",
    "newest_sent newest_segment smoothed variation backoff window cubic epoch",
    "segments segment_mask retransmitted recoveries timeouts",
    "expected highest held_back ack_at echo acks",
    congestion=np.float64,
    threshold=np.float64,
    before_loss=np.float64,
    estimate=np.float64,
    return_time=np.float64,
    origin=np.float64,
)
"""A TCP transfer: its sender, then its receiver, then the windows of congestion control."""
OPEN, RECOVERING, TIMED_OUT = range(3)

SEGMENT, SEGMENT_WORDS, segment = record("sent flag received")
OUTSTANDING, SACKED, LOST = range(3)
ACK_NUMBER_BITS: Final = 32
ACK_OFFSET_BITS: Final = 16
MOST_SEGMENTS: Final = 1 << 14
"""Most segments of a TCP window, so that an acknowledgement fits into one word."""

PENDING, PENDING_WORDS, pending = record("ident mask")
"""A datagram in reassembly, and a mask of the fragments that have arrived."""
PENDING_SLOTS: Final = 1024
"""Datagrams of one stream in reassembly at a time; a newer one evicts the oldest."""
SEEN_SLOTS: Final = 65_536
"""Number of recent datagrams that repeats are recognised among."""
SEEN_WORDS: Final = SEEN_SLOTS // 64

DELIVERY, DELIVERY_WORDS, delivery = record("stream datagram sent_ps arrived_ps delivered_ps")
"""One datagram read by its listener for the first time: which stream (its place in the network's
list), which datagram of it (from 0), when its write began, when its last frame came to the
listener's card, and when the process had read it."""

ANSWER, ANSWER_WORDS, answer = record("stream request sent_ps answered_ps")
"""One request of a ping-pong that was answered in time: when its write began, when its answer had
been read."""

STARTED, STARTED_WORDS, started = record("port datagram meta sent_ps queued_ps start_ps end_ps")
"""One frame that starts at a port, as logged by the kernels."""
