/* SPDX-License-Identifier: MIT
 *
 * An edge switch of the emulated testbed: IEEE 802.1CB sequence generation,
 * replication, recovery and tag removal between one host port and up to eight
 * member ports, in both directions.
 *
 *   host port   -- tc ingress --> number, push the R-TAG, copy to each member port
 *   member port -- tc ingress --> recover, pop the R-TAG, send to the host port
 *
 * Both are in tc: there a frame already is what an egress queue takes, where XDP would first
 * copy each frame that a virtual link hands over, duplicates included.
 * As control the same programs at the same hooks forward the frame untouched
 * over the first member path.
 *
 * Up to sixteen streams, told by port, each with its own generator and recovery; what fits none
 * goes as best effort over the first member path.
 */
#include <linux/pkt_cls.h>
#include <stdbool.h>

#include "stream.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Ethernet, R-TAG, the longest IPv4 header or IPv6 with a fragment's, UDP. */
#define HEADERS_BYTES (14 + 6 + 60 + 8)

struct recovery {
	struct bpf_spin_lock lock;
	__u32 take_any;
	__u32 recov_seq_num;
	__u32 unused;
	__u64 reloaded_ns; /* when the reset timer was last started; 0: it does not run */
	__u64 counters[FRER_COUNTERS];
	__u64 history[FRER_HISTORY_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FRER_MAX_STREAMS);
	__type(key, __u32);
	__type(value, struct generator);
} frer_generator SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FRER_MAX_STREAMS);
	__type(key, __u32);
	__type(value, struct recovery);
} frer_recovery SEC(".maps");

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

/* No program reads it: frerctl binds it to member_ingress, so that it is found and goes with it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FRER_MAX_STREAMS);
	__type(key, __u32);
	__type(value, struct latent);
} frer_latent SEC(".maps");

/* The mask tells the verifier what the caller has made sure of; the barrier keeps the compiler
 * from reasoning it away. */
static __always_inline const struct stream_config *
settings_of(const struct switch_config *config, __u32 stream)
{
	asm volatile("" : "+r"(stream));
	return &config->stream[stream & (FRER_MAX_STREAMS - 1)];
}

/* --- from the host to the member paths ------------------------------------ */

/* As far as headers are read and written, the bytes must lie in one piece. */
static __always_inline void have_headers(struct __sk_buff *skb)
{
	__u32 wanted = skb->len < HEADERS_BYTES ? skb->len : HEADERS_BYTES;

	if (skb->data_end - skb->data < wanted)
		bpf_skb_pull_data(skb, wanted);
}

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

	/* change_head, not adjust_room: the latter knows IP only, and ARP must pass too. */
	if (bpf_skb_change_head(skb, FRER_TAG_BYTES, 0))
		return -1;
	have_headers(skb);
	head = (void *)(long)skb->data;
	if ((void *)(head + 1) > (void *)(long)skb->data_end)
		return -1;
	old = (void *)head + FRER_TAG_BYTES;
	head->addresses[0] = old[0];
	head->addresses[1] = old[1];
	head->addresses[2] = old[2];
	/* The EtherType behind the tag stays where it is. */
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

/* Sends a copy over each of the first `paths` member paths. */
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
	asm volatile("" : "+r"(last)); /* as in settings_of: frerctl has made sure of the range */
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
	have_headers(skb);
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

static __always_inline bool seen(const struct recovery *state, __u32 sequence)
{
	return state->history[(sequence / 64) % FRER_HISTORY_WORDS] >> (sequence % 64) & 1;
}

static __always_inline void mark(struct recovery *state, __u32 sequence)
{
	state->history[(sequence / 64) % FRER_HISTORY_WORDS] |= 1ULL << (sequence % 64);
}

static __always_inline void
start_anywhere(struct recovery *state, __u32 sequence)
{
	__u32 word;

	for (word = 0; word < FRER_HISTORY_WORDS; word++)
		state->history[word] = 0;
	state->take_any = 0;
	state->recov_seq_num = sequence;
	mark(state, sequence);
}

static __always_inline __u32 ones(__u64 word)
{
	word -= word >> 1 & 0x5555555555555555ULL;
	word = (word & 0x3333333333333333ULL) + (word >> 2 & 0x3333333333333333ULL);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return word * 0x0101010101010101ULL >> 56;
}

/* Counts the set bits of `count` numbers from `first` on, and clears them if asked to.
 * Word by word: the verifier follows every step of a loop, so 33 are better than 2048. */
static __always_inline __u32
sweep(struct recovery *state, __u32 first, __u32 count, bool clear)
{
	__u64 mask = ~0ULL << (first % 64);
	__s32 left = first % 64 + count; /* from the first word's first bit to the end */
	__u32 step, found = 0;

	for (step = 0; step <= FRER_HISTORY_WORDS; step++) {
		__u64 *word = &state->history[(first / 64 + step) % FRER_HISTORY_WORDS];

		if (left < 64)
			mask &= (1ULL << left) - 1;
		found += ones(*word & mask);
		if (clear)
			*word &= ~mask;
		mask = ~0ULL;
		left -= 64;
		if (left <= 0)
			break;
	}
	return found;
}

/* IEEE 802.1CB-2017, 7.4.3.4. A zero bit that leaves the history is a loss. What leaves was
 * there before, because delta is less than the length: so count first, then clear. */
static __always_inline void
shift_history(struct recovery *state, __u32 delta, __u32 length)
{
	__u32 head = state->recov_seq_num;

	state->counters[FRER_LOST] += delta - sweep(state, head + 1 - length, delta, false);
	sweep(state, head + 1, delta, true);
	state->recov_seq_num = (head + delta) % FRER_SEQUENCE_SPACE;
	mark(state, state->recov_seq_num);
}

/* IEEE 802.1CB-2017, 7.4.3.3: RECOVERY_TIMEOUT. The timer runs from an accepted
 * packet on, and stands still after it has expired. */
static __always_inline void expire(struct recovery *state, __u64 reset, __u64 now)
{
	if (!reset || !state->reloaded_ns || now < state->reloaded_ns + reset)
		return;
	state->take_any = 1;
	state->reloaded_ns = 0;
	state->counters[FRER_RESETS]++;
}

enum verdict { ACCEPT, DUPLICATE, ROGUE };

static __always_inline enum verdict
recover_by_vector(struct recovery *state, __u32 sequence, __u32 length)
{
	__s32 delta = (__s16)(sequence - state->recov_seq_num);

	if (delta >= (__s32)length || delta <= -(__s32)length) {
		state->counters[FRER_ROGUE]++;
		return ROGUE;
	}
	if (delta > 0) {
		state->counters[FRER_OUT_OF_ORDER] += delta != 1;
		shift_history(state, delta, length);
		return ACCEPT;
	}
	if (seen(state, sequence)) {
		state->counters[FRER_DISCARDED]++;
		return DUPLICATE;
	}
	mark(state, sequence);
	state->counters[FRER_OUT_OF_ORDER]++;
	return ACCEPT;
}

/* IEEE 802.1CB-2017, 7.4.3.5: only a repeat of the last number is a duplicate. */
static __always_inline enum verdict recover_by_match(struct recovery *state, __u32 sequence)
{
	if (sequence == state->recov_seq_num) {
		state->counters[FRER_DISCARDED]++;
		return DUPLICATE;
	}
	state->counters[FRER_OUT_OF_ORDER] +=
		sequence != (state->recov_seq_num + 1) % FRER_SEQUENCE_SPACE;
	state->recov_seq_num = sequence;
	return ACCEPT;
}

/* IEEE 802.1CB-2017, 7.4.3.4 and 7.4.3.5; the timer of an individual recovery function runs
 * from a discarded packet too. */
static __noinline enum verdict recover(struct recovery *state, const struct recovery_config *config,
				       __u32 sequence, __u64 now, bool individual)
{
	__u32 algorithm = config->algorithm, length = config->history_length;
	__u64 reset = config->reset_ns;
	enum verdict verdict;

	bpf_spin_lock(&state->lock);
	expire(state, reset, now);
	if (state->take_any) {
		start_anywhere(state, sequence);
		verdict = ACCEPT;
	} else if (algorithm == FRER_MATCH) {
		verdict = recover_by_match(state, sequence);
	} else {
		verdict = recover_by_vector(state, sequence, length);
	}
	if (verdict == ACCEPT)
		state->counters[FRER_PASSED]++;
	if (verdict == ACCEPT || individual)
		state->reloaded_ns = now;
	bpf_spin_unlock(&state->lock);
	return verdict;
}

static __always_inline bool
accept_tagless(struct recovery *state, const struct stream_config *config, __u64 now)
{
	__u32 take = config->take_no_sequence;
	__u64 reset = config->recovery.reset_ns;

	bpf_spin_lock(&state->lock);
	expire(state, reset, now);
	state->counters[FRER_TAGLESS]++;
	if (take) {
		state->counters[FRER_PASSED]++;
		state->reloaded_ns = now;
	}
	bpf_spin_unlock(&state->lock);
	return take;
}

static __always_inline __u32 port_of(const struct switch_config *config, __u32 ifindex)
{
	__u32 path;

	for (path = 0; path < FRER_MAX_PATHS; path++)
		if (config->member_ifindex[path] == ifindex)
			return 1 + path;
	return 0;
}

/* The kernel moves the head of a frame (adjust_room) only where it takes it for IP, which it does
 * not with our EtherType. It reads the EtherType again where it takes a VLAN tag off: so one is
 * put on, the R-TAG is overwritten behind it, and it is taken off again. Where a frame came without
 * VLAN tag two are put on, for the outermost is in the frame only as a note. */
static __always_inline int take_for_ip(struct __sk_buff *skb)
{
	bool vlan = skb->vlan_present;
	const __be16 ipv4 = bpf_htons(ETH_P_IP);

	if (!vlan && bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), 1))
		return -1;
	if (bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), 1) ||
	    bpf_skb_store_bytes(skb, 2 * ETH_ALEN + 4, &ipv4, sizeof(ipv4), 0) ||
	    bpf_skb_vlan_pop(skb))
		return -1;
	return vlan ? 0 : bpf_skb_vlan_pop(skb);
}

static __always_inline int pop_tag(struct __sk_buff *skb, __be16 protocol)
{
	__u32 bytes = skb->len, least = ETH_HLEN + FRER_TAG_BYTES + sizeof(struct iphdr);

	/* What is shorter than an IP header is not let go, so it is longer meanwhile. */
	if (bytes < least && bpf_skb_change_tail(skb, least, 0))
		return -1;
	if (take_for_ip(skb) ||
	    bpf_skb_adjust_room(skb, -FRER_TAG_BYTES, BPF_ADJ_ROOM_MAC,
				BPF_F_ADJ_ROOM_NO_CSUM_RESET))
		return -1;
	if (bytes < least && bpf_skb_change_tail(skb, bytes - FRER_TAG_BYTES, 0))
		return -1;
	if (protocol == bpf_htons(ETH_P_IP))
		return 0;
	return bpf_skb_store_bytes(skb, 2 * ETH_ALEN, &protocol, sizeof(protocol), 0);
}

struct parsed {
	bool tagged;
	__u16 sequence;
	__be16 protocol; /* behind the R-TAG */
	struct traffic traffic;
};

/* A VLAN tag that stood before the R-TAG is out of the frame by now: the kernel keeps it apart. */
static __always_inline int
parse_member_frame(struct __sk_buff *skb, const struct switch_config *config, struct parsed *frame)
{
	void *data, *end, *next;
	struct ethhdr *eth;

	have_headers(skb);
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	eth = data;
	next = eth + 1;
	if (next > end)
		return -1;
	frame->protocol = eth->h_proto;
	frame->tagged = frame->protocol == bpf_htons(FRER_ETHERTYPE);
	if (frame->tagged) {
		struct r_tag *tag = next;

		if ((void *)(tag + 1) > end)
			return -1;
		frame->sequence = bpf_ntohs(tag->sequence);
		frame->protocol = tag->protocol;
		next = tag + 1;
	}
	frame->traffic = classify(next, end, frame->protocol, config);
	return 0;
}

static __always_inline bool link_drops(__u32 path)
{
	struct fault *fault = bpf_map_lookup_elem(&frer_faults, &path);

	return fault && fault->drop_below && bpf_get_prandom_u32() < fault->drop_below;
}

/* Runs a tagged frame through the individual recovery function, where there is one, and the
 * compound one. */
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

/* Takes the frame without a trace among the kernel's drops: it is counted here. */
static __always_inline int refuse(struct __sk_buff *skb, __u32 station,
				  const struct traffic *traffic)
{
	count_frame(station, skb->len, traffic);
	return TC_ACT_STOLEN;
}

static __always_inline bool accept_untagged(const struct stream_config *config, __u32 stream,
					    __u64 now)
{
	struct recovery *state = bpf_map_lookup_elem(&frer_recovery, &stream);

	return state && accept_tagless(state, config, now);
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
		return refuse(skb, STATION_FAULT_DROPPED(port), &frame.traffic);
	count_frame(STATION_IN(port), skb->len, &frame.traffic);
	if (frame.traffic.stream >= FRER_MAX_STREAMS)
		return frame.tagged ? refuse(skb, STATION_UNIDENTIFIED, &frame.traffic) :
				      send_to_host(skb, config, &frame.traffic);
	stream = settings_of(config, frame.traffic.stream);
	if (!stream->frer)
		return send_to_host(skb, config, &frame.traffic);
	now = bpf_ktime_get_ns();
	if (!frame.tagged)
		return accept_untagged(stream, frame.traffic.stream, now) ?
			       send_to_host(skb, config, &frame.traffic) :
			       refuse(skb, STATION_TAGLESS, &frame.traffic);
	verdict = recover_frame(stream, frame.traffic.stream, port - 1, frame.sequence, now);
	if (verdict != ACCEPT)
		return refuse(skb, verdict == ROGUE ? STATION_ROGUE : STATION_ELIMINATED,
			      &frame.traffic);
	if (pop_tag(skb, frame.protocol))
		return TC_ACT_SHOT;
	return send_to_host(skb, config, &frame.traffic);
}
