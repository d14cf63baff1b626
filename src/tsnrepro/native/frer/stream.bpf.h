/* SPDX-License-Identifier: MIT
 *
 * Stream identification, and the counters of frames at each station.
 */
#ifndef TSNREPRO_STREAM_BPF_H
#define TSNREPRO_STREAM_BPF_H

#include <linux/ipv6.h>

#include "ports.bpf.h"

#define NEXT_HEADER_FRAGMENT 44
#define MORE_FRAGMENTS 0x2000
#define FRAGMENT_OFFSET 0x1fff

enum stream_class { OTHER_TRAFFIC, STREAM_FRAME, STREAM_FRAGMENT };

struct traffic {
	__u32 stream; /* its index, or FRER_BEST_EFFORT */
	enum stream_class class; /* what it counts as there */
};

struct r_tag {
	__be16 reserved;
	__be16 sequence;
	__be16 protocol; /* EtherType of the frame without the tag */
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

/* Only the first fragment of a datagram has its ports: with several streams, its stream is stored
 * here for the later ones. */
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

/* Classify a frame without the port of a stream. */
static __always_inline struct traffic unmatched(const struct switch_config *config)
{
	return (struct traffic){config->one_stream ? 0 : FRER_BEST_EFFORT, OTHER_TRAFFIC};
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
	/* Replies of a stream's listener are replicated like the stream, but not counted as it. */
	stream = stream_at(protocol, udp->source);
	if (stream && stream <= FRER_MAX_STREAMS)
		found.stream = stream - 1;
	return found;
}

static __always_inline struct traffic
classify_fragment(const struct switch_config *config, const struct fragment_key *key)
{
	struct traffic found = unmatched(config), *first;

	if (config->one_stream) {
		if (key->protocol == config->stream[0].filter.ip_protocol)
			found.class = STREAM_FRAGMENT;
		return found;
	}
	first = bpf_map_lookup_elem(&fragments, key);
	if (first) {
		found.stream = first->stream;
		found.class = first->class == STREAM_FRAME ? STREAM_FRAGMENT : OTHER_TRAFFIC;
	}
	return found;
}

static __always_inline void store_first_fragment(const struct switch_config *config,
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
		store_first_fragment(config, &key, &found);
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
	store_first_fragment(config, &key, &found);
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

/* Count one frame; the map is per CPU, so no atomic operation is needed. */
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

/* Count a frame at a device, with or without an R-TAG. */
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
