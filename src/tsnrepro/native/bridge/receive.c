/* SPDX-License-Identifier: MIT
 *
 * Receiving: ports in turn, a burst of each; of a burst PTP first; a frame's source is learned, its
 * class read from VLAN ID and PCP, and its copies are handed to the ports where it goes.
 */
#include "state.h"

#include <rte_ethdev.h>

enum { MOST_BURST = 256 };

static bool is_group(const uint8_t *mac) { return mac[0] & 1; }

/* Group addresses that a bridge does not forward, 01-80-C2-00-00-00 to -0F. */
static bool is_reserved(const uint8_t *mac)
{
	static const uint8_t prefix[] = {0x01, 0x80, 0xc2, 0x00, 0x00};
	return !memcmp(mac, prefix, sizeof prefix) && mac[5] < 16;
}

/* Insert the tag that the kernel keeps beside the frame. */
static bool restore_tag(struct rte_mbuf *mbuf)
{
	if (!(mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED))
		return true;
	uint8_t *start = (uint8_t *)rte_pktmbuf_prepend(mbuf, TAG_BYTES);
	if (!start)
		return false;
	memmove(start, start + TAG_BYTES, 2 * ADDRESS_BYTES);
	start[12] = TYPE_VLAN >> 8;
	start[13] = TYPE_VLAN & 0xff;
	start[14] = (uint8_t)(mbuf->vlan_tci >> 8);
	start[15] = (uint8_t)mbuf->vlan_tci;
	mbuf->ol_flags &= ~(RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED);
	return true;
}

static void hand_on(struct port *out, struct rte_mbuf *mbuf)
{
	if (rte_ring_enqueue(out->handoff, mbuf) == 0)
		return;
	atomic_fetch_add(&out->handoff_full, 1);
	rte_pktmbuf_free(mbuf);
}

/* Hand a copy to every port that is up but the port of entry; they share the frame's memory. */
static void flood(struct bridge *bridge, struct port *in, struct rte_mbuf *mbuf)
{
	struct port *outs[MOST_PORTS];
	int count = 0;

	for (int number = 0; number < bridge->port_count; number++) {
		struct port *out = &bridge->ports[number];
		if (out != in && atomic_load(&out->up))
			outs[count++] = out;
	}
	if (count == 0) {
		in->received.unswitched++;
		rte_pktmbuf_free(mbuf);
		return;
	}
	in->received.flooded++;
	in->received.extra_copies += (uint64_t)count - 1;
	rte_mbuf_refcnt_update(mbuf, (int16_t)(count - 1));
	for (int number = 0; number < count; number++)
		hand_on(outs[number], mbuf);
}

/* Return the counter of a frame that is not forwarded, or NULL. */
static uint64_t *discarded_as(struct bridge *bridge, struct port *in, struct rte_mbuf *mbuf,
							  struct frame_facts *facts)
{
	const uint8_t *content = rte_pktmbuf_mtod(mbuf, const uint8_t *);

	if (!frame_read(content, rte_pktmbuf_pkt_len(mbuf), facts))
		return &in->received.runt;
	if (rte_pktmbuf_pkt_len(mbuf) + FCS_BYTES > bridge->longest_bytes)
		return &in->received.oversized;
	if (is_group(content + ADDRESS_BYTES))
		return &in->received.bad_source;
	if (is_reserved(content) && facts->type != TYPE_PTP)
		return &in->received.reserved;
	return NULL;
}

static void forward(struct bridge *bridge, struct port *in, struct rte_mbuf *mbuf,
					const struct frame_facts *facts, int64_t second)
{
	const uint8_t *content = rte_pktmbuf_mtod(mbuf, const uint8_t *);
	int from = (int)(in - bridge->ports);

	table_learn(content + ADDRESS_BYTES, facts->vlan, from, second);
	mbuf->hash.usr = (uint32_t)frame_queue(&bridge->settings, facts);
	int to = is_group(content) ? NOWHERE : table_find(content, facts->vlan);
	if (to == NOWHERE) {
		flood(bridge, in, mbuf);
	} else if (to == from) {
		in->received.unswitched++;
		rte_pktmbuf_free(mbuf);
	} else {
		hand_on(&bridge->ports[to], mbuf);
	}
}

static bool receive_from(struct bridge *bridge, struct port *in, int64_t second)
{
	struct rte_mbuf *frames[MOST_BURST];
	struct frame_facts facts[MOST_BURST];
	uint16_t burst = (uint16_t)bridge->settings.burst;
	uint16_t count = rte_eth_rx_burst(in->number, 0, frames, burst);

	for (int number = 0; number < count; number++) {
		in->received.frames++;
		in->received.bytes += rte_pktmbuf_pkt_len(frames[number]);
		uint64_t *discarded = restore_tag(frames[number])
								? discarded_as(bridge, in, frames[number], &facts[number])
								: &in->received.oversized;
		if (discarded) {
			(*discarded)++;
			rte_pktmbuf_free(frames[number]);
			frames[number] = NULL;
		} else if (facts[number].type == TYPE_PTP) {
			in->received.ptp++;
			forward(bridge, in, frames[number], &facts[number], second);
			frames[number] = NULL;
		}
	}
	for (int number = 0; number < count; number++)
		if (frames[number])
			forward(bridge, in, frames[number], &facts[number], second);
	return count > 0;
}

bool receive_turn(struct bridge *bridge, int first, int last)
{
	int64_t second = now_s();
	bool any = false;

	for (int number = first; number < last; number++) {
		struct port *in = &bridge->ports[number];
		any |= receive_from(bridge, in, second);
	}
	return any;
}
