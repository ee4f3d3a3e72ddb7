/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * For tc on an interface: outgoing packets get VLAN tag 5, and incoming packets lose their
 * tag before the host sees them. So links carry tags even if the kernel has no VLAN
 * interfaces.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tc/push")
int push(struct __sk_buff *skb)
{
	return bpf_skb_vlan_push(skb, __builtin_bswap16(0x8100), 5) ? TC_ACT_SHOT : TC_ACT_OK;
}

SEC("tc/pop")
int pop(struct __sk_buff *skb)
{
	if (skb->vlan_present)
		bpf_skb_vlan_pop(skb);
	return TC_ACT_OK;
}
