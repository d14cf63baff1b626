/* SPDX-License-Identifier: MIT
 *
 * Sending: copies handed to a port go into its queues, and its scheduler decides what leaves.
 */
#include "state.h"

#include <rte_ethdev.h>
#include <stdlib.h>

enum { SEND_BURST = 32 };
/* Long before 2^63 picoseconds, which are 106 days. */
static const int64_t MOVE_AFTER_PS = INT64_C(4000000000000000000);

static void enqueue_copies(struct port *port, int64_t now)
{
	void *frames[SEND_BURST];
	unsigned count;

	while ((count = rte_ring_sc_dequeue_burst(port->handoff, frames, SEND_BURST, NULL)) > 0)
		for (unsigned number = 0; number < count; number++) {
			struct rte_mbuf *mbuf = frames[number];
			uint32_t bytes = rte_pktmbuf_pkt_len(mbuf) + FCS_BYTES;
			if (!scheduler_put(&port->scheduler, now, (int)mbuf->hash.usr, bytes, mbuf))
				rte_pktmbuf_free(mbuf);
		}
}

/* Apply new settings: waiting frames keep waiting, and counters continue. */
static void apply_settings(struct port *port, int64_t now)
{
	struct scheduler *old = &port->scheduler;

	/* A load costs other processors nothing, an exchange does. */
	if (!atomic_load_explicit(&port->next_scheduler, memory_order_relaxed))
		return;
	struct scheduler *next = atomic_exchange(&port->next_scheduler, NULL);
	if (!next)
		return;
	next->line_free = old->line_free;
	for (int number = 0; number < QUEUES; number++) {
		struct queue *from = &old->queues[number], *to = &next->queues[number];
		to->credit_at = now;
		for (; from->read != from->written; from->read++) {
			struct frame *frame = &from->ring[from->read & from->mask];
			if (!scheduler_put(next, now, number, frame->bytes, frame->handle))
				rte_pktmbuf_free(frame->handle);
		}
		to->arrived = from->arrived;
		to->dropped += from->dropped;
		to->sent = from->sent;
	}
	scheduler_close(old);
	*old = *next;
	free(next);
}

static void drop_all(struct port *port)
{
	struct frame frame;

	while (scheduler_drain(&port->scheduler, &frame)) {
		port->transmitted.port_down++;
		rte_pktmbuf_free(frame.handle);
	}
}

static void send_burst(struct bridge *bridge, struct port *port, struct rte_mbuf **frames,
					   const int *queues, uint16_t count)
{
	uint64_t bytes = 0;

	for (int number = 0; number < count; number++)
		bytes += rte_pktmbuf_pkt_len(frames[number]);
	uint16_t sent = rte_eth_tx_burst(port->number, 0, frames, count);
	int64_t after = now_ps(bridge);
	for (int number = 0; number < count; number++) {
		if (number >= sent) {
			port->transmitted.refused++;
			bytes -= rte_pktmbuf_pkt_len(frames[number]);
			rte_pktmbuf_free(frames[number]);
		} else if (queues[number] < CLASSES &&
				   !scheduler_gate_open(&port->scheduler, queues[number], after)) {
			port->transmitted.outside[queues[number]]++;
		}
	}
	port->transmitted.bytes += bytes;
}

/* Send what may leave a port now; return whether there was anything. */
static bool serve(struct bridge *bridge, struct port *port, int64_t now, int64_t *look_again)
{
	struct rte_mbuf *frames[SEND_BURST];
	int queues[SEND_BURST];
	uint16_t count = 0;
	struct departure departure;

	while (count < SEND_BURST &&
		   scheduler_take(&port->scheduler, now, &departure, look_again)) {
		frames[count] = departure.frame.handle;
		queues[count++] = departure.queue;
	}
	if (count > 0)
		send_burst(bridge, port, frames, queues, count);
	return count > 0;
}

/* Return the time; handles a clock that was set back, and keeps away from the end of the scale. */
static int64_t steady_now(struct bridge *bridge)
{
	static int64_t last;
	int64_t now = now_ps(bridge);

	if (now > MOVE_AFTER_PS) {
		for (int number = 0; number < bridge->port_count; number++)
			scheduler_move_epoch(&bridge->ports[number].scheduler, now);
		bridge->epoch_ns += now / 1000;
		last = now = now_ps(bridge);
	}
	if (now < last)
		for (int number = 0; number < bridge->port_count; number++)
			scheduler_set_back(&bridge->ports[number].scheduler, now);
	last = now;
	return now;
}

bool transmit_turn(struct bridge *bridge, int64_t *look_again)
{
	bool any = false;

	*look_again = NEVER;
	for (int number = 0; number < bridge->port_count; number++) {
		struct port *port = &bridge->ports[number];
		int64_t now = steady_now(bridge), again = NEVER;
		apply_settings(port, now);
		enqueue_copies(port, now);
		if (atomic_load(&port->up))
			any |= serve(bridge, port, now, &again);
		else
			drop_all(port);
		if (again < *look_again)
			*look_again = again;
	}
	return any;
}
