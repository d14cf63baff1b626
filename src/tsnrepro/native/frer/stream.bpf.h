/* SPDX-License-Identifier: MIT
 *
 * Tells the frames of each stream from one another and from best effort, and counts them.
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
#define MORE_FRAGMENTS 0x2000
#define FRAGMENT_OFFSET 0x1fff

enum stream_class { OTHER_TRAFFIC, STREAM_FRAME, STREAM_FRAGMENT };

struct traffic {
	__u32 stream; /* its index, or FRER_BEST_EFFORT */
	enum stream_class class; /* how the frame counts for that stream */
};

struct r_tag {
	__be16 reserved;
	__be16 sequence;
	__be16 protocol; /* EtherType of what the tag stands before */
};

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

/* Only the first fragment of a datagram has its ports: where there are several streams, it
 * leaves a note of its stream for the later ones. */
struct fragment_key {
	__u32 source;
	__u32 destination;
	__u32 id;
	__u32 protocol;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct fragment_key);
	__type(value, struct traffic);
} fragments SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STATION_SETS * STATIONS);
	__type(key, __u32);
	__type(value, struct station);
} stations SEC(".maps");

static const __u32 only = 0;

/* What carries no stream's port. */
static __always_inline struct traffic unmatched(const struct switch_config *config)
{
	return (struct traffic){config->one_stream ? 0 : FRER_BEST_EFFORT, OTHER_TRAFFIC};
}

static __always_inline __u32 stream_at(__u32 protocol, __be16 port)
{
	__u32 which = protocol == IPPROTO_TCP ? PORTS_TCP : PORTS_UDP;
	struct port_table *table = bpf_map_lookup_elem(&stream_ports, &which);
	__u32 index = bpf_ntohs(port);

	/* Linux 6.1 forgets how large a swapped number can be, and the compiler would leave out a
	 * mask that it sees no need of. */
	asm volatile("" : "+r"(index));
	return table ? table->stream[index & 0xffff] : 0;
}

static __always_inline struct traffic
classify_transport(void *header, void *end, __u32 protocol, const struct switch_config *config)
{
	/* TCP and UDP both start with source and destination port. */
	struct udphdr *udp = header;
	struct traffic found = unmatched(config);
	__u32 stream;

	if ((protocol != IPPROTO_UDP && protocol != IPPROTO_TCP) || (void *)(udp + 1) > end)
		return found;
	stream = stream_at(protocol, udp->dest);
	if (stream && stream <= FRER_MAX_STREAMS) {
		found.stream = stream - 1;
		if (protocol != IPPROTO_UDP ||
		    bpf_ntohs(udp->len) >=
			    sizeof(*udp) + config->stream[stream - 1].filter.min_payload)
			found.class = STREAM_FRAME;
		return found;
	}
	/* The answers of a stream's listener are protected like the stream, and do not count. */
	stream = stream_at(protocol, udp->source);
	if (stream && stream <= FRER_MAX_STREAMS)
		found.stream = stream - 1;
	return found;
}

static __always_inline struct traffic
classify_fragment(const struct switch_config *config, const struct fragment_key *key)
{
	struct traffic found = unmatched(config), *note;

	if (config->one_stream) {
		if (key->protocol == config->stream[0].filter.ip_protocol)
			found.class = STREAM_FRAGMENT;
		return found;
	}
	note = bpf_map_lookup_elem(&fragments, key);
	if (note) {
		found.stream = note->stream;
		found.class = note->class == STREAM_FRAME ? STREAM_FRAGMENT : OTHER_TRAFFIC;
	}
	return found;
}

static __always_inline void leave_note(const struct switch_config *config,
				       const struct fragment_key *key,
				       const struct traffic *traffic)
{
	if (!config->one_stream && traffic->stream != FRER_BEST_EFFORT)
		bpf_map_update_elem(&fragments, key, traffic, BPF_ANY);
}

static __always_inline struct traffic
classify_ipv4(void *header, void *end, const struct switch_config *config)
{
	struct iphdr *ip = header;
	struct fragment_key key = {};
	struct traffic found = unmatched(config);
	__u32 length, fragment;

	if ((void *)(ip + 1) > end)
		return found;
	fragment = bpf_ntohs(ip->frag_off) & (MORE_FRAGMENTS | FRAGMENT_OFFSET);
	if (fragment)
		key = (struct fragment_key){ip->saddr, ip->daddr, ip->id, ip->protocol};
	if (fragment & FRAGMENT_OFFSET)
		return classify_fragment(config, &key);
	length = ip->ihl * 4;
	if (length < sizeof(*ip))
		return found;
	found = classify_transport(header + length, end, ip->protocol, config);
	if (fragment)
		leave_note(config, &key, &found);
	return found;
}

static __always_inline struct traffic
classify_ipv6(void *header, void *end, const struct switch_config *config)
{
	struct ipv6hdr *ip = header;
	struct ipv6_fragment *fragment = (void *)(ip + 1);
	struct fragment_key key = {};
	struct traffic found;

	if ((void *)(ip + 1) > end)
		return unmatched(config);
	if (ip->nexthdr != NEXT_HEADER_FRAGMENT)
		return classify_transport(ip + 1, end, ip->nexthdr, config);
	if ((void *)(fragment + 1) > end)
		return unmatched(config);
	key.source = ip->saddr.in6_u.u6_addr32[3] ^ ip->saddr.in6_u.u6_addr32[2];
	key.destination = ip->daddr.in6_u.u6_addr32[3] ^ ip->daddr.in6_u.u6_addr32[2];
	key.id = fragment->id;
	key.protocol = fragment->next_header;
	if (bpf_ntohs(fragment->offset) & 0xfff8)
		return classify_fragment(config, &key);
	found = classify_transport(fragment + 1, end, fragment->next_header, config);
	leave_note(config, &key, &found);
	return found;
}

static __always_inline struct traffic
classify(void *header, void *end, __be16 protocol, const struct switch_config *config)
{
	if (protocol == bpf_htons(ETH_P_IP))
		return classify_ipv4(header, end, config);
	if (protocol == bpf_htons(ETH_P_IPV6))
		return classify_ipv6(header, end, config);
	return unmatched(config);
}

/* Counts one frame; the map is per CPU, so no atomic operation is needed. */
static __always_inline void count_frame(__u32 index, __u64 bytes, const struct traffic *traffic)
{
	struct station *station;

	index += traffic->stream * STATIONS;
	station = bpf_map_lookup_elem(&stations, &index);
	if (!station)
		return;
	station->frames++;
	station->bytes += bytes;
	if (traffic->class == STREAM_FRAME)
		station->stream_frames++;
	else if (traffic->class == STREAM_FRAGMENT)
		station->stream_fragments++;
}

/* Counts a frame at a card, also behind an R-TAG. */
static __always_inline void count_skb(struct __sk_buff *skb, __u32 station)
{
	struct switch_config *config = bpf_map_lookup_elem(&frer_config, &only);
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	struct r_tag *tag = (void *)(eth + 1);
	struct traffic traffic;

	if (!config)
		return;
	traffic = unmatched(config);
	if ((void *)(eth + 1) <= end) {
		if (eth->h_proto != bpf_htons(FRER_ETHERTYPE))
			traffic = classify(eth + 1, end, eth->h_proto, config);
		else if ((void *)(tag + 1) <= end)
			traffic = classify(tag + 1, end, tag->protocol, config);
	}
	count_frame(station, skb->len, &traffic);
}

#endif
