/* SPDX-License-Identifier: MIT
 *
 * Sequence recovery and the removal of the R-TAG, in a switch or in the listener itself.
 */
#ifndef TSNREPRO_RECOVERY_BPF_H
#define TSNREPRO_RECOVERY_BPF_H

#include <linux/pkt_cls.h>
#include <stdbool.h>

#include "stream.bpf.h"

/* Ethernet, R-TAG, the longest IPv4 header or IPv6 with a fragment's, UDP. */
#define HEADERS_BYTES (14 + 6 + 60 + 8)

struct recovery {
	struct bpf_spin_lock lock;
	__u32 take_any;
	__u32 recov_seq_num;
	__u32 unused;
	__u64 reloaded_ns; /* when the reset timer was last started; 0: it is stopped */
	__u64 counters[FRER_COUNTERS];
	__u64 history[FRER_HISTORY_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FRER_MAX_STREAMS);
	__type(key, __u32);
	__type(value, struct recovery);
} frer_recovery SEC(".maps");

/* No program reads it: frerctl binds it to the program that recovers, so that it is found by that
 * program and lives as long. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FRER_MAX_STREAMS);
	__type(key, __u32);
	__type(value, struct latent);
} frer_latent SEC(".maps");

/* The mask tells the verifier what the caller has checked; the barrier keeps the compiler from
 * removing it. */
static __always_inline const struct stream_config *
settings_of(const struct switch_config *config, __u32 stream)
{
	asm volatile("" : "+r"(stream));
	return &config->stream[stream & (FRER_MAX_STREAMS - 1)];
}

/* Make the headers contiguous, as direct access needs. */
static __always_inline void pull_headers(struct __sk_buff *skb)
{
	__u32 wanted = skb->len < HEADERS_BYTES ? skb->len : HEADERS_BYTES;

	if (skb->data_end - skb->data < wanted)
		bpf_skb_pull_data(skb, wanted);
}

/* --- the recovery function ---------------------------------------------------- */

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

/* Count the set bits of `count` numbers from `first` on, and clear them if `clear` is set. Word by
 * word: the verifier follows every step of a loop, so 33 are better than 2048. */
static __always_inline __u32
sweep(struct recovery *state, __u32 first, __u32 count, bool clear)
{
	__u64 mask = ~0ULL << (first % 64);
	__s32 left = first % 64 + count; /* bits from the start of the first word to the end */
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

/* IEEE 802.1CB-2017, 7.4.3.4. A zero bit that leaves the history is a loss. Count before
 * clearing: delta is less than the length, so what leaves was in the history. */
static __always_inline void
shift_history(struct recovery *state, __u32 delta, __u32 length)
{
	__u32 head = state->recov_seq_num;

	state->counters[FRER_LOST] += delta - sweep(state, head + 1 - length, delta, false);
	sweep(state, head + 1, delta, true);
	state->recov_seq_num = (head + delta) % FRER_SEQUENCE_SPACE;
	mark(state, state->recov_seq_num);
}

/* IEEE 802.1CB-2017, 7.4.3.3: RECOVERY_TIMEOUT. The timer starts with each
 * accepted packet and stops when it expires. */
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

/* IEEE 802.1CB-2017, 7.4.3.4 and 7.4.3.5; the timer of an individual recovery function is also
 * restarted by a discarded packet. */
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

/* --- frames with an R-TAG ------------------------------------------------------ */

/* Make the kernel see another EtherType. adjust_room moves headers only of what the kernel takes
 * for IP, and the kernel reads the EtherType again only when it removes a VLAN tag: so push one,
 * overwrite the R-TAG's EtherType behind it, and pop it. A frame without VLAN tag needs two, for the
 * outermost is kept beside the frame. */
static __always_inline int set_protocol(struct __sk_buff *skb, __be16 protocol)
{
	bool vlan = skb->vlan_present;

	if (!vlan && bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), 1))
		return -1;
	if (bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), 1) ||
	    bpf_skb_store_bytes(skb, 2 * ETH_ALEN + 4, &protocol, sizeof(protocol), 0) ||
	    bpf_skb_vlan_pop(skb))
		return -1;
	return vlan ? 0 : bpf_skb_vlan_pop(skb);
}

static __always_inline int pop_tag(struct __sk_buff *skb, __be16 protocol)
{
	__u32 bytes = skb->len, least = ETH_HLEN + FRER_TAG_BYTES + sizeof(struct iphdr);

	/* The kernel refuses to leave less than an IP header, so pad a shorter frame meanwhile. */
	if (bytes < least && bpf_skb_change_tail(skb, least, 0))
		return -1;
	if (set_protocol(skb, bpf_htons(ETH_P_IP)) ||
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
	__be16 protocol; /* after the R-TAG */
	struct traffic traffic;
};

/* A VLAN tag before the R-TAG is not in the frame any more: the kernel keeps it beside it. */
static __always_inline int
parse_member_frame(struct __sk_buff *skb, const struct switch_config *config, struct parsed *frame)
{
	void *data, *end, *next;
	struct ethhdr *eth;

	pull_headers(skb);
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

/* Count and discard a frame, without one of the kernel's drops. */
static __always_inline int discard(struct __sk_buff *skb, __u32 station,
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

#endif
