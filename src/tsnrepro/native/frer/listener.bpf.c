/* SPDX-License-Identifier: MIT
 *
 * A listener that eliminates: sequence recovery and tag removal on its own card, in front of its
 * network stack, and the counting that any host's card has. What it sends has no R-TAG: the switch
 * at its other end numbers and copies it.
 *
 * All copies come over one link, so they are not told apart by member path: there is no individual
 * recovery function.
 */
#include "recovery.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Lets the stack have the frame as what it is behind its R-TAG. */
static __always_inline int pass_untagged(struct __sk_buff *skb, __be16 protocol)
{
	if (pop_tag(skb, protocol))
		return TC_ACT_SHOT;
	/* It was taken for IP meanwhile, and what takes it for what it is writes that into it too. */
	if (protocol != bpf_htons(ETH_P_IP) && take_for(skb, protocol))
		return TC_ACT_SHOT;
	return TC_ACT_UNSPEC;
}

SEC("tc")
int listener_ingress(struct __sk_buff *skb)
{
	struct switch_config *config = bpf_map_lookup_elem(&frer_config, &only);
	const struct stream_config *stream;
	struct recovery *state;
	struct parsed frame;
	enum verdict verdict;
	__u64 now;

	if (!config || parse_member_frame(skb, config, &frame))
		return TC_ACT_SHOT;
	count_frame(STATION_IN(0), skb->len, &frame.traffic);
	if (frame.traffic.stream >= FRER_MAX_STREAMS)
		return frame.tagged ? refuse(skb, STATION_UNIDENTIFIED, &frame.traffic) :
				      TC_ACT_UNSPEC;
	stream = settings_of(config, frame.traffic.stream);
	if (!stream->frer)
		return TC_ACT_UNSPEC;
	now = bpf_ktime_get_ns();
	if (!frame.tagged)
		return accept_untagged(stream, frame.traffic.stream, now) ?
			       TC_ACT_UNSPEC :
			       refuse(skb, STATION_TAGLESS, &frame.traffic);
	state = bpf_map_lookup_elem(&frer_recovery, &frame.traffic.stream);
	if (!state)
		return TC_ACT_SHOT;
	verdict = recover(state, &stream->recovery, frame.sequence, now, false);
	if (verdict != ACCEPT)
		return refuse(skb, verdict == ROGUE ? STATION_ROGUE : STATION_ELIMINATED,
			      &frame.traffic);
	return pass_untagged(skb, frame.protocol);
}

SEC("tc")
int listener_egress(struct __sk_buff *skb)
{
	count_skb(skb, STATION_OUT(0));
	return TC_ACT_UNSPEC;
}
