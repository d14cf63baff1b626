/* SPDX-License-Identifier: MIT
 *
 * Counts the frames of a host's network card before its egress queue and
 * behind its wire: the two ends of what the network is answerable for.
 */
#include <linux/pkt_cls.h>

#include "stream.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct switch_config);
} frer_config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STATIONS);
	__type(key, __u32);
	__type(value, struct station);
} stations SEC(".maps");

static const __u32 only = 0;

static __always_inline int count(struct __sk_buff *skb, __u32 station)
{
	struct switch_config *config = bpf_map_lookup_elem(&frer_config, &only);
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	enum stream_class class = OTHER_TRAFFIC;

	if (config && (void *)(eth + 1) <= end)
		class = classify(eth + 1, end, eth->h_proto, &config->stream);
	count_frame(&stations, station, skb->len, class);
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
