/* SPDX-License-Identifier: MIT
 *
 * Counts the frames of a host's network card before its egress queue and
 * behind its wire: the two ends of what the network is answerable for. And of a switch's
 * ports where the kernel itself forwards, also behind an R-TAG.
 */
#include <linux/pkt_cls.h>

#include "stream.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static __always_inline int count(struct __sk_buff *skb, __u32 station)
{
	struct switch_config *config = bpf_map_lookup_elem(&frer_config, &only);
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	struct r_tag *tag = (void *)(eth + 1);
	struct traffic traffic;

	if (!config)
		return TC_ACT_UNSPEC;
	traffic = unmatched(config);
	if ((void *)(eth + 1) <= end) {
		if (eth->h_proto != bpf_htons(FRER_ETHERTYPE))
			traffic = classify(eth + 1, end, eth->h_proto, config);
		else if ((void *)(tag + 1) <= end)
			traffic = classify(tag + 1, end, tag->protocol, config);
	}
	count_frame(station, skb->len, &traffic);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int station_egress(struct __sk_buff *skb)
{
	return count(skb, STATION_OUT(0));
}

SEC("tc")
int station_ingress(struct __sk_buff *skb)
{
	return count(skb, STATION_IN(0));
}
