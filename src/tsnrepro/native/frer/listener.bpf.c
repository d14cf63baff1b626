/* SPDX-License-Identifier: MIT
 *
 * A listener that eliminates: sequence recovery and tag removal on its own device, ahead of its
 * network stack, and the counters of a station. What it sends has no R-TAG: the switch it is
 * connected to numbers and replicates it.
 *
 * All copies arrive over one link, so the member path of a copy is unknown and there is no
 * individual recovery function.
 */
#include "recovery.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Pass a frame to the stack without its R-TAG. */
static __always_inline int pass_untagged(struct __sk_buff *skb, __be16 protocol)
{
	if (pop_tag(skb, protocol))
		return TC_ACT_SHOT;
	/* pop_tag has made the kernel take it for IP. */
	if (protocol != bpf_htons(ETH_P_IP) && set_protocol(skb, protocol))
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
		return frame.tagged ? discard(skb, STATION_UNIDENTIFIED, &frame.traffic) :
				      TC_ACT_UNSPEC;
	stream = settings_of(config, frame.traffic.stream);
	if (!stream->frer)
		return TC_ACT_UNSPEC;
	now = bpf_ktime_get_ns();
	if (!frame.tagged)
		return accept_untagged(stream, frame.traffic.stream, now) ?
			       TC_ACT_UNSPEC :
			       discard(skb, STATION_TAGLESS, &frame.traffic);
	state = bpf_map_lookup_elem(&frer_recovery, &frame.traffic.stream);
	if (!state)
		return TC_ACT_SHOT;
	verdict = recover(state, &stream->recovery, frame.sequence, now, false);
	if (verdict != ACCEPT)
		return discard(skb, verdict == ROGUE ? STATION_ROGUE : STATION_ELIMINATED,
			      &frame.traffic);
	return pass_untagged(skb, frame.protocol);
}

SEC("tc")
int listener_egress(struct __sk_buff *skb)
{
	count_skb(skb, STATION_OUT(0));
	return TC_ACT_UNSPEC;
}
