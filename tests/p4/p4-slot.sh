#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The slot rule in simple_switch: the shared vectors and random packets, in all forms of the
# program, over IPv4, IPv6 and VLAN; and losses between passes (test_p4_slot.c). Needs root, BMv2 and
# p4c.
#
#	tests/p4/p4-slot.sh TEST-PROGRAM BUILD-DIRECTORY/src/p4 build/src/bpf/tag.bpf.o
test=$(realpath "$1")
programs=$2
tag=$3 # tests/xdp/tag.bpf.c, compiled
here=$(dirname "$0")
# shellcheck source=tests/support/report.sh
. "$here/../support/report.sh"
# shellcheck source=tests/support/p4.sh
. "$here/../support/p4.sh"
space=smlp4slot$$

need_p4 "$programs/switchml-64.json"
need_p4 "$programs/switchml-64-staged.json"
need_p4 "$programs/switchml-64-staged-loss.json"
ip netns add "$space" 2>"$work/why" || skip_p4 "no network namespaces here: $(cat "$work/why")"
trap 'ip netns pids $space | xargs -r kill -9; ip netns delete $space; clean_up' EXIT
in_space="ip -n $space"

# All ranks have one port, and addresses of their own.
build() {
	$in_space link set lo up &&
		p4_cable "$space" daemon sw0 "$space" && p4_cable "$space" workers sw1 "$space" &&
		$in_space link set daemon address 02:00:00:00:00:ff &&
		$in_space link set workers address 02:00:00:00:00:00 promisc on
}

# The daemon's address, and those of 64 ranks behind its interface.
give_addresses() {
	{
		echo "address add 10.0.0.255/32 dev daemon"
		echo "address add fd00::ff/64 dev daemon nodad"
		echo "route add 10.0.0.0/24 dev daemon"
		for rank in {0..63}; do
			mac=$(printf '02:00:00:00:00:%02x' "$rank")
			echo "neigh replace 10.0.0.$rank lladdr $mac dev daemon"
			printf 'neigh replace fd00::%x lladdr %s dev daemon\n' "$rank" "$mac"
		done
	} | $in_space -batch -
}

# From now on, all frames between the daemon and the P4 switch have a VLAN tag.
tag_frames() {
	ip netns exec "$space" tc qdisc add dev daemon clsact &&
		ip netns exec "$space" tc filter add dev daemon egress bpf da obj "$tag" sec tc/push &&
		ip netns exec "$space" tc filter add dev daemon ingress bpf da obj "$tag" sec tc/pop
}

untag_frames() {
	ip netns exec "$space" tc qdisc del dev daemon clsact
}

{ build && give_addresses; } 2>"$work/why" || skip_p4 "no such network here: $(tail -n 1 "$work/why")"
for form in switchml-64 switchml-64-staged switchml-64-staged-loss; do
	for family in 4 6 tagged; do
		# A loss has nothing to do with the family.
		[ $family = 4 ] || [ "${form%-loss}" = "$form" ] || continue
		if [ $family = tagged ] && ! tag_frames 2>"$work/why"; then
			echo "left out: VLAN: $(tail -n 1 "$work/why")"
			continue
		fi
		start_simple_switch "$space" "$programs/$form.json" sw0 sw1
		ip netns exec "$space" "$test" "$p4_target" $family "$programs/$form.json" \
			>"$work/out" 2>&1
		say $? "$form, family $family: $(grep -h 'absorbed\|vectors;\|uses lost' "$work/out" | tr '\n' ' ')" \
			"$work/out" "$work/simple_switch"
		kill "$p4_pid"
		wait "$p4_pid" 2>/dev/null
	done
	untag_frames 2>/dev/null
done
exit $((failures > 0))
