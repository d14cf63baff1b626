/* SPDX-License-Identifier: MIT
 *
 * Locates every frame of a stream that the kernel drops: the kfree_skb tracepoint gives the code
 * and the reason, the frame its device and namespace. Field offsets come from the running kernel's
 * BTF.
 */
#include "ports.bpf.h"

#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct __attribute__((preserve_access_index)) {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

struct sk_buff {
	struct net_device *dev;
	unsigned char *head;
	__u16 network_header;
	__u16 mac_header;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct drop_key);
	__type(value, __u64);
} stream_drops SEC(".maps");

#define SLOTS 256
struct first_pass {
	__u32 running;
	__u32 unused;
	__u64 seen[SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct first_pass);
} first_passes SEC(".maps");

/* Return the IPv4 header, or 0: behind an R-TAG the kernel's network header points at the tag,
 * because the kernel does not know the EtherType. */
static __always_inline const void *ipv4_header(struct sk_buff *skb)
{
	const void *network = BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, network_header);
	__u8 first = 0;
	__be16 tag[3] = {};

	bpf_probe_read_kernel(&first, sizeof(first), network);
	if (first >> 4 == 4)
		return network;
	bpf_probe_read_kernel(tag, sizeof(tag), network);
	return tag[0] == 0 && tag[2] == bpf_htons(ETH_P_IP) ? network + sizeof(tag) : 0;
}

static __always_inline int
is_stream(const void *header, const struct switch_config *config, struct drop_key *key)
{
	struct iphdr ip = {};
	struct udphdr udp = {};
	__u32 stream;

	if (bpf_probe_read_kernel(&ip, sizeof(ip), header) || ip.version != 4 ||
	    (ip.protocol != IPPROTO_UDP && ip.protocol != IPPROTO_TCP))
		return 0;
	key->later_fragment = (bpf_ntohs(ip.frag_off) & 0x1fff) != 0;
	if (key->later_fragment)
		return ip.protocol == config->stream[0].filter.ip_protocol;
	if (bpf_probe_read_kernel(&udp, sizeof(udp), header + ip.ihl * 4))
		return 0;
	stream = stream_at(ip.protocol, udp.dest);
	if (!stream || stream > FRER_MAX_STREAMS)
		return 0;
	key->stream = stream - 1;
	return ip.protocol != IPPROTO_UDP ||
	       bpf_ntohs(udp.len) >=
		       sizeof(udp) + config->stream[stream - 1].filter.min_payload;
}

static __always_inline void count_drop(const struct drop_key *key)
{
	__u64 one = 1, *count = bpf_map_lookup_elem(&stream_drops, key);

	if (!count && !bpf_map_update_elem(&stream_drops, key, &one, BPF_NOEXIST))
		return;
	/* Another CPU may have created the entry. */
	if (!count)
		count = bpf_map_lookup_elem(&stream_drops, key);
	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline void record_drop(struct bpf_raw_tracepoint_args *ctx)
{
	struct switch_config *config = bpf_map_lookup_elem(&frer_config, &only);
	struct sk_buff *skb = (struct sk_buff *)ctx->args[0];
	struct drop_key key = {.location = ctx->args[1], .reason = ctx->args[2]};
	struct net_device *dev;
	const void *header;

	if (!config || !config->stream[0].filter.ip_protocol)
		return;
	header = ipv4_header(skb);
	if (!header || !is_stream(header, config, &key))
		return;
	/* In a socket's queue another field takes the place of the device: reading through it
	 * fails and leaves zero. */
	dev = BPF_CORE_READ(skb, dev);
	if (dev) {
		key.ifindex = BPF_CORE_READ(dev, ifindex);
		key.netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	}
	count_drop(&key);
}

/* The kernel skips a program that an interrupt finds running on the same CPU, which happens often
 * where a queue's timer fires every few frames. So two programs run for each drop, one after the
 * other, and the second records what the first was skipped for: while the first is interrupted that
 * is every drop, otherwise one that the first has not marked as seen (it was interrupted before its
 * first or after its last instruction here). */
SEC("raw_tracepoint/kfree_skb")
int stream_drop(struct bpf_raw_tracepoint_args *ctx)
{
	struct first_pass *first = bpf_map_lookup_elem(&first_passes, &only);

	if (!first)
		return 0;
	first->running = 1;
	barrier();
	record_drop(ctx);
	first->seen[ctx->args[0] / 256 % SLOTS] = ctx->args[0];
	barrier();
	first->running = 0;
	return 0;
}

SEC("raw_tracepoint/kfree_skb")
int stream_drop_again(struct bpf_raw_tracepoint_args *ctx)
{
	struct first_pass *first = bpf_map_lookup_elem(&first_passes, &only);
	__u64 *seen;

	if (!first)
		return 0;
	seen = &first->seen[ctx->args[0] / 256 % SLOTS];
	if (!first->running && *seen == ctx->args[0]) {
		*seen = 0;
		return 0;
	}
	record_drop(ctx);
	return 0;
}
