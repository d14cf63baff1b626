"""Where everything stands in the memory that the kernels work on.

The state of a run is one array of int64, the *memory*; what is in it is found by its *address* (an
index), and a part of it at the address plus a column named here. One array, because a compiled
function takes an array as seven machine words: a call with one is cheap, with twenty it is not.

All times are whole picoseconds (106 days in 63 bits), so nothing is rounded twice and nothing
depends on the order of additions. A *frame* is four words (F_*). An *edge* is a ring of frames from
one element to another. An *element* is an egress port or the receiving side of a host; it takes the
frames of its incoming edges in order of time and puts what becomes of them on outgoing edges. A
*flow* is a stream on one part of its route: before replication, on one member path, or after
elimination. A *hop* is what happens to a flow at an element, and its counts there.
"""

from typing import Final

__all__ = ["NEVER", "NONE"]

NEVER: Final = 1 << 62
"""A time that does not come."""

NONE: Final = -1
"""No address, no number, no frame."""

# The run, at address 0.
(
    X_NOW,
    X_WINDOW,
    X_ELEMENTS,
    X_ELEMENT_COUNT,
    X_SENDERS,
    X_SENDER_COUNT,
    X_STARTED,
    X_FAULT,
    X_LOGS,
) = range(9)

# The logs of the run, from X_LOGS on: rows for Python to take between visits, their most, the most
# that one window can add, their number. A log without room for rows is not kept.
(LOG_START, LOG_SIZE, LOG_ROOM, LOG_COUNT, LOG_COLUMNS) = range(5)
LOGS: Final = 3
X_DELIVERIES: Final = X_LOGS
X_DEPARTURES: Final = X_LOGS + LOG_COLUMNS
X_ANSWERS: Final = X_LOGS + 2 * LOG_COLUMNS
X_COLUMNS: Final = X_LOGS + LOGS * LOG_COLUMNS

# A frame: when it arrives, when its write call began, which datagram, and META_* packed.
(F_TIME, F_SENT, F_IDENT, F_META, F_WORDS) = range(5)
META_FLOW_MASK: Final = 0xFFFF
META_FRAGMENT_SHIFT: Final = 16
META_FRAGMENT_MASK: Final = 0x3F
META_LAST: Final = 1 << 23
META_SEQ_SHIFT: Final = 32

# A ring: where it starts, its places less one (a power of two), how far it is read and written.
# Edges, queues and all other rings begin with these.
(RING_START, RING_MASK, RING_READ, RING_WRITTEN, RING_COLUMNS) = range(5)

# An edge: a ring of frames; acknowledgements go to the sender at G_SENDER.
(_, _, _, _, G_SENDER, G_COLUMNS) = range(6)

# An element.
(
    E_KIND,
    E_INPUTS,
    E_INPUT_COUNT,
    E_SENDERS,
    E_SENDER_COUNT,
    E_HOPS,
    E_CLASSES,
    E_LINE_FREE,
    E_SELECT_AT,
    E_GAP,
    E_DELAY,
    E_AHEAD,
    E_QUEUE_BYTES,
    E_BUSY,
    E_WATCHED,
    E_LOSS_KIND,
    E_FAILURE,
    E_FAILURES_END,
    E_RELEASE_AT,
    E_RELEASE_CLASS,
    E_RELEASE_BYTES,
    E_RELEASE_CHARGE,
    E_RELEASE_SENDER,
    E_LOSS_RANDOM,
    E_LOSS_ENTER,
    E_LOSS_LEAVE,
    E_LOSS_GOOD,
    E_LOSS_BAD,
    E_LOSS_STATE,
    E_LOSS_FROM,
    E_LOSS_UNTIL,
    E_TWICE,
    E_TWICE_RANDOM,
    E_TWICE_FROM,
    E_TWICE_UNTIL,
    E_LOGGED,
    E_GATE_CYCLE,
    E_GATE_SHIFT,
    E_GUARD,
    E_CARD_FRAMES,
    E_STACK,
    E_STACK_FREE,
    E_TRANSPORTS,
    E_TRANSPORT_COUNT,
    E_COLUMNS,
) = range(45)
FIFO_PORT: Final = 0
SCHEDULED_PORT: Final = 1
RECEIVER: Final = 2
NO_LOSS: Final = 0
RANDOM_LOSS: Final = 1
BURST_LOSS: Final = 2
(FAIL_DOWN, FAIL_UP, FAIL_WORDS) = range(3)

# A traffic class of a port: its ring of waiting frames, its bytes, its shaper. FIFO ports and
# receiving sides use the first one's ring for what they hold (HELD_*).
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
    Q_WINDOWS,
    Q_WINDOW_COUNT,
    Q_COLUMNS,
) = range(15)
CLASSES: Final = 8
ALWAYS_OPEN: Final = -1
(WINDOW_FROM, WINDOW_UNTIL, WINDOW_WORDS) = range(3)

# What a port, a socket or a process holds: until when, how many bytes.
(HELD_UNTIL, HELD_SIZE, HELD_WORDS) = range(3)

# A flow at an element, and its counts.
(
    H_OUTS,
    H_OUT_COUNT,
    H_SEQUENCE,
    H_RECOVER,
    H_INDIVIDUAL,
    H_ELIMINATION,
    H_AFTER,
    H_DONE_FULL,
    H_DONE_LAST,
    H_BYTES_FULL,
    H_BYTES_LAST,
    H_CLASS,
    H_LISTENER,
    H_SENDER,
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
    C_DUPLICATED,
    H_COLUMNS,
) = range(26)
(OUT_EDGE, OUT_FLOW, OUT_WORDS) = range(3)

# A sequence generator, and what goes wrong with it: its coming events, in order of time.
(SQ_NUMBER, SQ_STUCK, SQ_EVENT, SQ_EVENTS_END, SQ_COLUMNS) = range(5)
(EV_TIME, EV_ACTION, EV_WORDS) = range(3)
(UNSTICK, STICK, RESTART) = range(3)

# What else there is to the elimination of a stream: the times of its restarts, the recovery
# functions that restart, the latent error detection.
(EL_RESTART, EL_RESTARTS_END, EL_FUNCTIONS, EL_FUNCTION_COUNT, EL_LATENT, EL_COLUMNS) = range(6)

# A duration that is drawn anew each time.
(D_KIND, D_MEAN, D_SHAPE, D_RANDOM, D_WORDS) = range(5)

# A sequence of stalls: the next one, and what the following ones are drawn from.
(ST_FROM, ST_UNTIL, ST_INTERVAL, ST_LENGTH, ST_COLUMNS) = range(5)

# A sender: one stream's process and socket at its talker. Its ring holds (HELD_*) what the socket
# is charged for.
(
    _,
    _,
    _,
    _,
    S_KIND,
    S_PORT,
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
    S_GAP,
    S_TIMES,
    S_BUFFER,
    S_CHARGED,
    S_CHARGE_FULL,
    S_CHARGE_LAST,
    S_DROPS,
    S_COST,
    S_STALLS,
    S_TRANSPORT,
    S_WRITTEN,
    S_SOCKET_DROPS,
    S_ENTERED,
    S_NUMBER,
    S_LOGGED,
    S_TIMEOUT,
    S_TIMEOUTS,
    S_ANSWERED,
    S_DISREGARDED,
    S_TRIP_SUM,
    S_TRIP_MIN,
    S_TRIP_MAX,
    S_TRIP_BINS,
    S_COLUMNS,
) = range(46)
BURSTS: Final = 0
CONSTANT_RATE: Final = 1
POISSON: Final = 2
LISTED: Final = 3
SATURATING: Final = 4
TCP: Final = 5
PING_PONG: Final = 6
CALLS: Final = 0
ENTERS: Final = 1
BLOCKED: Final = 2
FINISHED: Final = 3
WAITS: Final = 4
UNLIMITED: Final = -1

# A stream at its listener. Its ring holds (HELD_*) what the socket is charged for.
(
    _,
    _,
    _,
    _,
    L_KIND,
    L_NUMBER,
    L_CHARGE,
    L_BUFFER,
    L_CHARGED,
    L_FREE,
    L_TIME,
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
    L_LATENCY_BINS,
    L_TRANSIT_SUM,
    L_TRANSIT_MIN,
    L_TRANSIT_MAX,
    L_TRANSIT_BINS,
    L_EDGE,
    L_ACK_FLOW,
    L_TRANSPORT,
    L_LOGGED,
    L_COST,
    L_COST_STALLS,
    L_ANSWERS,
    L_COLUMNS,
) = range(44)
TO_PROCESS: Final = 0
TO_TCP_RECEIVER: Final = 1
TO_TCP_SENDER: Final = 2
TO_SERVER: Final = 3
TO_CLIENT: Final = 4

# A TCP transfer: its sender, then its receiver; W_* are doubles, kept as their bits.
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
    T_SEGMENTS,
    T_SEGMENT_MASK,
    T_RETRANSMITTED,
    T_RECOVERIES,
    T_TIMEOUTS,
    T_EXPECTED,
    T_HIGHEST,
    T_HELD_BACK,
    T_ACK_AT,
    T_ECHO,
    T_ACKS,
    W_CONGESTION,
    W_THRESHOLD,
    W_BEFORE_LOSS,
    W_ESTIMATE,
    W_RETURN,
    W_ORIGIN,
    T_COLUMNS,
) = range(37)
OPEN: Final = 0
RECOVERING: Final = 1
TIMED_OUT: Final = 2
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
SEEN_WORDS: Final = SEEN_SLOTS // 64

# Rows of the logs: a delivered datagram, a frame that starts at a port, an answered request.
(R_STREAM, R_IDENT, R_SENT, R_ARRIVED, R_DELIVERED, R_WORDS) = range(6)
(DP_PORT, DP_IDENT, DP_META, DP_SENT, DP_QUEUED, DP_START, DP_DONE, DP_WORDS) = range(8)
(AN_STREAM, AN_IDENT, AN_SENT, AN_ANSWERED, AN_WORDS) = range(5)

# Latencies are counted in bins of 1/128 of an octave.
HISTOGRAM_SUB_BITS: Final = 7
HISTOGRAM_BINS: Final = 64 << HISTOGRAM_SUB_BITS
