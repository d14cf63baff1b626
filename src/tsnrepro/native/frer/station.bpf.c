/* SPDX-License-Identifier: MIT
 *
 * Counts the frames of a host's network card before its egress queue and
 * behind its wire: the two ends of what the network is answerable for. And of a switch's
 * ports where the kernel itself forwards, also behind an R-TAG.
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
