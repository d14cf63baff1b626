/* SPDX-License-Identifier: MIT
 *
 * VLAN tags for hosts whose kernel has no VLAN devices: frames that leave get a tag with the packet's
 * priority as PCP, frames that arrive lose it and get the PCP as priority (IEEE Std 802.1Q-2022,
 * 6.9.3). tc attaches `push` to a device's clsact egress, `pop` to its ingress; see tsn-bridge(8).
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define VLAN_ID 10
#define PCP_SHIFT 13

SEC("push")
int push_tag(struct __sk_buff *skb)
{
	__u16 tag = (__u16)((skb->priority & 7) << PCP_SHIFT | VLAN_ID);

	if (bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), tag))
		return TC_ACT_SHOT;
	return TC_ACT_OK;
}

SEC("pop")
int pop_tag(struct __sk_buff *skb)
{
	if (!skb->vlan_present)
		return TC_ACT_OK;
	skb->priority = skb->vlan_tci >> PCP_SHIFT;
	if (bpf_skb_vlan_pop(skb))
		return TC_ACT_SHOT;
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
