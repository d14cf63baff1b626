/* SPDX-License-Identifier: MIT
 *
 * Counts the frames of a device, with or without R-TAG, as they enter its egress queue and as they
 * arrive: on a host these are the two ends of the network.
 */
#include <linux/pkt_cls.h>

#include "stream.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("tc")
int station_egress(struct __sk_buff *skb)
{
	count_skb(skb, STATION_OUT(0));
	return TC_ACT_UNSPEC;
}

SEC("tc")
int station_ingress(struct __sk_buff *skb)
{
	count_skb(skb, STATION_IN(0));
	return TC_ACT_UNSPEC;
}
