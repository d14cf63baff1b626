/* SPDX-License-Identifier: MIT
 *
 * Tells frames of the measured stream from all others, and counts both.
 */
#ifndef TSNREPRO_STREAM_BPF_H
#define TSNREPRO_STREAM_BPF_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "frer.h"

#define NEXT_HEADER_FRAGMENT 44

enum stream_class { OTHER_TRAFFIC, STREAM_FRAME, STREAM_FRAGMENT };

struct vlan_header {
	__be16 tci;
	__be16 protocol;
};

struct ipv6_fragment {
	__u8 next_header;
	__u8 reserved;
	__be16 offset;
	__be32 id;
};

static __always_inline enum stream_class
classify_transport(void *header, void *end, __u32 protocol, const struct stream_filter *filter)
{
	/* TCP and UDP both start with source and destination port. */
	struct udphdr *udp = header;

	if (protocol != filter->ip_protocol || (void *)(udp + 1) > end)
		return OTHER_TRAFFIC;
	if (bpf_ntohs(udp->dest) != filter->port)
		return OTHER_TRAFFIC;
	if (protocol == IPPROTO_UDP && bpf_ntohs(udp->len) < sizeof(*udp) + filter->min_payload)
		return OTHER_TRAFFIC;
	return STREAM_FRAME;
}

static __always_inline enum stream_class
classify_ipv4(void *header, void *end, const struct stream_filter *filter)
{
	struct iphdr *ip = header;
	__u32 length;

	if ((void *)(ip + 1) > end)
		return OTHER_TRAFFIC;
	if (bpf_ntohs(ip->frag_off) & 0x1fff)
		return ip->protocol == filter->ip_protocol ? STREAM_FRAGMENT : OTHER_TRAFFIC;
	length = ip->ihl * 4;
	if (length < sizeof(*ip))
		return OTHER_TRAFFIC;
	return classify_transport(header + length, end, ip->protocol, filter);
}

static __always_inline enum stream_class
classify_ipv6(void *header, void *end, const struct stream_filter *filter)
{
	struct ipv6hdr *ip = header;
	struct ipv6_fragment *fragment = (void *)(ip + 1);

	if ((void *)(ip + 1) > end)
		return OTHER_TRAFFIC;
	if (ip->nexthdr != NEXT_HEADER_FRAGMENT)
		return classify_transport(ip + 1, end, ip->nexthdr, filter);
	if ((void *)(fragment + 1) > end)
		return OTHER_TRAFFIC;
	if (bpf_ntohs(fragment->offset) & 0xfff8)
		return fragment->next_header == filter->ip_protocol ? STREAM_FRAGMENT
								    : OTHER_TRAFFIC;
	return classify_transport(fragment + 1, end, fragment->next_header, filter);
}

static __always_inline enum stream_class
classify(void *header, void *end, __be16 protocol, const struct stream_filter *filter)
{
	if (!filter->ip_protocol)
		return OTHER_TRAFFIC;
	if (protocol == bpf_htons(ETH_P_IP))
		return classify_ipv4(header, end, filter);
	if (protocol == bpf_htons(ETH_P_IPV6))
		return classify_ipv6(header, end, filter);
	return OTHER_TRAFFIC;
}

/* Counts one frame; the map is per CPU, so no atomic operation is needed. */
static __always_inline void
count_frame(void *stations, __u32 index, __u64 bytes, enum stream_class class)
{
	struct station *station = bpf_map_lookup_elem(stations, &index);

	if (!station)
		return;
	station->frames++;
	station->bytes += bytes;
	if (class == STREAM_FRAME)
		station->stream_frames++;
	else if (class == STREAM_FRAGMENT)
		station->stream_fragments++;
}

#endif
