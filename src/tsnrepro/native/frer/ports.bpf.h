/* SPDX-License-Identifier: MIT
 *
 * The configuration that frerctl writes, and which stream a port belongs to.
 */
#ifndef TSNREPRO_PORTS_BPF_H
#define TSNREPRO_PORTS_BPF_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "frer.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct switch_config);
} frer_config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORT_TABLES);
	__type(key, __u32);
	__type(value, struct port_table);
} stream_ports SEC(".maps");

static const __u32 only = 0;

/* Return the stream of a port plus one, or 0. */
static __always_inline __u32 stream_at(__u32 protocol, __be16 port)
{
	__u32 which = protocol == IPPROTO_TCP ? PORTS_TCP : PORTS_UDP;
	struct port_table *table = bpf_map_lookup_elem(&stream_ports, &which);
	__u32 index = bpf_ntohs(port);

	/* The verifier of Linux 6.1 loses the range of a byte-swapped number, and the compiler would
	 * leave out a mask that it sees no need of. */
	asm volatile("" : "+r"(index));
	return table ? table->stream[index & 0xffff] : 0;
}

#endif
