"""Where everything stands in the arrays that the kernels work on.

All times are whole picoseconds in int64 (106 days), so nothing is rounded twice and nothing depends
on the order of additions. A *frame* is four words (F_*). An *edge* is a ring of frames from one
element to another. An *element* is an egress port or the receiving side of a host; it takes the
frames of its incoming edges in order of time and puts what becomes of them on outgoing edges. A
*flow* is a stream on one part of its route: before replication, on one member path, or after
elimination. A *hop* is what happens to a flow at an element.
"""

from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["NEVER", "NONE", "State", "zeros"]

NEVER: Final = 1 << 62
"""A time that does not come."""

NONE: Final = -1
"""No index."""

# A frame: when it arrives, when its write call began, which datagram, and META_* packed.
(F_TIME, F_SENT, F_IDENT, F_META, F_WORDS) = range(5)
META_FLOW_MASK: Final = 0xFFFF
META_FRAGMENT_SHIFT: Final = 16
META_FRAGMENT_MASK: Final = 0x7F
META_LAST: Final = 1 << 23
META_SEQ_SHIFT: Final = 32

# A ring: where it starts in its store, its size less one (a power of two), how far it is read and
# written. Edges, queues and all other rings share this head of four columns.
(RING_START, RING_MASK, RING_READ, RING_WRITTEN) = range(4)

# An edge.
(_, _, _, _, G_KIND, G_SENDER, G_COLUMNS) = range(7)
EDGE_FRAMES: Final = 0
EDGE_ACKS: Final = 1

# An element.
(
    E_KIND,
    E_FAST,
    E_FIRST_IN,
    E_IN_COUNT,
    E_FIRST_SENDER,
    E_SENDER_COUNT,
    E_LINE_FREE,
    E_SELECT_AT,
    E_GAP,
    E_DELAY,
    E_AHEAD,
    E_QUEUE_BYTES,
    E_RELEASE_AT,
    E_RELEASE_FLOW,
    E_RELEASE_CLASS,
    E_RELEASE_BYTES,
    E_RELEASE_CHARGE,
    E_LOSS_KIND,
    E_LOSS_STREAM,
    E_LOSS_ENTER,
    E_LOSS_LEAVE,
    E_LOSS_GOOD,
    E_LOSS_BAD,
    E_LOSS_STATE,
    E_FAILURE,
    E_FAILURES_END,
    E_GATE_CYCLE,
    E_GATE_SHIFT,
    E_GUARD,
    E_BUSY,
    E_NIC_LIMIT,
    E_STACK_KIND,
    E_STACK_MEAN,
    E_STACK_SHAPE,
    E_STACK_STREAM,
    E_STACK_FREE,
    E_COLUMNS,
) = range(37)
PORT: Final = 0
RECEIVER: Final = 1
NO_LOSS: Final = 0
RANDOM_LOSS: Final = 1
BURST_LOSS: Final = 2

# A traffic class of a port: its ring of waiting frames, its bytes, its shaper.
(
    _,
    _,
    _,
    _,
    Q_BYTES,
    Q_PEAK,
    Q_IDLE_SLOPE,
    Q_SEND_SLOPE,
    Q_CREDIT,
    Q_CREDIT_AT,
    Q_CREDIT_MAX,
    Q_CREDIT_MIN,
    Q_FIRST_WINDOW,
    Q_WINDOW_COUNT,
    Q_COLUMNS,
) = range(15)
CLASSES: Final = 8
ALWAYS_OPEN: Final = -1

# The frames a port holds, or the datagrams a process has yet to finish: until when, how much.
(HELD_UNTIL, HELD_SIZE, HELD_WORDS) = range(3)

# A flow at an element.
(
    H_FIRST_OUT,
    H_OUT_COUNT,
    H_SPLIT,
    H_RECOVER,
    H_INDIVIDUAL,
    H_AFTER,
    H_DONE_FULL,
    H_DONE_LAST,
    H_BYTES_FULL,
    H_BYTES_LAST,
    H_CLASS,
    H_STREAM,
    H_SENDER,
    H_COLUMNS,
) = range(14)
(OUT_EDGE, OUT_FLOW, OUT_COLUMNS) = range(3)

# Counters of a flow at an element.
(
    C_ARRIVED,
    C_ELIMINATED,
    C_QUEUE_DROPS,
    C_SENT,
    C_LOST_RANDOM,
    C_LOST_DOWN,
    C_WAIT_SUM,
    C_WAIT_MAX,
    C_NIC_DROPS,
    C_HANDED_ON,
    C_COLUMNS,
) = range(11)

# A sender: one stream's process and socket at its talker.
(
    _,
    _,
    _,
    _,
    S_KIND,
    S_ELEMENT,
    S_FLOW,
    S_FRAGMENTS,
    S_LIMIT,
    S_STOP,
    S_INDEX,
    S_PHASE,
    S_NEXT,
    S_BEGIN,
    S_FREE,
    S_DUE,
    S_DUE_REST,
    S_STEP,
    S_STEP_REST,
    S_STEP_UNIT,
    S_TICK,
    S_START,
    S_GAP_MEAN,
    S_GAP_STREAM,
    S_FIRST_TIME,
    S_BUFFER,
    S_CHARGED,
    S_CHARGE_FULL,
    S_CHARGE_LAST,
    S_DROPS,
    S_COST_KIND,
    S_COST_MEAN,
    S_COST_SHAPE,
    S_COST_STREAM,
    S_STALLS,
    S_WRITTEN,
    S_SOCKET_DROPS,
    S_ENTERED,
    S_COLUMNS,
) = range(39)
BURSTS: Final = 0
CONSTANT_RATE: Final = 1
POISSON: Final = 2
LISTED: Final = 3
SATURATING: Final = 4
TCP: Final = 5
CALLS: Final = 0
ENTERS: Final = 1
BLOCKED: Final = 2
FINISHED: Final = 3
UNLIMITED: Final = -1

# A sequence of stalls: the next one, and what the following ones are drawn from.
(
    ST_FROM,
    ST_UNTIL,
    ST_GAP_KIND,
    ST_GAP_MEAN,
    ST_GAP_SHAPE,
    ST_LENGTH_KIND,
    ST_LENGTH_MEAN,
    ST_LENGTH_SHAPE,
    ST_STREAM,
    ST_COLUMNS,
) = range(10)

# A stream at its listener: the ring of datagrams its process has yet to finish, its counts.
(
    _,
    _,
    _,
    _,
    L_KIND,
    L_CHARGE,
    L_BUFFER,
    L_CHARGED,
    L_FREE,
    L_TIME_KIND,
    L_TIME_MEAN,
    L_TIME_SHAPE,
    L_TIME_STREAM,
    L_STALLS,
    L_FRAGMENTS,
    L_PENDING,
    L_SEEN,
    L_NEWEST,
    L_FRAMES,
    L_COMPLETE,
    L_INCOMPLETE,
    L_STRAY_FRAMES,
    L_PENDING_FRAMES,
    L_SOCKET_DROPS,
    L_DELIVERED,
    L_UNIQUE,
    L_DUPLICATES,
    L_OUT_OF_ORDER,
    L_FIRST,
    L_LAST,
    L_LATENCY_SUM,
    L_LATENCY_MIN,
    L_LATENCY_MAX,
    L_TRANSIT_SUM,
    L_TRANSIT_MIN,
    L_TRANSIT_MAX,
    L_EDGE,
    L_ACK_FLOW,
    L_ELEMENT,
    L_SENDER,
    L_COLUMNS,
) = range(41)
TO_PROCESS: Final = 0
TO_TCP_RECEIVER: Final = 1
TO_TCP_SENDER: Final = 2

# A TCP transfer: its sender, then its receiver.
(
    T_ENTRY_AT,
    T_TIMEOUT_AT,
    T_UNACKED,
    T_NEXT,
    T_PIPE,
    T_SACKED,
    T_HIGHEST_SACKED,
    T_LOST,
    T_LOST_FROM,
    T_STATE,
    T_RECOVER,
    T_NEWEST_SENT,
    T_NEWEST_SEGMENT,
    T_SMOOTHED,
    T_VARIATION,
    T_BACKOFF,
    T_WINDOW,
    T_CUBIC,
    T_EPOCH,
    T_RING_START,
    T_RING_MASK,
    T_RETRANSMITTED,
    T_RECOVERIES,
    T_TIMEOUTS,
    T_EXPECTED,
    T_HIGHEST,
    T_HELD_BACK,
    T_ACK_AT,
    T_ECHO,
    T_ACKS,
    T_COLUMNS,
) = range(31)
OPEN: Final = 0
RECOVERING: Final = 1
TIMED_OUT: Final = 2
(W_CONGESTION, W_THRESHOLD, W_BEFORE_LOSS, W_ESTIMATE, W_RETURN, W_ORIGIN, W_COLUMNS) = range(7)
(SEG_SENT, SEG_FLAG, SEG_RECEIVED, SEG_WORDS) = range(4)
OUTSTANDING: Final = 0
SACKED: Final = 1
LOST: Final = 2
ACK_NUMBER_BITS: Final = 32
ACK_OFFSET_BITS: Final = 16
MOST_SEGMENTS: Final = 1 << 14
"""Most segments a TCP window may hold, so that an acknowledgement packs into one word."""

PENDING_SLOTS: Final = 1024
"""Datagrams of one stream that reassembly holds at a time; a newer one evicts the oldest."""
(P_IDENT, P_MASK, P_WORDS) = range(3)
SEEN_SLOTS: Final = 65_536
"""How far back a repeated datagram is told from a late one."""

# One delivered datagram, as recorded.
(D_STREAM, D_IDENT, D_SENT, D_ARRIVED, D_DELIVERED, D_WORDS) = range(6)

# Latencies are counted in bins of 1/128 of an octave.
HISTOGRAM_SUB_BITS: Final = 7
HISTOGRAM_BINS: Final = 64 << HISTOGRAM_SUB_BITS

# Control words of a run.
(X_NOW, X_WINDOW, X_RECORDING, X_RECORDED, X_RECORD_ROOM, X_FAULT, X_STARTED, X_COLUMNS) = range(8)
FAULT_RING_FULL: Final = 1


class State(NamedTuple):
    """The whole state of a run. All arrays are int64 but ``random`` (uint64), ``tcp_window``."""

    control: Any
    elements: Any
    inputs: Any
    edges: Any
    frames: Any
    classes: Any
    held: Any
    hops: Any
    outs: Any
    counters: Any
    sequence: Any
    recovery: Any
    windows: Any
    failures: Any
    senders: Any
    times: Any
    stalls: Any
    listeners: Any
    pending: Any
    seen: Any
    histograms: Any
    records: Any
    random: Any
    tcp: Any
    tcp_window: Any
    segments: Any


def zeros(*shape: int) -> np.ndarray:
    """Return int64 zeros, with at least one element in each direction, as numba wants them."""
    return np.zeros(tuple(max(1, size) for size in shape), np.int64)
