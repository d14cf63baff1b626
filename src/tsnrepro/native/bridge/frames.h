/* SPDX-License-Identifier: MIT
 *
 * Parsing Ethernet frames: addresses, VLAN tag, EtherType.
 */
#ifndef TSNREPRO_BRIDGE_FRAMES_H
#define TSNREPRO_BRIDGE_FRAMES_H

#include "settings.h"

#include <string.h>

enum {
	ADDRESS_BYTES = 6,
	HEADER_BYTES = 14,
	TAG_BYTES = 4,
	FCS_BYTES = 4,
	TYPE_VLAN = 0x8100,
	TYPE_PTP = 0x88f7,
};

/* The headers of a frame; an untagged one has VLAN 0 and PCP 0. */
struct frame_facts {
	uint16_t vlan, type;
	uint8_t pcp;
	bool tagged;
};

static inline uint16_t read_16(const uint8_t *place)
{
	return (uint16_t)(place[0] << 8 | place[1]);
}

/* Read the headers of a frame without its FCS. False: it ends within them. */
static inline bool frame_read(const uint8_t *frame, uint32_t bytes, struct frame_facts *facts)
{
	*facts = (struct frame_facts){0};
	if (bytes < HEADER_BYTES)
		return false;
	facts->type = read_16(frame + 2 * ADDRESS_BYTES);
	if (facts->type == TYPE_VLAN) {
		if (bytes < HEADER_BYTES + TAG_BYTES)
			return false;
		uint16_t tag = read_16(frame + HEADER_BYTES);
		facts->tagged = true;
		facts->vlan = tag & 0xfff;
		facts->pcp = (uint8_t)(tag >> 13);
		facts->type = read_16(frame + HEADER_BYTES + 2);
	}
	return true;
}

/* Return the queue of a frame: PTP's own, or its class. */
static inline int frame_queue(const struct bridge_settings *settings,
			      const struct frame_facts *facts)
{
	if (facts->type == TYPE_PTP)
		return PTP_QUEUE;
	return settings_class(settings, facts->vlan, facts->pcp);
}

#endif
