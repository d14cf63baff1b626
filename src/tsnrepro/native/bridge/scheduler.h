/* SPDX-License-Identifier: MIT
 *
 * The transmission selection of one bridge port: gates, credit, priority and queues. It has neither
 * devices nor clocks: every call is given the time, so that the same code serves a port in real time
 * (transmit.c) and a list of arrivals in virtual time (replay.c).
 *
 * Sources: IEEE Std 802.1Q-2022, 8.6.8 (transmission selection), 8.6.8.2 (credit), 8.6.8.4 (gates).
 *
 * Times are picoseconds since an epoch that the caller chooses; 2^63 of them are 106 days, so a
 * caller that runs longer moves the epoch (scheduler_move_epoch). Credit is in units of 10^-9 bit,
 * which is kilobits per second times picoseconds, and so exact.
 */
#ifndef TSNREPRO_BRIDGE_SCHEDULER_H
#define TSNREPRO_BRIDGE_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

enum {
	CLASSES = 8,
	PTP_QUEUE = 8, /* ahead of all classes, never gated, never shaped */
	QUEUES = 9,
	MOST_ENTRIES = 64,
	PREAMBLE_BYTES = 8,
	GAP_BYTES = 12,
	LEAST_FRAME_BYTES = 64,
};

#define NEVER INT64_MAX
#define NO_LIMIT INT64_MAX
/* A caller in real time cannot wait for less, and would send each frame by a call of its own. */
#define MOST_CREDIT_AHEAD_PS INT64_C(5000000)

/* Which frame goes first if several may. */
enum selection {
	/* 802.1Q: the highest class whose gate is open and whose credit is not negative. */
	SELECT_STANDARD,
	/*
	 * PTP; scheduled classes in their windows; of the shaped classes the one with the most credit
     * (of two with the same, the higher class); then the others, the highest first.
	 */
	SELECT_BY_KIND,
};

/* For how long a gate has to stay open from a frame's start. */
enum guard {
	GUARD_FRAME,   /* for this frame's last bit */
	GUARD_LONGEST, /* for the longest frame's last bit */
	GUARD_TIME,    /* for a given time */
	GUARD_NONE,
};

struct gate_entry {
	uint8_t open; /* bit n is class n */
	int64_t interval_ns;
};

struct gate_list {
	int count; /* 0: every gate is always open */
	struct gate_entry entries[MOST_ENTRIES];
	int64_t base_ns;
	int64_t cycle_ns; /* the last entry is held to its end; what lies beyond is cut */
	enum guard guard;
	int64_t guard_ns;
};

struct shaper {
	int64_t idle_kbps; /* 0: not shaped */
	int64_t send_kbps; /* negative */
	int64_t hi_credit; /* NO_LIMIT, or where credit stops */
	int64_t lo_credit; /* -NO_LIMIT, or where it stops below */
};

struct scheduler_settings {
	int64_t rate_kbps;
	int64_t queue_bytes; /* of each queue: frames with FCS, held until their last bit is sent */
	int64_t longest_bytes;
	int64_t ahead_ps; /* how far ahead of its time on the line a frame may be handed over */
	enum selection selection;
	uint8_t scheduled; /* bit n: class n is scheduled (SELECT_BY_KIND) */
	struct gate_list gates;
	struct shaper shapers[CLASSES];
};

struct frame {
	void *handle; /* the caller's */
	int64_t arrived;
	uint32_t bytes; /* with FCS, at least 64 */
};

struct window {
	int64_t opens, closes; /* in the cycle; one across its end closes beyond it */
};

/* What every frame needs comes first, so that it shares few cache lines. */
struct queue {
	struct frame *ring;
	uint32_t mask, read, written;
	int window_count; /* -1: always open */
	int rank;         /* decides before the class's number does */
	int64_t bytes, peak_bytes;
	/* The window found last, in the scheduler's time: most frames of a class leave in it. */
	int64_t open_from, open_until;
	int64_t credit, credit_at, credit_least, credit_most;
	struct shaper shaper;
	int64_t longest_gain; /* picoseconds after which credit cannot rise further */
	uint64_t arrived, dropped, sent;
	struct window windows[MOST_ENTRIES];
};

struct scheduler {
	struct scheduler_settings settings;
	struct queue queues[QUEUES];
	unsigned waiting; /* bit n: frames wait in queue n */
	int64_t byte_ps;  /* on the line; 0: not an integer */
	int64_t gate_cycle, gate_shift;
	int64_t cycle_begin; /* of the gate cycle looked up last */
	int64_t line_free; /* when the line takes the next frame */
	int64_t leaves_at; /* when the last bit of the frame on the line is sent */
	uint32_t leaving_bytes;
	int leaving_queue;
};

struct departure {
	struct frame frame;
	int queue;
	int64_t start, done; /* its first and last bit */
};

/* Set the defaults. */
void scheduler_defaults(struct scheduler_settings *settings);

/* Return the first error of settings, or NULL. */
const char *scheduler_problem(const struct scheduler_settings *settings);

/* Initialize a scheduler whose time 0 is epoch_ns of the gates' clock. False: no memory. */
bool scheduler_open(struct scheduler *port, const struct scheduler_settings *settings,
					int64_t epoch_ns);
void scheduler_close(struct scheduler *port);

/* Put a frame into a queue (a class, or PTP_QUEUE). False: it does not fit, and was counted. */
bool scheduler_put(struct scheduler *port, int64_t now, int queue, uint32_t bytes, void *handle);

/*
 * Start the next frame that may start now. False: there is none, and *look_again is the first time at
 * which there may be one without further arrivals, or NEVER. A frame that waits for credit alone
 * may start later than now, by at most ahead_ps and MOST_CREDIT_AHEAD_PS.
 */
bool scheduler_take(struct scheduler *port, int64_t now, struct departure *departure,
					int64_t *look_again);

/* Remove any waiting frame without sending it, as when a port goes down. */
bool scheduler_drain(struct scheduler *port, struct frame *frame);

/* Return how many frames wait in a queue. */
uint32_t scheduler_waiting(const struct scheduler *port, int queue);

/* Return whether the gate of a queue is open now. */
bool scheduler_gate_open(struct scheduler *port, int queue, int64_t now);

/* Handle a clock that was set back to now: the line is free, and credit continues from here. */
void scheduler_set_back(struct scheduler *port, int64_t now);

/* Move time 0 later by this many picoseconds. */
void scheduler_move_epoch(struct scheduler *port, int64_t later);

/* Return how long bytes occupy the line, in picoseconds, rounded up. */
int64_t scheduler_line_time(const struct scheduler_settings *settings, int64_t bytes);

#endif
