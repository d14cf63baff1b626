/* SPDX-License-Identifier: MIT
 *
 * A FRER edge switch (IEEE Std 802.1CB): sequence generation, replication, recovery and tag removal
 * between one host port and up to eight member ports, in both directions.
 *
 *   host port   -- tc ingress --> number, push the R-TAG, copy to each member port
 *   member port -- tc ingress --> recover, pop the R-TAG, send to the host port
 *
 * Both are in tc: there a frame already is what an egress queue takes, where XDP would first copy
 * each frame of a virtual link, duplicates included. Where the host eliminates, frames of the
 * member ports go to it with their tags. With FRER off the same programs at the same hooks forward
 * frames untouched over the first member path.
 *
 * Up to sixteen streams, identified by port, each with its own generator and recovery; other frames
 * are best effort, over the first member path.
 */
#include "recovery.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FRER_MAX_STREAMS);
	__type(key, __u32);
	__type(value, struct generator);
} frer_generator SEC(".maps");

/* By stream and member path. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FRER_MAX_STREAMS *FRER_MAX_PATHS);
	__type(key, __u32);
	__type(value, struct recovery);
} frer_individual SEC(".maps");

/* By member path. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FRER_MAX_PATHS);
	__type(key, __u32);
	__type(value, struct fault);
} frer_faults SEC(".maps");

/* --- from the host to the member paths ------------------------------------ */

static __always_inline struct traffic
classify_skb(struct __sk_buff *skb, const struct switch_config *config)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;

	if ((void *)(eth + 1) > end)
		return unmatched(config);
	return classify(eth + 1, end, eth->h_proto, config);
}

struct tagged {
	__be32 addresses[3];
	__be16 ethertype;
	struct r_tag tag;
} __attribute__((packed));

static __always_inline int push_tag(struct __sk_buff *skb, __u16 sequence)
{
	struct tagged *head;
	__be32 *old;

	/* change_head, not adjust_room, which handles IP only: ARP must pass too. */
	if (bpf_skb_change_head(skb, FRER_TAG_BYTES, 0))
		return -1;
	pull_headers(skb);
	head = (void *)(long)skb->data;
	if ((void *)(head + 1) > (void *)(long)skb->data_end)
		return -1;
	old = (void *)head + FRER_TAG_BYTES;
	head->addresses[0] = old[0];
	head->addresses[1] = old[1];
	head->addresses[2] = old[2];
	/* The EtherType after the tag stays where it is. */
	head->ethertype = bpf_htons(FRER_ETHERTYPE);
	head->tag.reserved = 0;
	head->tag.sequence = bpf_htons(sequence);
	return 0;
}

static __always_inline bool link_duplicates(__u32 path)
{
	struct fault *fault = bpf_map_lookup_elem(&frer_faults, &path);

	return fault && fault->duplicate_below && bpf_get_prandom_u32() < fault->duplicate_below;
}

static __always_inline void send_copy(struct __sk_buff *skb, const struct switch_config *config,
				      const struct traffic *traffic, __u32 path)
{
	count_frame(STATION_OUT(1 + path), skb->len, traffic);
	bpf_clone_redirect(skb, config->member_ifindex[path], 0);
}

static __always_inline void send_faulty_copy(struct __sk_buff *skb,
					     const struct switch_config *config,
					     const struct traffic *traffic, __u32 path)
{
	if (!link_duplicates(path))
		return;
	count_frame(STATION_FAULT_COPIED(1 + path), skb->len, traffic);
	send_copy(skb, config, traffic, path);
}

/* Send a copy over each of the first `paths` member paths. */
static __always_inline int replicate(struct __sk_buff *skb, const struct switch_config *config,
				     const struct traffic *traffic, __u32 paths)
{
	__u32 last = paths - 1, path;

	for (path = 0; path < FRER_MAX_PATHS; path++) {
		if (path >= last)
			break;
		send_copy(skb, config, traffic, path);
		send_faulty_copy(skb, config, traffic, path);
	}
	asm volatile("" : "+r"(last)); /* as in settings_of: frerctl has checked the range */
	last &= FRER_MAX_PATHS - 1;
	send_faulty_copy(skb, config, traffic, last);
	count_frame(STATION_OUT(1 + last), skb->len, traffic);
	return bpf_redirect(config->member_ifindex[last], 0);
}

/* IEEE 802.1CB-2017, 7.4.1. */
static __always_inline __u16 next_number(struct generator *generator)
{
	__sync_fetch_and_add(&generator->numbered, 1);
	return generator->stuck ? generator->next : __sync_fetch_and_add(&generator->next, 1);
}

SEC("tc")
int host_ingress(struct __sk_buff *skb)
{
	struct switch_config *config = bpf_map_lookup_elem(&frer_config, &only);
	struct generator *generator;
	struct traffic traffic;
	__u32 stream;

	if (!config || !config->paths)
		return TC_ACT_SHOT;
	pull_headers(skb);
	traffic = classify_skb(skb, config);
	stream = traffic.stream;
	count_frame(STATION_IN(0), skb->len, &traffic);
	if (stream >= FRER_MAX_STREAMS)
		return replicate(skb, config, &traffic, 1);
	generator = bpf_map_lookup_elem(&frer_generator, &stream);
	if (!generator)
		return TC_ACT_SHOT;
	if (skb->gso_segs > 1) {
		/* One number for many segments would have all but one eliminated. */
		__sync_fetch_and_add(&generator->gso_refused, 1);
		return TC_ACT_SHOT;
	}
	if (!settings_of(config, stream)->frer)
		return replicate(skb, config, &traffic, 1);
	if (push_tag(skb, next_number(generator)))
		return TC_ACT_SHOT;
	return replicate(skb, config, &traffic, config->paths);
}

/* --- from the member paths to the host ------------------------------------- */

static __always_inline __u32 port_of(const struct switch_config *config, __u32 ifindex)
{
	__u32 path;

	for (path = 0; path < FRER_MAX_PATHS; path++)
		if (config->member_ifindex[path] == ifindex)
			return 1 + path;
	return 0;
}

static __always_inline bool link_drops(__u32 path)
{
	struct fault *fault = bpf_map_lookup_elem(&frer_faults, &path);

	return fault && fault->drop_below && bpf_get_prandom_u32() < fault->drop_below;
}

/* Pass a tagged frame through the individual recovery function, if there is one, and the compound
 * one. */
static __always_inline enum verdict recover_frame(const struct stream_config *config, __u32 stream,
						  __u32 path, __u32 sequence, __u64 now)
{
	struct recovery *compound = bpf_map_lookup_elem(&frer_recovery, &stream);
	__u32 member = stream * FRER_MAX_PATHS + path;
	struct recovery *individual;
	enum verdict verdict;

	if (!compound)
		return ROGUE;
	if (config->individual) {
		individual = bpf_map_lookup_elem(&frer_individual, &member);
		if (!individual)
			return ROGUE;
		verdict = recover(individual, &config->individual_recovery, sequence, now, true);
		if (verdict != ACCEPT)
			return verdict;
	}
	return recover(compound, &config->recovery, sequence, now, false);
}

static __always_inline int send_to_host(struct __sk_buff *skb, const struct switch_config *config,
					const struct traffic *traffic)
{
	count_frame(STATION_OUT(0), skb->len, traffic);
	return bpf_redirect(config->host_ifindex, 0);
}

SEC("tc")
int member_ingress(struct __sk_buff *skb)
{
	struct switch_config *config = bpf_map_lookup_elem(&frer_config, &only);
	const struct stream_config *stream;
	struct parsed frame;
	enum verdict verdict;
	__u64 now;
	__u32 port;

	if (!config || !config->host_ifindex || parse_member_frame(skb, config, &frame))
		return TC_ACT_SHOT;
	port = port_of(config, skb->ifindex);
	if (link_drops(port - 1))
		return discard(skb, STATION_FAULT_DROPPED(port), &frame.traffic);
	count_frame(STATION_IN(port), skb->len, &frame.traffic);
	if (frame.traffic.stream >= FRER_MAX_STREAMS)
		return frame.tagged ? discard(skb, STATION_UNIDENTIFIED, &frame.traffic) :
				      send_to_host(skb, config, &frame.traffic);
	stream = settings_of(config, frame.traffic.stream);
	if (!stream->frer || stream->leave_tags)
		return send_to_host(skb, config, &frame.traffic);
	now = bpf_ktime_get_ns();
	if (!frame.tagged)
		return accept_untagged(stream, frame.traffic.stream, now) ?
			       send_to_host(skb, config, &frame.traffic) :
			       discard(skb, STATION_TAGLESS, &frame.traffic);
	verdict = recover_frame(stream, frame.traffic.stream, port - 1, frame.sequence, now);
	if (verdict != ACCEPT)
		return discard(skb, verdict == ROGUE ? STATION_ROGUE : STATION_ELIMINATED,
			      &frame.traffic);
	if (pop_tag(skb, frame.protocol))
		return TC_ACT_SHOT;
	return send_to_host(skb, config, &frame.traffic);
}
