/* SPDX-License-Identifier: MIT
 *
 * See scheduler.h.
 */
#include "scheduler.h"

#include <stdlib.h>
#include <string.h>

/* The limit of unlimited credit, far above what a port needs. */
#define MOST_CREDIT ((int64_t)1 << 60)
#define ALWAYS_OPEN (-1)
#define MOST_QUEUE_BYTES ((int64_t)1 << 30)
#define PS_PER_NS 1000
/* How long a byte takes at 1 kb/s. */
#define BYTE_PS_KBPS INT64_C(8000000000)
/* The start of a window or cycle that no time lies in. */
#define NOWHEN (INT64_MAX / 2)

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t remainder_of(int64_t value, int64_t cycle)
{
	int64_t rest = value % cycle;
	return rest < 0 ? rest + cycle : rest;
}

/* --- settings ------------------------------------------------------------------------------ */

void scheduler_defaults(struct scheduler_settings *settings)
{
	memset(settings, 0, sizeof *settings);
	settings->rate_kbps = 1000000;
	settings->queue_bytes = 262144;
	settings->longest_bytes = 1522;
	for (int number = 0; number < CLASSES; number++) {
		settings->shapers[number].hi_credit = NO_LIMIT;
		settings->shapers[number].lo_credit = -NO_LIMIT;
	}
}

static const char *gates_problem(const struct gate_list *gates)
{
	if (gates->count == 0)
		return NULL;
	if (gates->cycle_ns <= 0 || gates->cycle_ns > INT64_C(1000000000000))
		return "a gate cycle is above 0 and at most 1000 s";
	for (int number = 0; number < gates->count; number++)
		if (gates->entries[number].interval_ns <= 0)
			return "a gate interval is above 0 ns";
	if (gates->guard_ns < 0 || gates->guard_ns > gates->cycle_ns)
		return "a guard band is at least 0 and at most a cycle";
	return NULL;
}

const char *scheduler_problem(const struct scheduler_settings *settings)
{
	int64_t reserved = 0;

	if (settings->rate_kbps < 1 || settings->rate_kbps > INT64_C(400000000))
		return "a rate is above 0 and at most 400,000 Mb/s";
	if (settings->queue_bytes < LEAST_FRAME_BYTES || settings->queue_bytes > MOST_QUEUE_BYTES)
		return "queue_bytes is at least 64 and at most 2^30";
	if (settings->longest_bytes < LEAST_FRAME_BYTES)
		return "longest_bytes is at least 64";
	for (int number = 0; number < CLASSES; number++) {
		const struct shaper *shaper = &settings->shapers[number];
		if (shaper->idle_kbps < 0)
			return "an idle slope is above 0";
		if (shaper->idle_kbps > 0 && shaper->send_kbps >= 0)
			return "a send slope is below 0, so an idle slope is below the port's rate";
		if (shaper->hi_credit < 0 || shaper->lo_credit > 0)
			return "hi credit is at least 0 and lo credit at most 0";
		reserved += shaper->idle_kbps;
	}
	if (reserved > settings->rate_kbps)
		return "the idle slopes together exceed the port's rate";
	return gates_problem(&settings->gates);
}

int64_t scheduler_line_time(const struct scheduler_settings *settings, int64_t bytes)
{
	return (bytes * BYTE_PS_KBPS + settings->rate_kbps - 1) / settings->rate_kbps;
}

/* The same without a division, at rates where a byte takes whole picoseconds. */
static int64_t line_time(const struct scheduler *port, int64_t bytes)
{
	return port->byte_ps ? bytes * port->byte_ps : scheduler_line_time(&port->settings, bytes);
}

/* --- gates --------------------------------------------------------------------------------- */

/* List the windows of a class, adjacent ones joined, also across the end of the cycle. */
static int list_windows(const struct gate_list *gates, int number, struct window *windows)
{
	int64_t begin = 0, cycle = gates->cycle_ns;
	int count = 0;

	for (int place = 0; place < gates->count; place++) {
		const struct gate_entry *entry = &gates->entries[place];
		int64_t end = place == gates->count - 1 ? cycle : least(cycle, begin + entry->interval_ns);
		if (begin < end && (entry->open >> number & 1)) {
			if (count > 0 && windows[count - 1].closes == begin)
				windows[count - 1].closes = end;
			else
				windows[count++] = (struct window){begin, end};
		}
		begin = end;
	}
	if (count == 1 && windows[0].opens == 0 && windows[0].closes == cycle)
		return ALWAYS_OPEN;
	if (count > 1 && windows[0].opens == 0 && windows[count - 1].closes == cycle) {
		windows[count - 1].closes += windows[0].closes;
		memmove(windows, windows + 1, (size_t)--count * sizeof *windows);
	}
	for (int place = 0; place < count; place++) {
		windows[place].opens *= PS_PER_NS;
		windows[place].closes *= PS_PER_NS;
	}
	return count;
}

/* Return when the gate cycle before the current one began. */
static int64_t cycle_before(struct scheduler *port, int64_t now)
{
	if (now < port->cycle_begin || now - port->cycle_begin >= port->gate_cycle)
		port->cycle_begin = now - remainder_of(now + port->gate_shift, port->gate_cycle);
	return port->cycle_begin - port->gate_cycle;
}

static void forget_windows(struct scheduler *port)
{
	port->cycle_begin = NOWHEN;
	for (int number = 0; number < QUEUES; number++)
		port->queues[number].open_from = port->queues[number].open_until = NOWHEN;
}

/* Return whether the window found last contains the time from start to end. */
static bool window_contains(const struct queue *queue, int64_t start, int64_t end)
{
	return queue->open_from <= start && end <= queue->open_until;
}

/* Return the first time from now on at which the gate stays open for a time, or NEVER. */
static int64_t gate_opens(struct scheduler *port, struct queue *queue, int64_t now, int64_t need)
{
	if (queue->window_count == ALWAYS_OPEN)
		return now;
	/* At the very end of a window its gate is closed. */
	if (now < queue->open_until && window_contains(queue, now, now + need))
		return now;
	int64_t begin = cycle_before(port, now);
	/* From the cycle before, whose last window may still be open, to the one after the next. */
	for (int turn = 0; turn < 4; turn++, begin += port->gate_cycle)
		for (int number = 0; number < queue->window_count; number++) {
			int64_t opens = most(now, begin + queue->windows[number].opens);
			int64_t closes = begin + queue->windows[number].closes;
			if (opens < closes && opens + need <= closes) {
				queue->open_from = begin + queue->windows[number].opens;
				queue->open_until = closes;
				return opens;
			}
		}
	return NEVER;
}

/* Return when the gate, open now, closes. */
static int64_t gate_closes(struct scheduler *port, const struct queue *queue, int64_t now)
{
	if (queue->window_count == ALWAYS_OPEN)
		return NEVER;
	if (now < queue->open_until && window_contains(queue, now, now))
		return queue->open_until;
	int64_t begin = cycle_before(port, now);
	for (int turn = 0; turn < 2; turn++, begin += port->gate_cycle)
		for (int number = 0; number < queue->window_count; number++) {
			int64_t closes = begin + queue->windows[number].closes;
			if (begin + queue->windows[number].opens <= now && now < closes)
				return closes;
		}
	return NEVER;
}

static int64_t open_per_cycle(const struct queue *queue)
{
	int64_t total = 0;
	for (int number = 0; number < queue->window_count; number++)
		total += queue->windows[number].closes - queue->windows[number].opens;
	return total;
}

/* Return how long the gate is open between two times. */
static int64_t open_time(struct scheduler *port, const struct queue *queue, int64_t start,
						 int64_t end)
{
	if (queue->window_count == ALWAYS_OPEN || window_contains(queue, start, end))
		return end - start;
	/* Whole cycles at once, so that a class that was idle for a day costs no more than another. */
	int64_t cycles = (end - start) / port->gate_cycle;
	int64_t total = cycles * open_per_cycle(queue);
	end -= cycles * port->gate_cycle;
	for (int64_t begin = cycle_before(port, start); begin < end; begin += port->gate_cycle)
		for (int number = 0; number < queue->window_count; number++) {
			int64_t opens = most(start, begin + queue->windows[number].opens);
			int64_t closes = least(end, begin + queue->windows[number].closes);
			total += most(0, closes - opens);
		}
	return total;
}

bool scheduler_gate_open(struct scheduler *port, int queue, int64_t now)
{
	return gate_opens(port, &port->queues[queue], now, 0) == now;
}

/* Return how long the gate must stay open when the first frame of a queue starts. */
static int64_t time_needed(const struct scheduler *port, const struct queue *queue)
{
	const struct scheduler_settings *settings = &port->settings;
	switch (settings->gates.guard) {
	case GUARD_FRAME: {
		uint32_t bytes = queue->ring[queue->read & queue->mask].bytes;
		return line_time(port, bytes + PREAMBLE_BYTES);
	}
	case GUARD_LONGEST:
		return line_time(port, settings->longest_bytes + PREAMBLE_BYTES);
	case GUARD_TIME:
		return settings->gates.guard_ns * PS_PER_NS;
	case GUARD_NONE:
		break;
	}
	return 0;
}

/* --- credit -------------------------------------------------------------------------------- */

/*
 * Update the credit of a queue to now. Without frames waiting, credit above zero is lost and
 * credit below zero recovers to zero; a closed gate freezes it.
 */
static void update_credit(struct scheduler *port, int number, bool waiting, int64_t now)
{
	struct queue *queue = &port->queues[number];
	const struct shaper *shaper = &queue->shaper;

	if (shaper->idle_kbps == 0 || now < queue->credit_at || (waiting && now == queue->credit_at))
		return;
	int64_t credit = waiting ? queue->credit : least(0, queue->credit);
	if (waiting || credit < 0) {
		int64_t open = open_time(port, queue, queue->credit_at, now);
		credit += shaper->idle_kbps * least(open, queue->longest_gain);
		credit = least(credit, waiting ? least(shaper->hi_credit, MOST_CREDIT) : 0);
	}
	queue->credit = credit;
	queue->credit_at = now;
	queue->credit_most = most(queue->credit_most, credit);
}

static void charge_credit(struct scheduler *port, int number, int64_t start, int64_t end)
{
	struct queue *queue = &port->queues[number];
	const struct shaper *shaper = &queue->shaper;

	if (shaper->idle_kbps == 0)
		return;
	queue->credit = most(queue->credit + shaper->send_kbps * (end - start), shaper->lo_credit);
	queue->credit_at = end;
	queue->credit_least = least(queue->credit_least, queue->credit);
}

/* Return when the credit, updated to now and below zero, is back at zero. */
static int64_t credit_returns(struct scheduler *port, struct queue *queue, int64_t now)
{
	int64_t slope = queue->shaper.idle_kbps;
	int64_t missing = (-queue->credit + slope - 1) / slope, time = now;

	while (missing > 0) {
		time = gate_opens(port, queue, time, 0);
		if (time == NEVER)
			return NEVER;
		int64_t step = least(missing, gate_closes(port, queue, time) - time);
		time += step;
		missing -= step;
	}
	return time;
}

/* Return the first time from now on at which a waiting queue may start its frame. */
static int64_t eligible_at(struct scheduler *port, int number, int64_t now)
{
	struct queue *queue = &port->queues[number];
	int64_t start = now;

	if (number == PTP_QUEUE)
		return now;
	update_credit(port, number, true, now);
	if (queue->shaper.idle_kbps > 0 && queue->credit < 0) {
		start = credit_returns(port, queue, now);
		if (start == NEVER)
			return NEVER;
	}
	if (queue->window_count == ALWAYS_OPEN)
		return start;
	/* Credit does not decrease while a class waits, so from here only the gate matters. */
	return gate_opens(port, queue, start, time_needed(port, queue));
}

/* --- queues -------------------------------------------------------------------------------- */

/* Return the rank of a queue; see enum selection. */
static int rank(const struct scheduler_settings *settings, int number)
{
	if (number == PTP_QUEUE)
		return 3;
	if (settings->selection == SELECT_STANDARD)
		return 0;
	if (settings->scheduled >> number & 1)
		return 2;
	return settings->shapers[number].idle_kbps > 0 ? 1 : 0;
}

bool scheduler_open(struct scheduler *port, const struct scheduler_settings *settings,
					int64_t epoch_ns)
{
	uint32_t places = 2;

	memset(port, 0, sizeof *port);
	port->settings = *settings;
	port->byte_ps = BYTE_PS_KBPS % settings->rate_kbps ? 0 : BYTE_PS_KBPS / settings->rate_kbps;
	port->leaving_queue = -1;
	/* Every frame counts as at least 64 bytes, so the limit in bytes is reached before the ring's. */
	while (places < settings->queue_bytes / LEAST_FRAME_BYTES + 1)
		places *= 2;
	if (settings->gates.count > 0) {
		int64_t cycle_ns = settings->gates.cycle_ns;
		port->gate_cycle = cycle_ns * PS_PER_NS;
		port->gate_shift = remainder_of(
			remainder_of(epoch_ns, cycle_ns) - remainder_of(settings->gates.base_ns, cycle_ns),
			cycle_ns) * PS_PER_NS;
	}
	for (int number = 0; number < QUEUES; number++) {
		struct queue *queue = &port->queues[number];
		queue->window_count = ALWAYS_OPEN;
		if (number < CLASSES && settings->gates.count > 0)
			queue->window_count = list_windows(&settings->gates, number, queue->windows);
		if (number < CLASSES)
			queue->shaper = settings->shapers[number];
		if (queue->shaper.idle_kbps > 0)
			queue->longest_gain = MOST_CREDIT / queue->shaper.idle_kbps;
		queue->rank = rank(settings, number);
		queue->mask = places - 1;
		queue->ring = calloc(places, sizeof *queue->ring);
		if (!queue->ring) {
			scheduler_close(port);
			return false;
		}
	}
	forget_windows(port);
	return true;
}

void scheduler_close(struct scheduler *port)
{
	for (int number = 0; number < QUEUES; number++) {
		free(port->queues[number].ring);
		port->queues[number].ring = NULL;
	}
}

uint32_t scheduler_waiting(const struct scheduler *port, int number)
{
	return port->queues[number].written - port->queues[number].read;
}

/* Free the memory of the frame on the line, once its last bit is sent. */
static void release_line(struct scheduler *port)
{
	if (port->leaving_queue >= 0)
		port->queues[port->leaving_queue].bytes -= port->leaving_bytes;
	port->leaving_queue = -1;
}

bool scheduler_put(struct scheduler *port, int64_t now, int number, uint32_t bytes, void *handle)
{
	struct queue *queue = &port->queues[number];

	if (port->leaves_at <= now)
		release_line(port);
	if (bytes < LEAST_FRAME_BYTES)
		bytes = LEAST_FRAME_BYTES;
	queue->arrived++;
	if (queue->bytes + bytes > port->settings.queue_bytes) {
		queue->dropped++;
		return false;
	}
	if (scheduler_waiting(port, number) == 0)
		update_credit(port, number, false, now);
	queue->bytes += bytes;
	queue->peak_bytes = most(queue->peak_bytes, queue->bytes);
	queue->ring[queue->written++ & queue->mask] = (struct frame){handle, now, bytes};
	port->waiting |= 1u << number;
	return true;
}

/* Remove the first frame of a queue that is not empty. */
static struct frame take_out(struct scheduler *port, int number)
{
	struct queue *queue = &port->queues[number];
	struct frame frame = queue->ring[queue->read++ & queue->mask];

	if (queue->read == queue->written)
		port->waiting &= ~(1u << number);
	return frame;
}

static void start_frame(struct scheduler *port, int number, int64_t start,
						struct departure *departure)
{
	struct queue *queue = &port->queues[number];
	struct frame frame = take_out(port, number);
	int64_t done = start + line_time(port, frame.bytes + PREAMBLE_BYTES);
	int64_t free_at = done + line_time(port, GAP_BYTES);

	charge_credit(port, number, start, free_at);
	release_line(port);
	port->line_free = free_at;
	port->leaves_at = done;
	port->leaving_queue = number;
	port->leaving_bytes = frame.bytes;
	queue->sent++;
	*departure = (struct departure){frame, number, start, done};
}

/* --- selection ----------------------------------------------------------------------------- */

static bool goes_before(const struct scheduler *port, int number, int other)
{
	if (other < 0)
		return true;
	int mine = port->queues[number].rank, others = port->queues[other].rank;
	if (mine != others)
		return mine > others;
	if (port->settings.selection == SELECT_BY_KIND && mine == 1) {
		int64_t credit = port->queues[number].credit, best = port->queues[other].credit;
		if (credit != best)
			return credit > best;
	}
	return number > other;
}

/*
 * Choose the queue whose first frame starts at `start`, of those whose gates are open now, or -1.
 * *soonest is when the first frame that waits only for credit may start, or NEVER.
 */
static int choose(struct scheduler *port, int64_t now, int64_t start, int64_t *soonest,
				  int64_t *look_again)
{
	int chosen = -1;

	*soonest = NEVER;
	for (unsigned left = port->waiting; left; left &= left - 1) {
		int number = __builtin_ctz(left);
		struct queue *queue = &port->queues[number];
		int64_t time = eligible_at(port, number, start);
		/* An idle device sends at once, so nothing is handed to it before its gate opens. */
		int64_t opens = start > now ? gate_opens(port, queue, now, 0) : now;
		if (time > start || opens > now) {
			*look_again = least(*look_again, opens > now ? opens : time);
			if (queue->window_count == ALWAYS_OPEN || window_contains(queue, now, time))
				*soonest = least(*soonest, time);
		} else if (goes_before(port, number, chosen)) {
			chosen = number;
		}
	}
	return chosen;
}

bool scheduler_take(struct scheduler *port, int64_t now, struct departure *departure,
					int64_t *look_again)
{
	int64_t start = most(now, port->line_free), soonest;

	*look_again = NEVER;
	if (!port->waiting)
		return false;
	if (port->line_free - port->settings.ahead_ps > now) {
		*look_again = port->line_free - port->settings.ahead_ps;
		return false;
	}
	int chosen = choose(port, now, start, &soonest, look_again);
	if (chosen < 0 && soonest <= now + least(port->settings.ahead_ps, MOST_CREDIT_AHEAD_PS)) {
		start = soonest;
		chosen = choose(port, now, start, &soonest, look_again);
	}
	if (chosen < 0)
		return false;
	start_frame(port, chosen, start, departure);
	*look_again = now;
	return true;
}

bool scheduler_drain(struct scheduler *port, struct frame *frame)
{
	if (!port->waiting)
		return false;
	int number = __builtin_ctz(port->waiting);
	*frame = take_out(port, number);
	port->queues[number].bytes -= frame->bytes;
	return true;
}

void scheduler_set_back(struct scheduler *port, int64_t now)
{
	port->line_free = least(port->line_free, now);
	port->leaves_at = least(port->leaves_at, now);
	for (int number = 0; number < QUEUES; number++)
		port->queues[number].credit_at = least(port->queues[number].credit_at, now);
}

void scheduler_move_epoch(struct scheduler *port, int64_t later)
{
	port->line_free = most(0, port->line_free - later);
	port->leaves_at = most(0, port->leaves_at - later);
	forget_windows(port);
	if (port->gate_cycle)
		port->gate_shift = remainder_of(port->gate_shift + remainder_of(later, port->gate_cycle),
										port->gate_cycle);
	for (int number = 0; number < QUEUES; number++) {
		struct queue *queue = &port->queues[number];
		queue->credit_at -= later; /* may lie before the epoch */
		for (uint32_t place = queue->read; place != queue->written; place++)
			queue->ring[place & queue->mask].arrived -= later;
	}
}
